"""Watches the owner's file: a change counts at once, and a broken one leaves the last valid policy in force."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from minions.domain.owner_policy import DEDICATED, Mode, OwnerPolicy
from minions.domain.preferences import TimedPreference
from minions.executor.evening_preferences import PreferencesUnreadable, read_preferences
from minions.executor.owner_file import OwnerFileInvalid, read_owner_file

_Stamp = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class Watched:
    """The policy that counts now. problem: what is wrong with the files, for people; empty when nothing is.
    is_new: it is another one than at the last look."""

    policy: OwnerPolicy
    problem: str = ""
    is_new: bool = False


class OwnerFileWatcher:
    """Looks at the owner's file, and at the preferences that were given by hand.

    Until a file was there, the machine is dedicated. One that is broken from the start is taken for mode = never: what
    its owner wanted is not known. One that breaks or goes later leaves what it last said.
    """

    def __init__(self, path: Path, preferences: Path) -> None:
        self._path = path
        self._preferences_path = preferences
        self._policy = DEDICATED
        self._problem = ""
        self._preferences: tuple[TimedPreference, ...] = ()
        self._preferences_problem = ""
        self._was_valid = False
        self._stamps: tuple[_Stamp, _Stamp] | None = None
        self._last: Watched | None = None

    def look(self) -> Watched:
        """What counts now; two calls of stat when nothing changed."""
        stamps = (_stamp(self._path), _stamp(self._preferences_path))
        if stamps == self._stamps and self._last is not None:
            self._last = replace(self._last, is_new=False)
            return self._last
        self._stamps = stamps
        self._read_policy()
        self._read_preferences()
        policy = replace(self._policy, preferences=(*self._preferences, *self._policy.preferences))
        problem = "; ".join(each for each in (self._problem, self._preferences_problem) if each)
        is_new = self._last is None or (policy, problem) != (self._last.policy, self._last.problem)
        self._last = Watched(policy, problem, is_new)
        return self._last

    def _read_policy(self) -> None:
        try:
            self._policy, self._problem, self._was_valid = read_owner_file(self._path), "", True
        except FileNotFoundError:
            self._problem = f"{self._path} is gone, what it last said counts" if self._was_valid else ""
        except OwnerFileInvalid as error:
            if self._was_valid:
                self._problem = f"{error.message} (what it said before counts)"
            else:
                until_then = "(mode = never counts until it is valid)"
                self._policy, self._problem = OwnerPolicy(mode=Mode.NEVER), f"{error.message} {until_then}"

    def _read_preferences(self) -> None:
        try:
            self._preferences, self._preferences_problem = read_preferences(self._preferences_path), ""
        except PreferencesUnreadable as error:
            self._preferences_problem = error.message


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    # The change time as well: a file that may be read again was not written.
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
