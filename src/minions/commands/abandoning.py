"""What is said when an executor was abandoned, of a Minion Server or of one's own machines."""

from __future__ import annotations

from minions.commands.output import counted, to_stderr


def say_abandoned(name: str, given_back: int, stopped: int, *, thing: str = "job", when: str = "") -> None:
    """How many things it held, and how many cancelled jobs nothing waits for any more. when: what is said of both."""
    if given_back or not stopped:
        to_stderr(f"{counted(given_back, thing)} of {name} went back to the queue.{when}")
    if stopped:
        to_stderr(f"No job waits any more for {counted(stopped, 'cancelled job')} of {name}.{when}")
