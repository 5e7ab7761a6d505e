"""Ctrl-C at the worst moments: amid the imports, where Python would say where it was."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import importlib.abc, os, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from minions.commands.main import run
run({arguments!r})
"""


@pytest.mark.parametrize(
    "module", ["typer", "minions.commands.registry", "minions.commands.tasks.ls", "minions.client.client", "httpx"]
)
def test_it_ends_quietly_while_it_imports(module: str) -> None:
    code = BEGIN.format(module=module, arguments=["tasks", "ls", "--server", "http://127.0.0.1:9"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_entry_imports_next_to_nothing() -> None:
    """All that is imported before `run` is a moment in which Ctrl-C still says where it struck."""
    code = "import sys; before = set(sys.modules); import minions.commands.main; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("minions")}
    assert ours == {"minions", "minions.commands", "minions.commands.main"}
    assert not {"typer", "typing", "re", "dataclasses"} & set(done.stdout.split())


def test_it_is_a_module_as_well() -> None:
    argv = [sys.executable, "-m", "minions", "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("minions ")
