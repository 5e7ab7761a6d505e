"""The command tree, its reference, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_reference_is_up_to_date() -> None:
    """In a process of its own: what other tests have imported must not show in it."""
    argv = [sys.executable, "-m", "minions.commands.reference"]
    made = subprocess.run(argv, capture_output=True, encoding="utf-8", check=True).stdout
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == made, "run: make docs"


def test_a_list_of_choices_has_one_order() -> None:
    """`Literal["a", "b"] | None` and `Literal["b", "a"] | None` are one cached object: help shows what came first."""
    orders: dict[frozenset[object], set[tuple[object, ...]]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple() as choices):
                    words = ast.literal_eval(choices)
                    orders.setdefault(frozenset(words), set()).add(words)
                case _:
                    pass
    assert len(orders) > 10
    assert not [each for each in orders.values() if len(each) > 1]


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import minions, minions.client", {"httpx", "pyarrow", "pydantic", "rich", "typer"}),
        ("from minions.commands.tree import exit_code_of; exit_code_of(['--help'])", {"httpx", "pyarrow", "pydantic"}),
        ("from minions.client import Client, AsyncClient", {"pyarrow", "typer", "fastapi", "asyncpg"}),
        ("from minions.commands.tree import exit_code_of; exit_code_of(['config', 'show'])", {"httpx", "pyarrow"}),
    ],
)
def test_heavy_libraries_are_imported_late(statement: str, unwanted: set[str]) -> None:
    code = f"import sys\n{statement}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not unwanted & set(done.stderr.split())
