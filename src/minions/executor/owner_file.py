"""The owner's file: TOML to policy and back, with every error named by its line and key."""

from __future__ import annotations

import difflib
import os
import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minions.domain.errors import FieldError, MinionsError
from minions.domain.owner_policy import OwnerPolicy
from minions.executor.owner_keys import BY_NAME, OWNER_KEYS, OwnerKey
from minions.formats.durable import replace_durably
from minions.runtime.settings_files import user_file

FILE_NAME = "owner.toml"
_WIDTH = 100


class OwnerFileInvalid(MinionsError):
    """The owner's file is not valid."""

    code = "owner_file_invalid"
    hint = "`minions executor config edit` shows every key with its meaning."

    def __init__(self, place: str, errors: list[FieldError]) -> None:
        self.errors = errors
        super().__init__(f"{place}: " + "; ".join(error.message for error in errors))


def owner_file(environment: Mapping[str, str]) -> Path:
    """Where the owner's file is: beside the user's settings file."""
    return user_file(environment).with_name(FILE_NAME)


def read_owner_file(path: Path) -> OwnerPolicy:
    """The policy. Raises OwnerFileInvalid with all that is wrong, and FileNotFoundError."""
    policy, errors = parse_owner_file(_read(path))
    if errors:
        raise OwnerFileInvalid(str(path), errors)
    return policy


def text_of(path: Path) -> str:
    """The file as it stands, valid or not; the template where there is none. Raises OwnerFileInvalid when it cannot be
    read."""
    try:
        return _read(path)
    except FileNotFoundError:
        return template()


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        what = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else (error.strerror or "").lower()
        raise OwnerFileInvalid(str(path), [FieldError("", "unreadable", f"cannot be read: {what}")]) from None


def parse_owner_file(text: str) -> tuple[OwnerPolicy, list[FieldError]]:
    """The policy, and all that is wrong, in the order of the lines. With errors, the policy means nothing."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return OwnerPolicy(), [FieldError("", "not_toml", f"is no TOML: {str(error)[0].lower()}{str(error)[1:]}")]
    lines = _lines(text)
    values: dict[str, Any] = {}
    errors: list[FieldError] = []
    for name, value in document.items():
        place = f"line {lines[name]}: {name}" if name in lines else name
        key = BY_NAME.get(name)
        if key is None:
            errors.append(FieldError(name, "unknown_key", f"{place} is no key{_suggestion(name)}"))
            continue
        try:
            values[key.field] = key.read(value)
        except ValueError as error:
            errors.append(FieldError(name, "bad_value", f"{place}: {error}"))
    policy = OwnerPolicy(**values)
    return policy, errors or _contradictions(policy, lines)


def render(policy: OwnerPolicy) -> str:
    """The policy as an owner's file, each key with its meaning."""
    return "\n".join(f"{_comment(key)}\n{key.written(policy)}\n" for key in OWNER_KEYS)


def template() -> str:
    """An owner's file that changes nothing: each key with its meaning and its default, commented out."""
    head = "# When and how this machine is lent. Remove the # before a key to change it; it counts at once.\n"
    return head + "\n" + "\n".join(f"{_comment(key)}\n# {key.written(OwnerPolicy())}\n" for key in OWNER_KEYS)


def change(path: Path, name: str, value: str) -> OwnerPolicy:
    """Set one key, and leave everything else, comments included, as it is. Returns the policy that counts now.

    value: as on a command line: `always`, `5`, `true`, or TOML: `["embed"]`. Raises OwnerFileInvalid; then nothing is
    written.
    """
    key = BY_NAME.get(name)
    if key is None:
        raise OwnerFileInvalid(str(path), [FieldError(name, "unknown_key", f"{name} is no key{_suggestion(name)}")])
    before = text_of(path)
    try:
        line = f"{name} = {key.write(key.read(_toml_value(key, value)))}"
    except ValueError as error:
        raise OwnerFileInvalid(str(path), [FieldError(name, "bad_value", f"{name}: {error}")]) from None
    after = _replaced(before, name, line)
    policy, errors = parse_owner_file(after)
    if errors:
        raise OwnerFileInvalid(str(path), errors)
    write(path, after)
    return policy


def write(path: Path, text: str) -> None:
    """Put a whole file in its place, or leave what was there."""
    target = path.resolve()  # the file of an owner who keeps a link to it stays a link
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as file:
            file.write(text.encode())
            replace_durably(file, temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _contradictions(policy: OwnerPolicy, lines: Mapping[str, int]) -> list[FieldError]:
    """Thresholds that would let work start and stop without end."""
    start, on, busy = (
        policy.start_after_idle_minutes * 60,
        policy.continue_after_idle_minutes * 60,
        policy.busy_within_seconds,
    )
    if start == 0 or busy <= on <= start:
        return []
    if on > start:
        name, longest, seconds, most = "continue_after_idle_minutes", "start_after_idle_minutes", on, start
    else:
        name, longest, seconds, most = "busy_within_seconds", "continue_after_idle_minutes", busy, on
    place = f"line {lines[name]}: {name}" if name in lines else name
    words = f"({seconds:g} s) must not be longer than {longest} ({most:g} s)"
    return [FieldError(name, "contradiction", f"{place} {words}")]


def _suggestion(name: str) -> str:
    near = difflib.get_close_matches(name, BY_NAME, 1)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(BY_NAME)}"


def _comment(key: OwnerKey) -> str:
    return textwrap.fill(key.help, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _assignment(name: str, *, commented: bool = False) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*{'#[ ]?' if commented else ''}(?:{name}|\"{name}\"|'{name}')[ \t]*=", re.MULTILINE)


def _lines(text: str) -> dict[str, int]:
    """The line of each key, from 1."""
    found = re.finditer(r"^[ \t]*[\"']?([A-Za-z0-9_-]+)[\"']?[ \t]*[=.]", text, re.MULTILINE)
    tables = re.finditer(r"^[ \t]*\[+[ \t]*([A-Za-z0-9_-]+)", text, re.MULTILINE)
    return {match[1]: text.count("\n", 0, match.start(1)) + 1 for match in (*tables, *found)}


def _toml_value(key: OwnerKey, text: str) -> Any:
    """What was meant on a command line: TOML where it is TOML, a list where the key takes one, else text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    is_list = isinstance(getattr(OwnerPolicy(), key.field), tuple) or key.name == "schedule"
    return [part.strip() for part in text.split(",") if part.strip()] if is_list else text


def _replaced(text: str, name: str, line: str) -> str:
    """The text with the one assignment exchanged, uncommented, or appended."""
    if found := _assignment(name).search(text):
        end = _end_of_assignment(text, found.start())
        return text[: found.start()] + line + text[end:]
    if found := _assignment(name, commented=True).search(text):
        end = text.find("\n", found.start())
        return text[: found.start()] + line + (text[end:] if end >= 0 else "\n")
    return text + ("" if not text or text.endswith("\n") else "\n") + line + "\n"


def _end_of_assignment(text: str, start: int) -> int:
    """Where its value ends: before the comment behind it, or before the line break. A list may span lines."""
    for found in re.finditer(r"[ \t]*#|[ \t]*\r?\n|\Z", text[start:]):
        try:
            tomllib.loads(text[start : start + found.start()])
        except tomllib.TOMLDecodeError:
            continue
        return start + found.start()
    end = text.find("\n", start)  # it is no TOML as it stands: its line is exchanged
    return end if end >= 0 else len(text)
