"""The demo's real input: the docstrings of Python's standard library, collected from the running interpreter."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

# Importing these opens windows, browsers or editors, prints, or needs what is rarely installed.
_LEFT_OUT = {
    "antigravity",
    "this",
    "idlelib",
    "test",
    "turtledemo",
    "turtle",
    "lib2to3",
    "tkinter",
    "ensurepip",
    "__main__",
}


def collect() -> Iterator[dict[str, str]]:
    """One row a docstring: module, qualified name and text, sorted by name; each text once."""
    rows: dict[str, dict[str, str]] = {}
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for module in _modules():
            for name, text in _docstrings(module):
                rows.setdefault(text, {"module": module.__name__, "name": name, "text": text})
    yield from sorted(rows.values(), key=lambda row: row["name"])


def write(path: Path) -> int:
    """Write them as JSON lines; returns the number of rows."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in collect()]
    path.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def _modules() -> Iterator[ModuleType]:
    for name in sorted(sys.stdlib_module_names):
        if name in _LEFT_OUT or name.startswith("_"):
            continue
        module = _import(name)
        if module is None:
            continue
        yield module
        for found in pkgutil.iter_modules(getattr(module, "__path__", []), f"{name}."):
            below = None if "__main__" in found.name or "test" in found.name else _import(found.name)
            if below is not None:
                yield below


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit):
        return None  # not built on this system


def _docstrings(module: ModuleType) -> Iterator[tuple[str, str]]:
    if module.__doc__:
        yield module.__name__, inspect.cleandoc(module.__doc__)
    for name, member in sorted(vars(module).items()):
        if name.startswith("_") or getattr(member, "__module__", None) != module.__name__:
            continue
        if not inspect.isclass(member) and not inspect.isroutine(member):
            continue
        yield from _own(f"{module.__name__}.{name}", member)
        if inspect.isclass(member):
            for below, value in sorted(vars(member).items()):
                if not below.startswith("_") and inspect.isroutine(value):
                    yield from _own(f"{module.__name__}.{name}.{below}", value)


def _own(name: str, member: object) -> Iterator[tuple[str, str]]:
    text = getattr(member, "__doc__", None)
    if isinstance(text, str) and text.strip():
        yield name, inspect.cleandoc(text)


if __name__ == "__main__":
    sys.stdout.write(f"{write(Path(sys.argv[1]))}\n")
