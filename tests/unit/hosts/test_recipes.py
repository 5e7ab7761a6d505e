"""What is installed for which lock files, and the line of a log that says why it was not."""

from __future__ import annotations

import pytest

from minions.hosts.recipes import choose, decisive_line

HASHED = b"numpy==2.1.0 \\\n    --hash=sha256:00\n"
PLAIN = b"[project]\nname = 'a'\n"
PACKAGE = PLAIN + b"\n[build-system]\nrequires = ['hatchling']\n"


def chosen(
    files: dict[str, bytes], setup: tuple[str, ...] | None = None, *, has_uv: bool = True
) -> list[tuple[str, str]]:
    return [(recipe.name, recipe.commands[-1][0]) for recipe in choose(files, setup, has_uv=has_uv)]


def test_one_lock_file_of_each_language_then_setup() -> None:
    python = {"uv.lock": b"", "poetry.lock": b"", "requirements.txt": HASHED, "pyproject.toml": PLAIN}
    assert chosen(python) == [("uv.lock", "uv")]
    assert chosen({"poetry.lock": b"", "requirements.txt": HASHED}) == [("poetry.lock", "poetry")]
    assert chosen({**python, "package-lock.json": b"{}"}) == [("uv.lock", "uv"), ("package-lock.json", "npm")]
    assert chosen({"uv.lock": b""}, ("make",)) == [("uv.lock", "uv"), ("setup", "make")]
    assert chosen({}, ("make",)) == [("setup", "make")]
    assert chosen({}) == []


def test_requirements_count_only_with_hashes() -> None:
    assert chosen({"requirements.txt": b"numpy\n"}) == []
    assert chosen({"requirements.txt": HASHED}) == [("requirements.txt", "uv")]
    assert chosen({"requirements.txt": HASHED}, has_uv=False) == [("requirements.txt", "{environment}/bin/python")]
    for has_uv in (True, False):
        assert "--require-hashes" in choose({"requirements.txt": HASHED}, None, has_uv=has_uv)[0].commands[-1]


def test_a_stale_lock_is_never_accepted() -> None:
    assert choose({"uv.lock": b""}, None, has_uv=True)[0].commands == (("uv", "sync", "--locked"),)
    assert choose({"package-lock.json": b""}, None, has_uv=True)[0].commands == (("npm", "ci"),)
    assert choose({"poetry.lock": b""}, None, has_uv=True)[0].commands[0][:3] == ("poetry", "check", "--lock")


@pytest.mark.parametrize(
    ("project", "shared"),
    [
        (PLAIN, True),
        (PACKAGE, False),
        (PACKAGE + b"[tool.uv]\npackage = false\n", True),
        (PLAIN + b"[tool.uv]\npackage = true\n", False),
        (PLAIN + b"[tool.uv.workspace]\nmembers = ['a']\n", False),
        (PLAIN + b"[tool.uv.sources]\na = { path = 'vendor/a' }\n", False),
    ],
)
def test_an_environment_is_shared_unless_a_path_of_the_worktree_is_in_it(project: bytes, shared: bool) -> None:
    assert choose({"uv.lock": b"", "pyproject.toml": project}, None, has_uv=True)[0].shared is shared


def test_the_identity_is_of_what_goes_in() -> None:
    def identity(**files: bytes) -> str:
        named = {name.replace("_", "."): content for name, content in files.items()}
        return choose(named, None, has_uv=True)[0].identity

    assert identity(uv_lock=b"1") == identity(uv_lock=b"1")
    assert len({identity(uv_lock=b"1"), identity(uv_lock=b"2"), identity(uv_lock=b"1", pyproject_toml=PLAIN)}) == 3


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", "it said nothing"),
        ("one\ntwo\n\n", "two"),
        (
            "Resolved 3 packages\nerror: The lockfile at `uv.lock` needs to be updated, but `--locked` was provided.\n"
            "hint: To update the lockfile, run `uv lock`.\n",
            "error: The lockfile at `uv.lock` needs to be updated, but `--locked` was provided.",
        ),
        (
            "npm error code EUSAGE\nnpm error\nnpm error `npm ci` can only install packages when in sync.\n"
            "npm error A complete log of this run can be found in: /x/debug-0.log\n",
            "npm error code EUSAGE / npm error `npm ci` can only install packages when in sync.",
        ),
        (
            "Collecting numpy\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n    numpy: Expected sha256 00\n",
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES",
        ),
        (
            "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'x'\n",
            "ModuleNotFoundError: No module named 'x'",
        ),
        ("make: *** [all] Error 1\nfatal: not a git repository\n", "fatal: not a git repository"),
    ],
)
def test_the_decisive_line(log: str, line: str) -> None:
    assert decisive_line(log) == line
