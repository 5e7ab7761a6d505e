"""The circuit: a machine that fails whatever it is given takes itself out of work, and says why."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from minions.domain import phrases
from minions.domain.errors import InputUnreadable, MinionsError, ModelUnavailable, ParametersRefused
from minions.domain.policy import Order, OrderKind
from minions.executor.orders import write_private

log = logging.getLogger(__name__)

_TASKS_IN_A_ROW = 3.0
_LAST = 10
_FAULTS_OF_LAST = 5
_FIRST_REST_SECONDS = 600.0
_LONGEST_REST_SECONDS = 6 * 3600.0
_MESSAGE_CHARACTERS = 200
RESUME = "at once: minions executor resume"


@dataclass(frozen=True, slots=True)
class _Opened:
    """As it is kept on disk. until: wall clock, since it must outlast a restart. openings: one after the other."""

    reason: str
    until: float
    openings: int


class Circuit:
    """Open, nothing is acquired. It opens when three tasks failed here with none done in between, or five of the last
    ten subtasks of at least two tasks. Much later one more is tried: if that works it closes, else the next rest is
    longer. A model that is not there is the task's fault, as are parameters that the engine refuses; an unreadable
    input most likely is: it counts half.
    """

    def __init__(
        self,
        file: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """file: where it is kept, so that a restart does not close it. on_change() hears that it opened or closed."""
        self._file = file
        self._clock = clock
        self.on_change = on_change
        self._failing: dict[str, float] = {}
        self._last: deque[str | None] = deque(maxlen=_LAST)
        self._resting: tuple[str, float] | None = None
        self._opened = self._read()

    @property
    def reason(self) -> str | None:
        """Why nothing is acquired now; None when something may be."""
        order = self.order()
        return order.reason if order is not None else None

    def seconds_left(self) -> float | None:
        """Until something may be acquired again; None when it may be now."""
        left = max((until - self._clock() for _, until in self._rests()), default=0.0)
        return left if left > 0 else None

    def order(self) -> Order | None:
        """What stands in place of the owner's order while it is open."""
        now = self._clock()
        standing = [(reason, until) for reason, until in self._rests() if until > now]
        if not standing:
            return None
        reason, until = max(standing, key=lambda each: each[1])
        back, today = (datetime.fromtimestamp(moment).astimezone() for moment in (until, now))
        way_out = f"it tries again at {phrases.clock(back, today)}, or {RESUME}"
        return Order(OrderKind.PAUSE, None, back, f"{reason}; {way_out}")

    def worked(self) -> None:
        """A subtask was done here."""
        self._failing.clear()
        self._last.append(None)
        if self._opened is not None:
            log.info("this machine works again")
            self._set(None)

    def fault(self, task: str, error: MinionsError) -> None:
        """A subtask of this task could not be done here."""
        if isinstance(error, ModelUnavailable | ParametersRefused):
            return
        is_input = isinstance(error, InputUnreadable)
        self._failing[task] = max(self._failing.get(task, 0.0), 0.5 if is_input else 1.0)
        if not is_input:
            self._last.append(task)
        failed = [each for each in self._last if each is not None]
        if self._opened is not None:
            self._open("the subtask that was to show that it works again failed here too", error)
        elif sum(self._failing.values()) >= _TASKS_IN_A_ROW:
            self._open(f"{len(self._failing)} tasks failed here, and none was done in between", error)
        elif len(failed) >= _FAULTS_OF_LAST and len(set(failed)) > 1:
            self._open(f"{len(failed)} of the last {len(self._last)} subtasks failed here", error)

    def rest(self, reason: str, seconds: float) -> None:
        """Acquire nothing for a while, for a reason that is no fault of the engine: a full disk."""
        self._resting = (reason, self._clock() + seconds)
        self.on_change()

    def close(self) -> None:
        """The owner says that this machine is well again."""
        self._failing.clear()
        self._last.clear()
        self._resting = None
        self._set(None)

    def _rests(self) -> list[tuple[str, float]]:
        opened = [(self._opened.reason, self._opened.until)] if self._opened is not None else []
        return opened + ([self._resting] if self._resting is not None else [])

    def _open(self, what: str, error: MinionsError) -> None:
        openings = self._opened.openings + 1 if self._opened is not None else 1
        seconds = min(_FIRST_REST_SECONDS * 3.0 ** min(openings - 1, 10), _LONGEST_REST_SECONDS)
        reason = f"{what}, last with {error.code}: {error.message[:_MESSAGE_CHARACTERS]}"
        log.warning("nothing is acquired for %s: %s", phrases.duration(seconds), reason)
        self._failing.clear()
        self._last.clear()
        self._set(_Opened(reason, self._clock() + seconds, openings))

    def _set(self, opened: _Opened | None) -> None:
        self._opened = opened
        self._write()
        self.on_change()

    def _read(self) -> _Opened | None:
        if self._file is None:
            return None
        try:
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            found = _Opened(str(kept["reason"]), float(kept["until"]), int(kept["openings"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            log.warning("%s cannot be read; this machine is taken for well", self._file)
            return None
        # A clock that was set back must not keep a machine out of work for years.
        latest = self._clock() + _LONGEST_REST_SECONDS
        return _Opened(found.reason, min(found.until, latest), found.openings)

    def _write(self) -> None:
        if self._file is None:
            return
        try:
            if self._opened is None:
                self._file.unlink(missing_ok=True)
                return
            write_private(self._file, json.dumps(asdict(self._opened)).encode())
        except OSError as error:
            # A full disk may be the very reason; the circuit holds for this run of the executor all the same.
            log.warning("%s cannot be written: %s", self._file, error.strerror)
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
