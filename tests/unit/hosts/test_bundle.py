"""The executor as one file: all that it reaches, nothing that a host lacks, and the same bytes for the same code."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from minions.hosts.bundle import build_bundle


def source(tmp_path: Path, **modules: str) -> Path:
    """The package `minions` with these modules; __ in a name stands for a dot."""
    for name, text in {"__init__": "", **modules}.items():
        path = tmp_path / "minions" / f"{name.replace('__', '/') if name != '__init__' else name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        for package in (path.parent, tmp_path / "minions"):
            (package / "__init__.py").touch()
        path.write_text(text)
    return tmp_path


def names(content: bytes) -> list[str]:
    return zipfile.ZipFile(BytesIO(content)).namelist()


def test_it_has_all_that_the_entry_reaches_and_runs(tmp_path: Path) -> None:
    root = source(
        tmp_path,
        far__entry="from minions.far import parts\nfrom minions.near.words import WORD\n\ndef main():\n"
        "    from minions import late\n    print(parts.NUMBER, WORD, late.TEXT)\n    return 3\n",
        far__parts="import json\nNUMBER = 7\n",
        near__words="WORD = 'a word'\n",
        late="from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import pydantic\nTEXT = 'late'\n",
        unused="import pydantic\n",
        unreached="import json\n",
    )
    bundle = build_bundle("minions.far.entry:main", root, also=["minions.unreached"])
    assert "minions/unused.py" not in names(bundle.content)
    assert "minions/unreached.py" in names(bundle.content)
    path = tmp_path / bundle.name
    path.write_bytes(bundle.content)
    done = subprocess.run([sys.executable, "-I", path], cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "7 a word late\n"), done.stderr


def test_the_same_code_gives_the_same_bytes_and_another_another_version(tmp_path: Path) -> None:
    first = build_bundle("minions.a:main", source(tmp_path / "1", a="def main(): return 0\n"), also=[])
    second = build_bundle("minions.a:main", source(tmp_path / "2", a="def main(): return 0\n"), also=[])
    third = build_bundle("minions.a:main", source(tmp_path / "3", a="def main(): return 1\n"), also=[])
    assert first == second
    assert first.version != third.version
    assert first.version in first.name


@pytest.mark.parametrize("line", ["import httpx", "from pydantic import BaseModel", "def f():\n    import numpy.x"])
def test_what_a_host_lacks_is_refused(tmp_path: Path, line: str) -> None:
    root = source(tmp_path, a="from minions.b import c\n", b__c=line)
    with pytest.raises(ValueError, match=r"minions\.b\.c imports \w+, which a host does not have"):
        build_bundle("minions.a:main", root, also=[])


def test_an_entry_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no module minions\.nowhere"):
        build_bundle("minions.nowhere:main", source(tmp_path), also=[])


def test_the_supervisor_needs_nothing_but_python() -> None:
    assert "minions/executor/supervisor/supervisor.py" in names(
        build_bundle("minions.executor.supervisor.supervisor:Supervisor").content
    )
