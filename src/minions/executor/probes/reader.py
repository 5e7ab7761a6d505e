"""Reads all facts at once: each probe as often as it is worth, and none may hold up the others."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from minions.domain.facts import Facts
from minions.domain.owner_policy import OwnerPolicy
from minions.executor.probes.disk import read_free_bytes, read_used_bytes
from minions.executor.probes.idle import IdleProbe
from minions.executor.probes.memory import read_pressure
from minions.executor.probes.metered import read_metered
from minions.executor.probes.power import Power, read_power
from minions.executor.probes.processor import ProcessorProbe
from minions.executor.probes.programs import ProgramsProbe
from minions.executor.probes.session import read_locked
from minions.executor.probes.sleep import SleepWatch
from minions.executor.probes.thermal import read_thermal

log = logging.getLogger(__name__)

MACHINE = "Mac" if sys.platform == "darwin" else "machine"
_WAIT_SECONDS = 0.4  # for all probes together: work must stop within two seconds of a return


@dataclass(frozen=True, slots=True)
class Probe:
    """One fact. every_seconds: a value is good for so long. read: gives None, or raises, when it cannot tell.
    patience_seconds: while the next look takes no longer than this, the last value stands."""

    name: str
    every_seconds: float
    read: Callable[[], Any]
    patience_seconds: float = 5.0


class Looks:
    """Runs probes in threads of their own. One that raises, or is not back in time, is None until it answers again,
    and the log says so once."""

    def __init__(self, probes: Sequence[Probe], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._looks = {probe.name: _Look(probe) for probe in probes}
        self._monotonic = monotonic

    def take(self, names: Sequence[str], wait_seconds: float) -> dict[str, Any]:
        """The newest value of each named probe; waits for those that are due, for so long in all."""
        now = self._monotonic()
        looks = [self._looks[name] for name in names]
        begun = [look for look in looks if look.begin(now)]
        deadline = time.monotonic() + wait_seconds
        for look in begun:
            look.wait(max(deadline - time.monotonic(), 0.0))
        return {look.probe.name: look.value(self._monotonic()) for look in looks}


class _Look:
    """One probe's last value and the thread that brings the next."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._value: Any = None
        self._due_at = self._begun_at = float("-inf")
        self._thread: threading.Thread | None = None
        self._complained = False

    def begin(self, now: float) -> bool:
        """Start the next look if it is due and none is under way. True: there is something to wait for."""
        if self._thread is not None and self._thread.is_alive():
            return False
        if now < self._due_at:
            return False
        self._begun_at, self._due_at = now, now + self.probe.every_seconds
        self._thread = threading.Thread(target=self._run, name=f"probe {self.probe.name}", daemon=True)
        self._thread.start()
        return True

    def wait(self, seconds: float) -> None:
        assert self._thread is not None
        self._thread.join(seconds)

    def value(self, now: float) -> Any:
        if self._thread is None or not self._thread.is_alive():
            return self._value
        if now - self._begun_at <= self.probe.patience_seconds:
            return self._value
        self._complain("does not answer")
        return None

    def _run(self) -> None:
        try:
            self._value = self.probe.read()
            self._complained = False
        except Exception as error:  # whatever a system's library does, work must not end for it
            self._value = None
            self._complain(f"{type(error).__name__}: {error}")

    def _complain(self, what: str) -> None:
        if not self._complained:
            self._complained = True
            log.warning("the probe for %s: %s; it counts as unknown", self.probe.name, what)


class FactReader:
    """Everything about this machine that a policy may ask for. disk: where the executor keeps things; kept: all its
    directories. Call `start` and `close`; `read` blocks for less than half a second and belongs in a thread."""

    def __init__(self, disk: Path, kept: Sequence[Path] = (), sleep: SleepWatch | None = None) -> None:
        self.sleep = sleep or SleepWatch()
        idle, programs, processor = IdleProbe(), ProgramsProbe(), ProcessorProbe()
        self._looks = Looks(
            [
                Probe("idle", 0.0, idle.read, patience_seconds=0.0),
                Probe("locked", 2.0 if sys.platform == "darwin" else 10.0, read_locked),
                Probe("power", 10.0 if sys.platform == "darwin" else 2.0, read_power),
                Probe("thermal", 5.0, read_thermal),
                Probe("pressure", 2.0, read_pressure),
                Probe("metered", 30.0, read_metered),
                Probe("programs", 5.0, programs.read),
                Probe("processor", 5.0, processor.read),
                Probe("disk_free", 10.0, lambda: read_free_bytes(disk)),
                Probe("disk_used", 300.0, lambda: read_used_bytes(kept), patience_seconds=120.0),
            ]
        )

    def start(self) -> None:
        """Begin to listen for sleep."""
        self.sleep.start()

    def close(self) -> None:
        """Stop listening for sleep."""
        self.sleep.close()

    def work_is_given_back(self) -> None:
        """Nothing is held any more: the system may sleep."""
        self.sleep.work_is_given_back()

    def read(self, policy: OwnerPolicy, *, is_working: bool, is_loaded: bool) -> Facts:
        """One look at what this policy needs to know."""
        found = self._looks.take(_needed(policy), _WAIT_SECONDS)
        power: Power = found.get("power") or Power(None)
        return Facts(
            now=datetime.now().astimezone(),
            is_working=is_working,
            is_loaded=is_loaded,
            idle_seconds=found.get("idle"),
            screen_locked=found.get("locked"),
            on_battery=power.on_battery,
            battery_percent=power.percent,
            thermal=found.get("thermal"),
            pressure=found.get("pressure"),
            metered=found.get("metered"),
            programs=found.get("programs"),
            other_cpu_percent=found.get("processor"),
            disk_free_bytes=found.get("disk_free"),
            disk_used_bytes=found.get("disk_used"),
            about_to_sleep=self.sleep.about_to_sleep,
            machine=MACHINE,
        )


def _needed(policy: OwnerPolicy) -> list[str]:
    """Probes whose answer makes a difference; the others cost nothing."""
    wanted = {
        "idle": policy.heeds_presence,
        "locked": policy.heeds_presence,
        "power": policy.mains_only or policy.minimum_battery_percent > 0 or policy.keep_awake,
        "thermal": policy.highest_thermal is not None,
        "pressure": policy.highest_pressure is not None,
        "metered": not policy.allow_metered,
        "programs": bool(policy.excluding_programs),
        "processor": policy.most_other_cpu_percent is not None,
        "disk_free": policy.minimum_free_disk_bytes > 0,
        "disk_used": policy.disk_limit_bytes is not None,
    }
    return [name for name, is_wanted in wanted.items() if is_wanted]
