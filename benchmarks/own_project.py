"""A project for benchmarks of `minions run`, and GNU parallel beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LONGEST_SECONDS = 3600.0
_NOBODY = {
    "GIT_AUTHOR_NAME": "Nobody",
    "GIT_AUTHOR_EMAIL": "nobody@example.org",
    "GIT_COMMITTER_NAME": "Nobody",
    "GIT_COMMITTER_EMAIL": "nobody@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


@contextmanager
def project(table: str, files: dict[str, str] | None = None) -> Generator[Path]:
    """A git repository with this minions.toml, for as long as the block runs."""
    root = Path(tempfile.mkdtemp(prefix="minions-bench-"))
    try:
        for name, text in {"minions.toml": table, ".gitignore": "out/\n", **(files or {})}.items():
            (root / name).write_text(text)
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "bench"]):
            subprocess.run(["git", "-C", root, *words], env={**os.environ, **_NOBODY}, check=True)
        yield root
    finally:
        _minions(root, "stop", check=False)
        shutil.rmtree(root, ignore_errors=True)


def run(root: Path) -> float:
    """`minions run` to its end, from the command to the last output in its place; its seconds."""
    began = time.monotonic()
    _minions(root, "run", check=True)
    return time.monotonic() - began


def ledger(root: Path) -> str:
    """`minions ledger --json`."""
    return _minions(root, "ledger", "--json", check=True)


def _minions(root: Path, *words: str, check: bool) -> str:
    argv = [sys.executable, "-m", "minions.commands.main", *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MINIONS_")}
    done = subprocess.run(
        argv, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE if not check else None,
        text=True, check=check, timeout=_LONGEST_SECONDS,
    )  # fmt: skip
    return done.stdout


def gnu_parallel(root: Path, arguments: Sequence[str], lines: Sequence[str]) -> float:
    """GNU parallel over these lines; its seconds."""
    program = shutil.which("parallel")
    if program is None:
        raise SystemExit("GNU parallel is not installed")
    began = time.monotonic()
    subprocess.run(
        [program, "--will-cite", *arguments], cwd=root, input="".join(f"{line}\n" for line in lines), text=True,
        stdout=subprocess.DEVNULL, check=True, timeout=_LONGEST_SECONDS,
    )  # fmt: skip
    return time.monotonic() - began
