"""A simulated week of 50 owners over one batch: is the time that they allow used, and no other, and is no row lost?

Pure: the real policy, simulated owners (arrivals, pauses, evenings, unplugged laptops, sleep with and without notice,
heat, full disks, games, probes that fail, idle counters that reset by themselves), a simulated queue with fenced
commits and leases, and executors that act as the agent does and as slowly: 15 s to load a model, 1 s to end it, a part
each minute. The same numbers every time.

used_share: of the time that the owners allowed while the queue was not empty, the part in which rows were computed.
rows_lost: rows of the batch that were not committed at the end. forbidden_seconds: rows computed in other time, past
the two seconds that stopping may take.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from deployment import report, say

sys.path.insert(0, str(Path(__file__).parent.parent))  # the tests drive the same simulation

from tests.unit.domain.simulated_owner import WEEK, any_life
from tests.unit.domain.simulated_pool import run_pool

from minions.domain.policy import OwnerPolicy

_SUBTASKS_AN_OWNER = 450  # about two thirds of what they can do in the week


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ten owners")
    owners = 10 if parser.parse_args().quick else 50
    say(f"{owners} owners, one week")
    started = time.perf_counter()
    policy = OwnerPolicy(excluding_programs=("Game",))
    lives = [any_life(number) for number in range(owners)]
    week = run_pool(lives, [policy] * owners, subtasks=_SUBTASKS_AN_OWNER * owners, until=WEEK)
    report(
        {
            "used_share": week.used_share,
            "rows_lost": week.rows_lost,
            "rows_doubled": week.rows_doubled,
            "forbidden_seconds": week.forbidden_seconds,
            "owners": owners,
            "allowed_hours": week.allowed_hours,
            "queue_empty_after_hours": week.finished_after_hours,
            "seconds": time.perf_counter() - started,
        }
    )


if __name__ == "__main__":
    main()
