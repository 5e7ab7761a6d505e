"""Which commands install what a project needs, as its lock files say; which line of a log tells why not. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# What is looked at to choose: the lock files, and what says whether an environment can be shared by commits.
LOOKED_AT = (
    "uv.lock",
    "poetry.lock",
    "requirements.txt",
    "pyproject.toml",
    "package-lock.json",
    "package.json",
    ".npmrc",
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One thing to be installed.

    tool: what must be there. commands: run in order in the worktree. identity: of what goes in; with the platform it
    names the environment. shared: commits with the same identity use one; else each worktree has its own. bin: where
    the programs of it are; empty: nowhere. In the texts, {environment} stands for the directory of what is made,
    {worktree} for the worktree, {python} for the interpreter that was found there.
    """

    name: str
    tool: str
    commands: tuple[tuple[str, ...], ...]
    identity: str
    shared: bool
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    bin: str = "{environment}/bin"


def choose(files: Mapping[str, bytes], setup: Sequence[str] | None, *, has_uv: bool) -> list[Recipe]:
    """What to install: by each lock file, then `setup`.

    files: those of LOOKED_AT that the worktree has, by name. has_uv: the host has uv, which installs without a pip.
    """
    found: list[Recipe] = []
    if python := _python(files, has_uv):
        found.append(python)
    if "package-lock.json" in files:
        found.append(_npm(files))
    if setup:
        identity = _identity("setup", "\0".join(setup).encode())
        found.append(Recipe("setup", setup[0], (tuple(setup),), identity, shared=False, bin=""))
    return found


def _python(files: Mapping[str, bytes], has_uv: bool) -> Recipe | None:
    project = files.get("pyproject.toml", b"")
    if "uv.lock" in files:
        return Recipe(
            "uv.lock",
            "uv",
            (("uv", "sync", "--locked"),),
            _identity("uv.lock", files["uv.lock"], project),
            shared=not _is_package(project),
            variables={"UV_PROJECT_ENVIRONMENT": "{environment}", "VIRTUAL_ENV": "{environment}"},
        )
    if "poetry.lock" in files:
        return Recipe(
            "poetry.lock",
            "poetry",
            (
                ("poetry", "check", "--lock", "--no-interaction"),
                ("{python}", "-m", "venv", "{environment}"),
                ("poetry", "install", "--no-interaction"),
            ),
            _identity("poetry.lock", files["poetry.lock"], project),
            shared=False,  # it installs the project itself, by the path of the worktree
            variables={"VIRTUAL_ENV": "{environment}"},  # poetry installs into the environment that it is called in
        )
    requirements = files.get("requirements.txt", b"")
    if b"--hash=" not in requirements:
        return None
    python = "{environment}/bin/python"
    with_uv = (
        ("uv", "venv", "--clear", "{environment}"),
        ("uv", "pip", "install", "--python", python, "--require-hashes", "-r", "requirements.txt"),
    )
    with_pip = (
        ("{python}", "-m", "venv", "--clear", "{environment}"),
        (python, "-m", "pip", "install", "--no-input", "--require-hashes", "-r", "requirements.txt"),
    )
    return Recipe(
        "requirements.txt",
        "uv" if has_uv else "{python}",
        with_uv if has_uv else with_pip,
        _identity("requirements.txt", requirements),
        shared=True,
        variables={"VIRTUAL_ENV": "{environment}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )


def _npm(files: Mapping[str, bytes]) -> Recipe:
    """Always in the worktree: npm's packages are found by the place of the file that asks for them."""
    identity = _identity(
        "package-lock.json", files["package-lock.json"], files.get("package.json", b""), files.get(".npmrc", b"")
    )
    return Recipe(
        "package-lock.json", "npm", (("npm", "ci"),), identity, shared=False, bin="{worktree}/node_modules/.bin"
    )


def _is_package(project: bytes) -> bool:
    """Whether uv installs the project itself, by the path of its worktree: then no other commit may use that."""
    text = project.decode(errors="replace")
    if re.search(r"^\s*package\s*=\s*false\s*(#.*)?$", text, re.MULTILINE):
        return False
    return bool(
        re.search(r"^\s*\[(build-system|tool\.uv\.workspace)\]|^\s*package\s*=\s*true|\bpath\s*=", text, re.MULTILINE)
    )


def _identity(kind: str, *contents: bytes) -> str:
    digests = [hashlib.sha256(content).hexdigest() for content in contents]
    return hashlib.sha256(json.dumps([kind, *digests]).encode()).hexdigest()


_ERROR = re.compile(
    r"^\s*(?:×\s*)?(?:\w+\.)*(?:error|fatal|npm err(?:or|!)|\w*Error|\w*Exception)\b[:\s]", re.IGNORECASE
)
_POINTER = re.compile(
    r"complete log of this run|debug-0\.log|For a full report|^\s*npm (?:err!|error)\s*$", re.IGNORECASE
)


def decisive_line(log: str) -> str:
    """The line that says why an installation failed: the first of the last errors in a row, else the last line."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and not _POINTER.search(line)]
    if not lines:
        return "it said nothing"
    last = next((at for at in range(len(lines) - 1, -1, -1) if _ERROR.match(lines[at])), None)
    if last is None:
        return lines[-1].strip()
    first = last
    while first > 0 and _ERROR.match(lines[first - 1]):
        first -= 1
    told = [line.strip() for line in lines[first : last + 1]]
    # npm says a code first, and what it means in the line after it.
    return " / ".join(told[:2]) if re.match(r"npm err(?:or|!) code", told[0], re.IGNORECASE) else told[0]
