"""Projects of tests: real git repositories with a few commits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_NOBODY = {
    "GIT_AUTHOR_NAME": "Nobody",
    "GIT_AUTHOR_EMAIL": "nobody@example.org",
    "GIT_COMMITTER_NAME": "Nobody",
    "GIT_COMMITTER_EMAIL": "nobody@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


def run_git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", root, *words], env={**os.environ, **_NOBODY}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(root: Path, files: dict[str, str | bytes], message: str = "a change") -> str:
    """Write the files and commit them; the full id. The repository is made when there is none."""
    if not (root / ".git").exists():
        root.mkdir(parents=True, exist_ok=True)
        run_git(root, "init", "--quiet", "--initial-branch=main")
    write(root, files)
    run_git(root, "add", "--all")
    run_git(root, "commit", "--quiet", "--message", message)
    return run_git(root, "rev-parse", "HEAD")


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
