"""The agent as one text that a Python without Minions can execute."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

_PACKAGE = "minions.hosts.agent"
_MODULES = ("requests", "files", "processes", "login", "facts", "serve")  # each imports only those before it
_LOADER = """import json, sys, types
for name, source in json.loads({text!r}):
    module = types.ModuleType(name)
    module.__path__ = []
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""


@cache
def agent_source() -> bytes:
    """The modules of the agent, with what puts them in their places and calls the last one's `main`."""
    home = Path(__file__).parent / "agent"
    parents = [".".join(_PACKAGE.split(".")[:count]) for count in (1, 2, 3)]
    parts = [(name, "") for name in parents]
    parts += [(f"{_PACKAGE}.{name}", (home / f"{name}.py").read_text("utf-8")) for name in _MODULES]
    return _LOADER.format(text=json.dumps(parts)).encode()
