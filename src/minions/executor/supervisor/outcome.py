"""Outcomes: how a job ended, told apart from how it was made to end."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """How a job ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of a job.

    exit_code: when it exited, also after it was told to stop. signal_number: when a signal ended it. reason: why it
    was stopped or could not start; empty otherwise. seconds: from when it was let go to its end. stderr_tail: its last
    bytes as text. peak_memory_bytes: of the largest process among those that it waited for, and never less than that of
    the launcher; None when it did not run. leftovers: processes that outlived it and were stopped. left: what is still
    there, or may be, in words; empty when the job is gone for certain. output_fault: why an output file is not whole.
    """

    ending: Ending
    exit_code: int | None = None
    signal_number: int | None = None
    reason: str = ""
    seconds: float = 0.0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stderr_tail: str = ""
    peak_memory_bytes: int | None = None
    leftovers: int = 0
    left: tuple[str, ...] = ()
    output_fault: str = ""

    @property
    def succeeded(self) -> bool:
        """It ended by itself, with exit code 0, and what it printed was kept."""
        return self.ending is Ending.EXITED and self.exit_code == 0 and not self.output_fault

    def explain(self) -> str:
        """One phrase for people; nothing of what the job printed."""
        match self.ending:
            case Ending.EXITED:
                return f"ended with exit code {self.exit_code}" + (
                    f"; {self.output_fault}" if self.output_fault else ""
                )
            case Ending.SIGNALLED:
                return f"was ended by {signal_name(self.signal_number or 0)}, not by us"
            case Ending.NOT_STARTED:
                return f"could not be started: {self.reason}"
            case Ending.TIMED_OUT | Ending.STOPPED:
                return f"was stopped: {self.reason}"


def signal_name(number: int) -> str:
    """The name of a signal; its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ending_of(wait_status: int, asked: Ending | None) -> tuple[Ending, int | None, int | None]:
    """How it ended, its exit code and its signal. asked: if it was told to end while it still ran, in which way."""
    code = os.waitstatus_to_exitcode(wait_status)
    exit_code, number = (code, None) if code >= 0 else (None, -code)
    return asked or (Ending.EXITED if number is None else Ending.SIGNALLED), exit_code, number
