"""The story that `minions run` comes from: 216 jobs, a slow machine with 4 slots and a fast one with 8.

Jobs are sleeps, of 6 s on the slow machine and 3 s on the fast one, so that the cores of this machine do not matter.
Both machines are this one: a stand-in for ssh stays here. Makespan is from the first start to the last end; the lower
bound is what these slots could do with no overhead at all. Beside it, in the same run: GNU parallel with the same
slots, and the even split, half of the list for each machine. --quick: a tenth of the sleeps, so overhead weighs more.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from deployment import say
from own_project import gnu_parallel, ledger, project, run

_JOBS = 216
_SLOW_SLOTS, _FAST_SLOTS = 4, 8
_SLOW_SECONDS, _FAST_SECONDS = 6.0, 3.0
_TABLE = """
[run]
command = ["/bin/sh", "-c", "sleep $PACE; echo $1 > $2", "job", "{index}", "{output}"]
range = { stop = JOBS }
output = "out/{index:03}.txt"

[hosts.slow]
ssh = "slow"
slots = SLOW_SLOTS
state = "SCRATCH/slow"
environment = { PACE = "SLOW_SECONDS" }
[hosts.fast]
ssh = "fast"
slots = FAST_SLOTS
state = "SCRATCH/fast"
environment = { PACE = "FAST_SECONDS" }
"""
_STAND_IN = """#!/bin/sh
for word; do
    case $word in
        127.0.0.1:0:*) echo "Allocated port ${word##*:} for remote forward to 127.0.0.1:${word##*:}" >&2 ;;
    esac
    command=$word
done
exec /bin/sh -c "$command"
"""


def lower_bound(jobs: int, slots: Sequence[tuple[int, float]]) -> float:
    """The least seconds in which these slots, each (how many, seconds a job), can do so many equal jobs."""
    ends = sorted({count * seconds for _, seconds in slots for count in range(1, jobs + 1)})
    return next(end for end in ends if sum(many * int(end / seconds + 1e-9) for many, seconds in slots) >= jobs)


def makespan(rows: Sequence[Mapping[str, Any]]) -> float:
    """From the first start to the last end; one clock, since both machines are this one."""
    starts = [datetime.fromisoformat(row["started_at"]).timestamp() for row in rows]
    return max(start + row["seconds"] for start, row in zip(starts, rows, strict=True)) - min(starts)


def even_split(root: Path, slow_seconds: float, fast_seconds: float) -> float:
    """Half of the list for each machine; the seconds of the one that takes longer."""
    halves = [str(number) for number in range(_JOBS // 2)]
    took: list[float] = []

    def half(slots: int, seconds: float) -> None:
        took.append(gnu_parallel(root, [f"-j{slots}", f"sleep {seconds}; : {{}}"], halves))

    parts = [(_SLOW_SLOTS, slow_seconds), (_FAST_SLOTS, fast_seconds)]
    threads = [threading.Thread(target=half, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    scale = 0.1 if parser.parse_args().quick else 1.0
    slow_seconds, fast_seconds = _SLOW_SECONDS * scale, _FAST_SECONDS * scale
    least = lower_bound(_JOBS, [(_SLOW_SLOTS, slow_seconds), (_FAST_SLOTS, fast_seconds)])
    say(f"lower bound: {least:.1f} s")
    values = {
        "JOBS": _JOBS,
        "SLOW_SLOTS": _SLOW_SLOTS,
        "FAST_SLOTS": _FAST_SLOTS,
        "SLOW_SECONDS": f"{slow_seconds:g}",
        "FAST_SECONDS": f"{fast_seconds:g}",
    }
    with tempfile.TemporaryDirectory(prefix="minions-bench-") as scratch:
        stand_in = Path(scratch) / "ssh"
        stand_in.write_text(_STAND_IN)
        stand_in.chmod(0o755)
        os.environ["PATH"] = f"{scratch}:{os.environ['PATH']}"
        table = _TABLE.replace("SCRATCH", scratch)
        for name, value in values.items():
            table = table.replace(name, str(value))
        with project(table) as root:
            wall = run(root)
            rows = json.loads(ledger(root))["data"]
            ours = makespan(rows)
            fast = sum(row["host"] == "fast" for row in rows)
            say(f"minions: {ours:.1f} s ({wall:.1f} s with its start and stop), {fast} jobs on the fast machine")
            choose = f"if [ {{%}} -le {_SLOW_SLOTS} ]; then sleep {slow_seconds}; else sleep {fast_seconds}; fi; : {{}}"
            listed = [str(number) for number in range(_JOBS)]
            beside = gnu_parallel(root, [f"-j{_SLOW_SLOTS + _FAST_SLOTS}", choose], listed)
            say(f"GNU parallel: {beside:.1f} s")
            split = even_split(root, slow_seconds, fast_seconds)
            say(f"even split: {split:.1f} s")
    print(
        json.dumps(
            {
                "lower_bound_seconds": round(least, 3),
                "makespan_seconds": round(ours, 3),
                "wall_seconds": round(wall, 3),
                "ratio": round(ours / least, 3),
                "even_split_ratio": round(split / least, 3),
                "gnu_parallel_ratio": round(beside / least, 3),
                "fast_share": round(fast / _JOBS, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
