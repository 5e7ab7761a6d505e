"""The project on the coordinator: which commit, what was changed since, and what of it another repository lacks."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minions.hosts.faults import CheckoutRefused

_OF_THE_USER = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH")


@dataclass(frozen=True, slots=True)
class Patch:
    """What a tree has beyond its commit. tree: the id of the tree that must come out."""

    content: bytes
    tree: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths that differ from the commit, and those that git does not know and does not ignore."""

    changed: tuple[str, ...]
    untracked: tuple[str, ...]


async def git(
    root: Path, *words: str, environment: Mapping[str, str] | None = None, body: bytes = b""
) -> tuple[int, bytes, str]:
    """Run git in the project; its exit code, stdout and stderr. Untouched by a GIT_DIR that a hook may have set."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _OF_THE_USER
    }
    process = await asyncio.create_subprocess_exec(
        "git",
        "-C",
        str(root),
        *words,
        env={**inherited, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **(environment or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(body)
    assert process.returncode is not None
    return process.returncode, out, err.decode(errors="replace").strip()


async def must(root: Path, *words: str, environment: Mapping[str, str] | None = None, body: bytes = b"") -> bytes:
    """The stdout of git. Raises CheckoutRefused with what git said."""
    code, out, err = await git(root, *words, environment=environment, body=body)
    if code:
        raise CheckoutRefused(f"git {words[0]} failed in {root}: {err.splitlines()[-1] if err else f'code {code}'}")
    return out


async def pin(root: Path, revision: str = "HEAD") -> str:
    """The full id of a commit. Raises CheckoutRefused when there is none."""
    code, out, _ = await git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if code:
        raise CheckoutRefused(f"{root} has no commit {revision}", hint="`git init` it, and commit what shall be run.")
    return out.decode().strip()


async def project_key(root: Path, commit: str) -> str:
    """The same for every clone of a project: from its first commits."""
    roots = sorted((await must(root, "rev-list", "--max-parents=0", commit)).decode().split())
    return hashlib.sha256(" ".join(roots).encode()).hexdigest()[:16]


async def changes(root: Path, commit: str) -> Changes:
    """What the tree has beyond the commit."""
    changed = await must(root, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", commit, "--")
    unknown = await must(root, "ls-files", "--others", "--exclude-standard", "-z")
    return Changes(_names(changed), _names(unknown))


async def tracked(root: Path, commit: str) -> set[str]:
    """The paths of all files of the commit."""
    return set(_names(await must(root, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)))


async def dirty_patch(root: Path, commit: str, paths: Sequence[str]) -> Patch | None:
    """What the tree has beyond the commit at these paths, as a patch; None when there is nothing.

    It is made with an index and an object directory of its own: the repository is not touched.
    """
    objects = (await must(root, "rev-parse", "--path-format=absolute", "--git-path", "objects")).decode().strip()
    with tempfile.TemporaryDirectory(prefix="minions-") as scratch:
        own = {
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_OBJECT_DIRECTORY": f"{scratch}/objects",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
        }
        await asyncio.to_thread(os.mkdir, f"{scratch}/objects")
        await must(root, "read-tree", commit, environment=own)
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        told = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        await must(root, *told, environment=own, body=listed)
        plain = ("--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        content = await must(
            root, "diff", "--cached", *plain, "--src-prefix=a/", "--dst-prefix=b/", commit, environment=own
        )
        tree = (await must(root, "write-tree", environment=own)).decode().strip()
    return Patch(content, tree) if content else None


async def objections(root: Path, commit: str, *, whole_history: bool = True) -> list[str]:
    """Why the commit cannot be checked out on a host; empty when it can. whole_history: it is another machine."""
    found: list[str] = []
    if whole_history and (await must(root, "rev-parse", "--is-shallow-repository")).strip() == b"true":
        found.append("this clone is shallow: `git fetch --unshallow` first")
    listed = (await must(root, "ls-tree", "-r", "-z", "--full-tree", commit)).split(b"\0")
    modules = [line.partition(b"\t")[2].decode(errors="replace") for line in listed if line.startswith(b"160000 ")]
    if modules:
        found.append(f"{_few(modules)}: submodules are not brought to hosts; add their files, or install them in setup")
    code, out, _ = await git(
        root, "grep", "--name-only", "-z", "-E", r"filter *= *lfs", commit, "--", ":(top,glob)**/.gitattributes"
    )
    if code == 0:
        files = [name.partition(":")[2] for name in _names(out)]
        found.append(f"{_few(files)}: files in Git LFS are not brought to hosts; name them as inputs instead")
    return found


async def present(root: Path, commits: Iterable[str]) -> list[str]:
    """Those of the commits that this repository has, too."""
    body = "".join(f"{commit}\n" for commit in commits).encode()
    lines = (await must(root, "cat-file", "--batch-check=%(objectname) %(objecttype)", body=body)).decode().splitlines()
    return [line.split()[0] for line in lines if line.endswith(" commit")]


async def write_bundle(root: Path, commit: str, have: Sequence[str], target: Path) -> None:
    """A git bundle with the commit, as refs/minions/COMMIT, and what of its history `have` does not reach.

    A bundle needs a name for what it holds; it is given in a repository of its own that borrows the objects.
    """
    objects = (await must(root, "rev-parse", "--path-format=absolute", "--git-path", "objects")).decode().strip()
    with tempfile.TemporaryDirectory(prefix="minions-") as scratch:
        lender = Path(scratch)
        await must(lender, "init", "--quiet", "--bare", "--template=", ".")
        await asyncio.to_thread((lender / "objects" / "info").mkdir, exist_ok=True)
        await asyncio.to_thread((lender / "objects" / "info" / "alternates").write_text, f"{objects}\n")
        name = f"refs/minions/{commit}"
        await must(lender, "update-ref", name, commit)
        body = "".join(f"^{had}\n" for had in have).encode()
        await must(lender, "bundle", "create", "--quiet", str(target), name, "--stdin", body=body)


def _names(listed: bytes) -> tuple[str, ...]:
    return tuple(name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
