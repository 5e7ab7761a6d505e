"""Named queries: each `sql/*.sql` file holds statements that begin with a `-- name` line."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- ([a-z_]+)$", re.MULTILINE)


@cache
def query(name: str) -> str:
    """The statement of this name, comments included, so that it can be told in the server's log and statistics."""
    return _all_queries()[name]


@cache
def _all_queries() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted(files("minions.store").joinpath("sql").iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        pieces = _NAME.split(file.read_text(encoding="utf-8"))
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
            if name in found:
                raise ValueError(f"{file.name}: two queries are called {name}")
            found[name] = f"-- {name}{body.rstrip().rstrip(';')}"
    return found


def query_names() -> list[str]:
    """All names, for the tests."""
    return sorted(_all_queries())
