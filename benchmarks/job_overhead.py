"""What a job of `minions run` costs when the job itself costs next to nothing, beside GNU parallel.

20,000 jobs that write one line each, on two local slots, from the command to the last output in its place: with every
start and stop, the hashes, the ledger and the flushes to the disk, of which GNU parallel does none. --quick: 1,000
jobs, over which the start of the deployment weighs twenty times as much.
"""

from __future__ import annotations

import argparse
import json

from deployment import say
from own_project import gnu_parallel, project, run

_JOBS, _QUICK_JOBS = 20_000, 1_000
_TABLE = """
[run]
command = ["/bin/sh", "-c", "echo $1 > $2", "job", "{start}", "{output}"]
range = { stop = JOBS }
output = "out/{index:05}.txt"

[hosts.local]
slots = 2
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    jobs = _QUICK_JOBS if parser.parse_args().quick else _JOBS
    with project(_TABLE.replace("JOBS", str(jobs))) as root:
        seconds = run(root)
        outputs = len(list((root / "out").iterdir()))
        if outputs != jobs:
            raise SystemExit(f"{outputs} outputs of {jobs}")
        say(f"minions: {seconds:.1f} s")
        (root / "beside").mkdir()
        beside = gnu_parallel(root, ["-j2", "echo {} > beside/{}.txt"], [str(number) for number in range(jobs)])
        say(f"GNU parallel: {beside:.1f} s")
    print(
        json.dumps(
            {
                "jobs": jobs,
                "ms_per_job": round(seconds * 1000 / jobs, 2),
                "gnu_parallel_ms_per_job": round(beside * 1000 / jobs, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
