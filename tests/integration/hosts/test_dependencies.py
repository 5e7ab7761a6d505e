"""What a project needs, installed on a host: once, with its log kept, and with a failure that says where and why."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import AsyncGenerator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import cast

import pytest
from uv import find_uv_bin

from minions.hosts.checkout import Checkout, check_out
from minions.hosts.connection import Connection
from minions.hosts.dependencies import install
from minions.hosts.faults import HostNotReady, SetupFailed
from minions.hosts.inventory import Host
from tests.integration.hosts.projects import commit, write
from tests.integration.hosts.with_uv import ALONE, with_uv
from tests.services.sshd import SshHost

DEPENDENCIES = {"tiny": "file:vendor/tiny"}
PACKAGE = {"name": "a-project", "version": "1.0.0", "dependencies": DEPENDENCIES}
LOCK = {
    "name": "a-project",
    "version": "1.0.0",
    "lockfileVersion": 3,
    "requires": True,
    "packages": {
        "": PACKAGE,
        "node_modules/tiny": {"resolved": "vendor/tiny", "link": True},
        "vendor/tiny": {"version": "1.0.0"},
    },
}
TINY = {
    "vendor/tiny/package.json": json.dumps({"name": "tiny", "version": "1.0.0"}),
    "vendor/tiny/index.js": "module.exports = 'tiny is here';\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "project"


def wheel() -> bytes:
    """A package with one module, as pip wants it."""
    files = {
        "tiny.py": b"print('tiny is here')\n",
        "tiny-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}"
        for name, content in files.items()
    ]
    files["tiny-1.0.dist-info/RECORD"] = "\n".join([*lines, "tiny-1.0.dist-info/RECORD,,"]).encode()
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def requirements(content: bytes, sha256: str | None = None) -> dict[str, str | bytes]:
    name = "vendor/tiny-1.0-py3-none-any.whl"
    return {
        name: content,
        "requirements.txt": f"./{name} --hash=sha256:{sha256 or hashlib.sha256(content).hexdigest()}\n",
    }


async def made(connection: Connection, root: Path, files: dict[str, str | bytes]) -> Checkout:
    return await check_out(connection, root, commit(root, files))


async def test_hashed_requirements_are_installed_once_for_all_commits(connection: Connection, root: Path) -> None:
    files = requirements(wheel())
    first = await made(connection, root, files)
    around = await install(connection, first)
    assert around.installed == ("requirements.txt",)
    done = await connection.run(
        ["python", "-c", "import tiny"], directory=first.directory, environment=around.variables, path=around.path
    )
    assert done.stdout == b"tiny is here\n", done.stderr
    second = await made(connection, root, {"another": "file"})
    assert second.directory != first.directory
    again = await install(connection, second)
    assert (again.installed, again.path) == ((), around.path)
    said = await connection.run(["cat", f"{second.directory}.surroundings.json"])
    assert json.loads(said.stdout) == {"path": list(around.path), "variables": dict(around.variables)}


@pytest.fixture
async def uv_connection(host: Host, mini: SshHost) -> AsyncGenerator[Connection]:
    async with Connection.open(with_uv(host, mini), options=mini.options) as connection:
        yield connection


def uv_project(root: Path, *, name: str = "a-project") -> dict[str, str | bytes]:
    """What `uv lock` makes of a project whose only dependency lies in it."""
    files: dict[str, str | bytes] = {
        "vendor/tiny-1.0-py3-none-any.whl": wheel(),
        "pyproject.toml": f"""
[project]
name = "{name}"
version = "1"
requires-python = ">=3.11"
dependencies = ["tiny"]
[[tool.uv.index]]
url = "vendor"
format = "flat"
default = true
""",
    }
    write(root, files)
    environment = {**os.environ, **ALONE, "UV_CACHE_DIR": str(root.parent / "uv"), "XDG_CONFIG_HOME": str(root.parent)}
    subprocess.run([find_uv_bin(), "lock", "--quiet"], cwd=root, env=environment, check=True)
    return {**files, "uv.lock": (root / "uv.lock").read_bytes()}


async def test_uv_sync_makes_one_environment_for_all_commits_with_the_same_lock(
    uv_connection: Connection, root: Path
) -> None:
    """And jobs find it, with `python` and with `uv run`."""
    files = uv_project(root)
    assert b"://" not in cast(bytes, files["uv.lock"]), "the lock file names no registry"
    first = await made(uv_connection, root, files)
    around = await install(uv_connection, first)
    assert around.installed == ("uv.lock",)
    second = await made(uv_connection, root, {"another": "file"})
    again = await install(uv_connection, second)
    assert (second.directory != first.directory, again.installed, again.path) == (True, (), around.path)
    for words in (["python"], ["uv", "run", "--frozen", "python"]):
        job = [*words, "-c", "import sys, tiny; print(sys.prefix)"]
        done = await uv_connection.run(job, directory=second.directory, environment=again.variables, path=again.path)
        assert done.stdout.decode() == f"tiny is here\n{again.variables['VIRTUAL_ENV']}\n", done.stderr
    environments = first.directory.rpartition("/worktrees/")[0] + "/environments"
    listed = (await uv_connection.run(["find", environments, "-name", "pyvenv.cfg"])).stdout.split()
    assert [Path(os.fsdecode(each)).parent.name for each in listed] == [Path(again.variables["VIRTUAL_ENV"]).name]
    third = await made(uv_connection, root, uv_project(root, name="another-project"))
    assert (await install(uv_connection, third)).installed == ("uv.lock",), "another lock file"


async def test_a_uv_lock_that_is_stale_is_refused(uv_connection: Connection, root: Path) -> None:
    files = uv_project(root)
    stale = cast(str, files["pyproject.toml"]).replace('["tiny"]', '["tiny", "other"]')
    checkout = await made(uv_connection, root, {**files, "pyproject.toml": stale})
    with pytest.raises(SetupFailed, match=r"mini: `uv sync --locked` failed: "):
        await install(uv_connection, checkout)


@pytest.mark.skipif(shutil.which("poetry") is None, reason="poetry is not on the PATH; it is too large to be required")
async def test_poetry_installs_into_an_environment_of_each_worktree(host: Host, mini: SshHost, root: Path) -> None:
    """The project itself is installed by the path of its worktree, so commits share nothing but poetry's cache."""
    poetry = cast(str, shutil.which("poetry"))
    files: dict[str, str | bytes] = {
        "vendor/tiny-1.0-py3-none-any.whl": wheel(),
        "a_project.py": "",
        "pyproject.toml": """
[project]
name = "a-project"
version = "1"
requires-python = ">=3.11"
dependencies = ["tiny"]
[tool.poetry.dependencies]
tiny = { path = "vendor/tiny-1.0-py3-none-any.whl" }
[build-system]
requires = ["poetry-core"]
build-backend = "poetry.core.masonry.api"
""",
    }
    write(root, files)
    alone = {"POETRY_CACHE_DIR": str(root.parent / "poetry"), "POETRY_CONFIG_DIR": str(root.parent)}
    await asyncio.to_thread(
        subprocess.run, [poetry, "lock", "--quiet"], cwd=root, env={**os.environ, **alone}, check=True
    )
    host = replace(host, path=(str(Path(poetry).parent),))
    async with Connection.open(host, options=mini.options) as connection:
        first = await made(connection, root, {**files, "poetry.lock": (root / "poetry.lock").read_bytes()})
        second = await made(connection, root, {"another": "file"})
        for checkout in (first, second):
            around = await install(connection, checkout)
            assert around.installed == ("poetry.lock",)
            job = ["python", "-c", "import sys, tiny, a_project; print(sys.prefix, a_project.__file__)"]
            done = await connection.run(job, directory="~", environment=around.variables, path=around.path)
            place = f"{checkout.directory}/.venv {checkout.directory}/a_project.py"
            assert done.stdout.decode() == f"tiny is here\n{place}\n", done.stderr
            assert (await install(connection, checkout)).installed == ()
        stale = cast(str, files["pyproject.toml"]).replace('["tiny"]', '["tiny", "other"]')
        third = await made(connection, root, {"pyproject.toml": stale})
        with pytest.raises(SetupFailed, match=r"mini: `poetry check --lock --no-interaction` failed: "):
            await install(connection, third)


async def test_a_wrong_hash_names_the_host_the_command_and_the_line(connection: Connection, root: Path) -> None:
    checkout = await made(connection, root, requirements(wheel(), sha256="0" * 64))
    with pytest.raises(SetupFailed) as raised:
        await install(connection, checkout)
    assert raised.value.message.startswith("mini: `")
    assert "-m pip install --no-input --require-hashes -r requirements.txt` failed: ERROR: " in raised.value.message
    assert "HASHES" in raised.value.message.upper()
    log = raised.value.advice.removeprefix("Its whole log is ").partition(" on mini")[0]
    assert b"Expected sha256" in (await connection.run(["cat", log])).stdout


async def test_npm_ci_goes_by_the_lock(connection: Connection, root: Path) -> None:
    files: dict[str, str | bytes] = {**TINY, "package.json": json.dumps(PACKAGE), "package-lock.json": json.dumps(LOCK)}
    checkout = await made(connection, root, files)
    around = await install(connection, checkout)
    assert around.installed == ("package-lock.json",)
    done = await connection.run(["node", "-e", "console.log(require('tiny'))"], directory=checkout.directory)
    assert done.stdout == b"tiny is here\n", done.stderr
    assert (await install(connection, checkout)).installed == ()
    stale = {**PACKAGE, "dependencies": {**DEPENDENCIES, "other": "file:vendor/other"}}
    checkout = await made(connection, root, {"package.json": json.dumps(stale)})
    for _ in range(2):  # a failure is not taken for done
        with pytest.raises(SetupFailed, match=r"mini: `npm ci` failed: npm error .*in sync"):
            await install(connection, checkout)


async def test_setup_runs_once_a_worktree_and_again_for_another(connection: Connection, root: Path) -> None:
    checkout = await made(connection, root, {"file": "one\n"})
    setup = ("sh", "-c", 'echo "$1" >> made; pwd', "sh", "a 'b")
    assert (await install(connection, checkout, setup)).installed == ("setup",)
    assert (await install(connection, checkout, setup)).installed == ()
    assert (await connection.run(["cat", "made"], directory=checkout.directory)).stdout == b"a 'b\n"
    assert (await install(connection, checkout, (*setup, "more"))).installed == ("setup",)
    await connection.request("remove", {"paths": [checkout.directory]})
    checkout = await made(connection, root, {"file": "one\n", "x": ""})
    assert (await install(connection, checkout, setup)).installed == ("setup",)


async def test_two_who_come_at_once_install_once(host: Host, mini: SshHost, connection: Connection, root: Path) -> None:
    checkout = await made(connection, root, {"file": "one\n"})
    setup = ("sh", "-c", "echo once >> made; cat /dev/zero | head -c 20000000 | sha256sum")
    async with Connection.open(host, options=mini.options) as other:
        both = await asyncio.gather(install(connection, checkout, setup), install(other, checkout, setup))
    assert sorted(around.installed for around in both) == [(), ("setup",)]
    assert (await connection.run(["cat", "made"], directory=checkout.directory)).stdout == b"once\n"


async def test_a_setup_that_fails_and_one_that_takes_too_long(connection: Connection, root: Path) -> None:
    checkout = await made(connection, root, {"file": "one\n"})
    failing = ("sh", "-c", "echo begin; echo 'build error: no compiler' >&2; echo; exit 4")
    with pytest.raises(SetupFailed, match="failed: build error: no compiler"):
        await install(connection, checkout, failing)
    with pytest.raises(SetupFailed, match=r"mini: .* failed: it was not done after 0.5 seconds"):
        await install(connection, checkout, ("sleep", "4321"), seconds=0.5)


async def test_a_tool_that_is_missing(connection: Connection, root: Path) -> None:
    checkout = await made(connection, root, {"pyproject.toml": "[project]\nname='a'\n", "poetry.lock": "# generated\n"})
    with pytest.raises(HostNotReady, match=r"mini: poetry is not installed") as raised:
        await install(connection, checkout)
    assert "poetry.lock needs it" in raised.value.advice


async def test_nothing_to_install(connection: Connection, root: Path) -> None:
    checkout = await made(connection, root, {"requirements.txt": "numpy\n"})
    assert await install(connection, checkout) == replace(await install(connection, checkout), installed=())
