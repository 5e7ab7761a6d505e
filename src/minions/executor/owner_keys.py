"""The keys of the owner's file: what each means, how it is read, and how it is written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast, get_args

from minions.domain.choices import ModelKind
from minions.domain.facts import Pressure, Thermal
from minions.domain.names import NAME, NAME_RULE, Preference
from minions.domain.owner_policy import GIGABYTE, Mode, OnReturn, OwnerPolicy
from minions.domain.preferences import TimedPreference
from minions.domain.schedule import Schedule, Span

_KINDS = get_args(ModelKind)
_NO_COMMANDS = (
    "'command': a machine that is lent runs no programs of other people; an executor of commands is one of its own, "
    "`minions executor --kind command`"
)


@dataclass(frozen=True, slots=True)
class OwnerKey:
    """One key. field: of OwnerPolicy. read: TOML value → field's value, raises ValueError without naming the key.
    write: field's value → TOML. help: for the file and the documentation."""

    name: str
    field: str
    read: Callable[[Any], Any]
    write: Callable[[Any], str]
    help: str

    def written(self, policy: OwnerPolicy) -> str:
        """`key = value`, as it stands in the file."""
        return f"{self.name} = {self.write(getattr(policy, self.field))}"


def _number(least: float, most: float, *, whole: bool = False, scale: int = 1) -> Callable[[Any], Any]:
    noun = "a whole number" if whole else "a number"

    def read(value: Any) -> float | int:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            raise ValueError(f"must be {noun} from {least:,} to {most:,}, without quotes")
        if not (math.isfinite(value) and least <= value <= most):
            raise ValueError(f"must be from {least:,} to {most:,}, and is {value:,}")
        return int(value * scale) if whole or scale > 1 else float(value)

    return read


def _or_word(word: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read_either(value: Any) -> Any:
        if value == word:
            return None
        try:
            return read(value)
        except ValueError as error:
            raise ValueError(f'{error}; or "{word}"') from None

    return read_either


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false, without quotes")
    return value


def _choice(members: Sequence[Enum]) -> Callable[[Any], Any]:
    by_word = {_word(member): member for member in members}

    def read(value: Any) -> Enum:
        found = by_word.get(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"must be one of {', '.join(_quoted(word) for word in by_word)}")
        return found

    return read


def _texts(value: Any) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(item, str) and item.strip() for item in items):
        raise ValueError('must be a list of texts, like ["one", "two"]')
    return [str(item).strip() for item in items]


def _schedule(value: Any) -> Schedule:
    return Schedule(tuple(Span.parse(text) for text in _texts(value)))


def _programs(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_texts(value)))


def _kinds(value: Any) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_texts(value)))
    if "command" in found:
        raise ValueError(_NO_COMMANDS)
    wrong = [kind for kind in found if kind not in _KINDS]
    if wrong or not found:
        raise ValueError(f"{', '.join(map(repr, wrong)) or 'an empty list'}: known are {', '.join(_KINDS)}")
    return found


def _teams(value: Any) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_texts(value)))
    for team in found:
        if not NAME.fullmatch(team):
            raise ValueError(f"{team!r} is not a name: {NAME_RULE}")
    return found


def _preferences(value: Any) -> tuple[TimedPreference, ...]:
    return tuple(TimedPreference(Preference.parse(text)) for text in _texts(value))


def _word(member: Enum) -> str:
    return member.name.lower()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a TOML string


def _say(value: Any) -> str:
    """A TOML value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return _quoted(_word(value))
    if isinstance(value, Schedule):
        return _say(value.spans)
    if isinstance(value, tuple):
        return f"[{', '.join(_quoted(str(item)) for item in cast('tuple[object, ...]', value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _say_or(word: str, say: Callable[[Any], str] = _say) -> Callable[[Any], str]:
    return lambda value: _quoted(word) if value is None else say(value)


def _say_gigabytes(value: int) -> str:
    return f"{value / GIGABYTE:.12g}"


_gigabytes = _number(0, 1_000_000, scale=GIGABYTE)
_percent = _number(0, 100)
OWNER_KEYS: tuple[OwnerKey, ...] = (
    OwnerKey(
        "mode",
        "mode",
        _choice(list(Mode)),
        _say,
        '"auto": lend it when all that follows allows it. "always": also while somebody uses it and at any hour; the '
        'limits still hold. "never": do not lend it.',
    ),
    OwnerKey(
        "start_after_idle_minutes",
        "start_after_idle_minutes",
        _number(0, 1440),
        _say,
        "Work starts only when nobody has touched this machine for so long. 0: it does not matter whether somebody "
        "uses it.",
    ),
    OwnerKey(
        "when_owner_returns",
        "on_return",
        _choice(list(OnReturn)),
        _say,
        'What happens to running work then. "stop": it is ended within 2 seconds, what is finished is kept, the memory '
        'is free within 5. "suspend": it is frozen, and its memory stays in use. "finish": what runs comes to its end. '
        '"ignore": it goes on.',
    ),
    OwnerKey(
        "busy_within_seconds",
        "busy_within_seconds",
        _number(2, 3600),
        _say,
        "Somebody whose last key or movement is not older than this is here.",
    ),
    OwnerKey(
        "continue_after_idle_minutes",
        "continue_after_idle_minutes",
        _number(0, 1440),
        _say,
        "Work that is suspended goes on when nobody has touched this machine for so long.",
    ),
    OwnerKey(
        "suspend_at_most_minutes",
        "suspend_at_most_minutes",
        _number(0, 1440),
        _say,
        "Work that is suspended for longer is ended, and its memory freed.",
    ),
    OwnerKey(
        "schedule",
        "schedule",
        _schedule,
        _say,
        'Hours in which it may work, like ["mon-fri 19:00-08:00", "weekend 00:00-24:00"]. Empty: at any hour.',
    ),
    OwnerKey("mains_only", "mains_only", _truth, _say, "Work only while it is plugged in."),
    OwnerKey(
        "minimum_battery_percent",
        "minimum_battery_percent",
        _percent,
        _say,
        "If it may work on battery: only while the battery holds this much.",
    ),
    OwnerKey(
        "highest_thermal",
        "highest_thermal",
        _or_word("any", _choice(list(Thermal))),
        _say_or("any"),
        'The hottest it may be while it works: "nominal", "fair", "serious", "critical"; "any": do not look.',
    ),
    OwnerKey(
        "highest_memory_pressure",
        "highest_pressure",
        _or_word("any", _choice(list(Pressure))),
        _say_or("any"),
        'The shortest of memory it may be while it works: "normal", "warning", "critical"; "any": do not look.',
    ),
    OwnerKey(
        "most_other_cpu_percent",
        "most_other_cpu_percent",
        _or_word("any", _percent),
        _say_or("any"),
        'How much of the processor other programs may use while it works, in percent of all cores; "any": do not look.',
    ),
    OwnerKey("allow_metered", "allow_metered", _truth, _say, "Also work on a phone's hotspot and the like."),
    OwnerKey(
        "excluding_programs",
        "excluding_programs",
        _programs,
        _say,
        'No work while one of these runs, like ["zoom.us", "Final Cut Pro"].',
    ),
    OwnerKey(
        "hysteresis_seconds",
        "hysteresis_seconds",
        _number(0, 86400),
        _say,
        "After battery, heat, a program, … kept it from working, that must be gone for so long before it starts again.",
    ),
    OwnerKey("keep_awake", "keep_awake", _truth, _say, "Keep it from falling asleep while it works, on mains only."),
    OwnerKey(
        "memory_mb",
        "memory_mb",
        _or_word("default", _number(256, 4_000_000, whole=True)),
        _say_or("default"),
        'What a model may use, in megabytes; "default": three quarters of the memory.',
    ),
    OwnerKey(
        "disk_gb",
        "disk_limit_bytes",
        _or_word("any", _gigabytes),
        _say_or("any", _say_gigabytes),
        'What the executor may keep on disk in all; "any": only the other two limits.',
    ),
    OwnerKey(
        "model_cache_gb",
        "model_cache_limit_bytes",
        _or_word("any", _gigabytes),
        _say_or("any", _say_gigabytes),
        "What models may take of the disk; the least recently used is deleted first.",
    ),
    OwnerKey(
        "minimum_free_disk_gb",
        "minimum_free_disk_bytes",
        _gigabytes,
        _say_gigabytes,
        "How much of the disk stays free for you.",
    ),
    OwnerKey(
        "kinds",
        "kinds",
        _kinds,
        _say,
        'Kinds of work: "embed", "complete".',
    ),
    OwnerKey("teams", "teams", _teams, _say, "Work only for these teams. Empty: for all that the server lets in."),
    OwnerKey(
        "preferences",
        "preferences",
        _preferences,
        _say,
        'What to work on first, dearest first, as team/project/task, * is any: ["search/msmarco", "*/papers"].',
    ),
)
BY_NAME = {key.name: key for key in OWNER_KEYS}
