"""The executor for hosts as one file: a zip of our own modules, which needs nothing but Python's standard library."""

from __future__ import annotations

import ast
import hashlib
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

ENTRY = "minions.executor.commands.main:main"
STARTED = ("minions.executor.supervisor.launcher",)  # as processes of their own, by name: no import leads there
_SOURCE = Path(__file__).parents[2]
_TOP = "minions"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_VERSION_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Bundle:
    """What is sent. version: from the content, so that equal code has one name everywhere."""

    content: bytes
    sha256: str

    @property
    def version(self) -> str:
        return self.sha256[:_VERSION_DIGITS]

    @property
    def name(self) -> str:
        return f"minions-remote-{self.version}.pyz"


def build_bundle(entry: str = ENTRY, source: Path = _SOURCE, *, also: Sequence[str] = STARTED) -> Bundle:
    """All modules that `entry` (module:function) reaches, with a `__main__` that calls it, and exits with its answer.

    also: further modules, with what they reach. source: the directory in which the package `minions` is. Raises
    ValueError for an import that no host has.
    """
    module, _, function = entry.partition(":")
    reached = _reached([module, *also], source)
    files = {path.relative_to(source).as_posix(): path.read_bytes() for path in reached}
    files["__main__.py"] = f"import sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n".encode()
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:  # stored: versions of zlib pack differently
        for name in sorted(files):
            about = zipfile.ZipInfo(name, _EPOCH)
            about.external_attr = 0o644 << 16
            about.create_system = 3
            archive.writestr(about, files[name])
    content = out.getvalue()
    return Bundle(content, hashlib.sha256(content).hexdigest())


def _reached(entries: Sequence[str], source: Path) -> list[Path]:
    """Our modules that the entries import, directly or not, and the packages around them."""
    reached: dict[str, Path] = {}
    waiting = [*entries]
    while waiting:
        name = waiting.pop()
        for module in _with_parents(name):
            path = None if module in reached else _file(module, source)
            if path is None:
                continue
            reached[module] = path
            for imported in _imports(path):
                _check(imported, module)
                if imported.split(".")[0] == _TOP:
                    waiting.append(imported)
    if missing := [entry for entry in entries if entry not in reached]:
        raise ValueError(f"there is no module {missing[0]}")
    return list(reached.values())


def _with_parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _file(module: str, source: Path) -> Path | None:
    """None for a name in a module that is no module itself."""
    path = source.joinpath(*module.split("."))
    return next((found for found in (path / "__init__.py", path.with_suffix(".py")) if found.is_file()), None)


def _check(imported: str, by: str) -> None:
    top = imported.split(".")[0]
    if top != _TOP and top not in sys.stdlib_module_names:
        raise ValueError(f"{by} imports {top}, which a host does not have")


def _imports(path: Path) -> Iterator[str]:
    """The modules, or names in modules, that a file imports; not those for type checkers only."""
    waiting: list[ast.AST] = [ast.parse(path.read_bytes())]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse):
                waiting += orelse
                continue
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                if module.split(".")[0] == _TOP:
                    yield from (f"{module}.{name.name}" for name in names)
            case ast.ImportFrom():
                raise ValueError(f"{path} imports from a package by dots")
            case _:
                pass
        waiting += ast.iter_child_nodes(node)
