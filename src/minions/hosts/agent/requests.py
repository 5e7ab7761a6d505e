"""What the parts of the agent share: a refused request, and paths that mean the same whoever asks."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from typing import Any

Request = Mapping[str, Any]
Reply = dict[str, Any]

MOST_BODY_BYTES = 1 << 20
# A shell without a login lacks the directories in which people's tools are.
_TOOL_PLACES = (
    "~/.local/bin",
    "~/.cargo/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "~/.volta/bin",
    "~/.nvm/versions/node/*/bin",
    "/usr/bin",
    "/bin",
)


class Refused(Exception):
    """A request that cannot be done; `kind` is for programs."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def absolute(path: str) -> str:
    """The path, with a leading ~ resolved. Raises Refused for one that depends on where the agent stands."""
    path = os.path.expanduser(path)
    if not os.path.isabs(path):
        raise Refused("bad_request", f"a path must be absolute or begin with ~/: {path}")
    return path


def tools_path(first: Iterable[str] = ()) -> str:
    """The PATH for programs: `first`, what there is, then the usual places that exist."""
    found = [os.path.expanduser(place) for place in first]
    found += [place for place in os.environ.get("PATH", "").split(os.pathsep) if place]
    for place in _TOOL_PLACES:
        found += sorted(glob.glob(os.path.expanduser(place)), reverse=True)
    return os.pathsep.join(dict.fromkeys(found))
