"""Preferences for an evening: given by hand, with an end, and kept apart so that the owner's file stays as it is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from minions.domain.errors import MinionsError
from minions.domain.names import Preference
from minions.domain.preferences import TimedPreference
from minions.executor.owner_file import write

FILE_NAME = "preferences.json"


class PreferencesUnreadable(MinionsError):
    """The preferences that were given by hand cannot be read."""

    code = "preferences_unreadable"


def read_preferences(path: Path) -> tuple[TimedPreference, ...]:
    """Those that were given by hand, the dearest first, the lapsed among them. Raises PreferencesUnreadable."""
    try:
        document: Any = json.loads(path.read_text("utf-8"))
        return tuple(_read(item) for item in cast("list[dict[str, str | None]]", document))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise PreferencesUnreadable(
            f"{path} is not what this program wrote there; `minions executor prefer --clear` begins anew"
        ) from None


def prefer(path: Path, wanted: TimedPreference, now: datetime) -> tuple[TimedPreference, ...]:
    """Put one before all others. Returns those that hold now; the lapsed are forgotten."""
    others = [each for each in read_preferences(path) if each.preference != wanted.preference and each.holds(now)]
    kept = (wanted, *others)
    _write(path, kept)
    return kept


def forget_preferences(path: Path) -> None:
    """Back to what the owner's file says."""
    _write(path, ())


def _read(item: dict[str, str | None]) -> TimedPreference:
    until = item["until"]
    moment = datetime.fromisoformat(until) if until is not None else None
    if moment is not None and moment.tzinfo is None:
        raise ValueError("a moment without its zone")
    return TimedPreference(Preference.parse(item["preference"] or ""), moment)


def _write(path: Path, kept: Iterable[TimedPreference]) -> None:
    items = [
        {"preference": str(each.preference), "until": each.until.isoformat() if each.until else None} for each in kept
    ]
    write(path, json.dumps(items, indent=1) + "\n")
