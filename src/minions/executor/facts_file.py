"""A machine described by a file: for tests and measurements, which need an owner who comes and goes on command.

`minions executor --facts-file FILE` (hidden) reads what the probes would read from this JSON object before each
decision. Its keys are the fields of `Facts` that are probed; what is left out is unknown. The file must be replaced
whole (`os.replace`); one that is missing or cut is a machine of which nothing is known.
"""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from minions.domain.facts import Facts
from minions.domain.owner_policy import OwnerPolicy

_FACTS = TypeAdapter(Facts)
_GIVEN_BY_THE_EXECUTOR = {"now", "is_working", "is_loaded"}
_PROBED = {each.name for each in fields(Facts)} - _GIVEN_BY_THE_EXECUTOR


def parse_facts(text: str, now: datetime, *, is_working: bool, is_loaded: bool) -> Facts:
    """The facts of a JSON object. Raises ValueError for what is none, and for a key that is no fact."""
    document: Any = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("facts are a JSON object")
    found = cast("dict[str, Any]", document)
    if unknown := set(found) - _PROBED:
        raise ValueError(f"{', '.join(sorted(unknown))}: no fact; there are {', '.join(sorted(_PROBED))}")
    given = {"now": now, "is_working": is_working, "is_loaded": is_loaded}
    return _FACTS.validate_python(found | given)


class MachineOfFile:
    """Stands for the machine. given_back: how often it was told that nothing is held any more."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.given_back = 0

    def read(self, policy: OwnerPolicy, *, is_working: bool, is_loaded: bool) -> Facts:
        """What the file says now, whatever the policy asks for."""
        now = datetime.now().astimezone()
        try:
            return parse_facts(self._file.read_text(), now, is_working=is_working, is_loaded=is_loaded)
        except (OSError, ValueError):
            return Facts(now=now, is_working=is_working, is_loaded=is_loaded)

    def work_is_given_back(self) -> None:
        """A file does not sleep."""
        self.given_back += 1
