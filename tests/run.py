"""`make test`: all tests in several processes, then the few that failed there once more, alone.

    python -m tests.run PROCESSES

Hundreds of tests start processes and wait for them, more at once than there are cores. What fails there and passes
alone is named as unsteady at the end: a race, in the test or in the product, that wants to be found. What fails twice
has failed, and so has a run in which more than a few fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MOST_UNSTEADY = 3
_SOME_FAILED = 1  # pytest's exit code
_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(processes: str) -> int:
    """The exit code."""
    parallel = ("--numprocesses", processes, "--dist", "loadfile", "--no-loadscope-reorder", "--cache-clear")
    code = _pytest(*parallel)
    if code != _SOME_FAILED or not _FAILED.exists():
        return code
    failed: Sequence[str] = sorted(json.loads(_FAILED.read_text()))
    if len(failed) > MOST_UNSTEADY:
        return code
    print(f"\nOnce more, alone: {', '.join(failed)}", flush=True)
    code = _pytest("--last-failed", "--last-failed-no-failures", "none")
    if code == 0:
        print("\nUNSTEADY: failed beside other tests, and passed alone. Find out why:", *failed, sep="\n  ", flush=True)
    return code


def _pytest(*flags: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *flags], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
