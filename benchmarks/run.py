"""Runs the benchmarks, each in a process of its own, and writes what they found into RESULTS.md.

    python benchmarks/run.py [--only NAME] [--quick] [--date DATE]

With --quick nothing is written: rough figures would stand there like the rest. With --only these figures take the place
of the earlier ones, and the others stay as they are. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deployment import say
from minions.local.postgres import binaries

_HERE = Path(__file__).parent
_LIMIT_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a benchmark finds. goal: a comparison and its bound; None when it is only told."""

    what: str
    value: Callable[[Mapping[str, Any]], float]
    goal: tuple[str, float] | None = None
    unit: str = ""

    def row(self, found: Mapping[str, Any]) -> str:
        wanted = f"{self.goal[0]} {self.goal[1]:g}{self.unit}" if self.goal else "–"
        if "failed" in found:
            return f"| {self.what} | {wanted} | – | failed |"
        value = self.value(found)
        met = "–" if self.goal is None else "yes" if _COMPARISONS[self.goal[0]](value, self.goal[1]) else "**no**"
        return f"| {self.what} | {wanted} | {_readable(value)}{self.unit} | {met} |"


_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {"≥": operator.ge, "≤": operator.le, "<": operator.lt}
_get = operator.itemgetter

FIGURES: Mapping[str, Sequence[Figure]] = {
    "acquire": [
        Figure("Full cycles a second over REST, 10⁴ waiting, 64 executors", _get("cycles_per_second_1e4")),
        Figure(
            "… as a multiple of procrastinate's jobs a second",
            lambda found: found["cycles_per_second_1e4"] / found["procrastinate_per_second"],
            ("≥", 3),
            " ×",
        ),
        Figure(
            "… with 10⁶ waiting, as a share of that with 10⁴",
            lambda found: found["cycles_per_second_1e6"] / found["cycles_per_second_1e4"],
            ("≥", 0.8),
        ),
        Figure("… when each executor holds one while it asks", _get("cycles_per_second_1e4_holding")),
        Figure("p99 of a call, 10⁴ waiting", _get("p99_ms_1e4"), ("<", 60), " ms"),
        Figure("p99 of a call, 10⁶ waiting", _get("p99_ms_1e6"), ("<", 60), " ms"),
        Figure(
            "… as a multiple of that with 10⁴",
            lambda found: found["p99_ms_1e6"] / found["p99_ms_1e4"],
            ("≤", 1.2),
            " ×",
        ),
        Figure("procrastinate, jobs a second", _get("procrastinate_per_second")),
        Figure("pgqueuer, jobs a second, its default batches of 10", _get("pgqueuer_per_second")),
        Figure("pgqueuer, jobs a second, batches of 100", _get("pgqueuer_per_second_batch_100")),
    ],
    "overhead_embedding": [Figure("Embedding, rows a second: system over library", _get("ratio"), ("≥", 1.0))],
    "overhead_completion": [Figure("Completion, tokens a second: system over llama.cpp", _get("ratio"), ("≥", 0.97))],
    "recovery": [
        Figure("An executor killed: seconds until its subtasks run elsewhere", _get("seconds_to_rerun"), unit=" s"),
        Figure("… and the task's time over the time without", _get("makespan_ratio"), unit=" ×"),
    ],
    "owner_week": [
        Figure("A simulated week of 50 owners: share of allowed time used", _get("used_share"), ("≥", 0.95)),
        Figure("… rows lost", _get("rows_lost"), ("≤", 0)),
        Figure("… seconds of work in time that was not allowed", _get("forbidden_seconds"), ("≤", 0), " s"),
    ],
    "eviction": [
        Figure("The owner returns: seconds until no engine runs, p99 of 50", _get("p99_seconds"), ("≤", 2), " s"),
        Figure("… p50", _get("p50_seconds"), unit=" s"),
        Figure("… until the server has the subtask back, at most", _get("max_released_seconds"), ("≤", 5), " s"),
        Figure("… rows that were done and are done again, at most", _get("max_rows_lost")),
    ],
    "pages": [
        Figure("A page over 10⁶ subtasks of 20,000 tasks: p95 to the first byte", _get("p95_ms"), ("<", 150), " ms"),
        Figure("… and its size with scripts and style sheets, at most", _get("max_kb"), ("<", 300), " kB"),
        Figure("… 200 open live pages: PostgreSQL's share of a core", _get("live_core_share"), ("<", 0.05)),
    ],
    "makespan": [
        Figure("216 jobs, 4 slow and 8 fast slots: makespan over its lower bound", _get("ratio"), ("≤", 1.05)),
        Figure("… GNU parallel with the same slots", _get("gnu_parallel_ratio")),
        Figure("… the even split, half of the list for each machine", _get("even_split_ratio")),
        Figure("… share of the jobs that the fast machine did", _get("fast_share")),
    ],
    "job_overhead": [
        Figure("20,000 jobs of one line, two local slots: overhead of one", _get("ms_per_job"), ("<", 20), " ms"),
        Figure("… GNU parallel", _get("gnu_parallel_ms_per_job"), unit=" ms"),
    ],
    "long_run": [
        Figure("A run of 100,000 jobs: `minions ledger`", _get("ledger_seconds"), ("<", 8), " s"),
        Figure("… the most memory that it had", _get("ledger_mb"), unit=" MB"),
        Figure("… `minions explain` of one job", _get("explain_seconds"), ("<", 1.5), " s"),
        Figure("… of both: the deployment started and stopped", _get("deployment_seconds"), unit=" s"),
    ],
    "startup": [
        Figure("`minions up` to the first accepted task, fresh directory", _get("first_seconds"), unit=" s"),
        Figure("… on a directory that is there", _get("second_seconds"), unit=" s"),
    ],
}


def _readable(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def run(name: str, *, quick: bool) -> dict[str, Any] | None:
    """What one benchmark found; None when it failed. Its progress goes on to stderr."""
    say(f"── {name}")
    argv = [sys.executable, str(_HERE / f"{name}.py"), *(["--quick"] if quick else [])]
    started = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        output, _ = process.communicate(timeout=_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
        say(f"{name} was ended after {_LIMIT_SECONDS:.0f} s")
        return None
    finally:
        if process.poll() is None:
            process.terminate()  # it stops what it started
            process.wait()
    if process.returncode or not output.strip():
        say(f"{name} failed with exit code {process.returncode}")
        return None
    line = output.strip().splitlines()[-1]
    say(f"{line}\n{name} took {time.monotonic() - started:.0f} s")
    return json.loads(line)


def document(found: Mapping[str, Mapping[str, Any]]) -> str:
    """RESULTS.md, from what `run` found and when."""
    dates = sorted({figures["taken_on"] for figures in found.values()})
    lines = [
        "# Measured",
        "",
        "Made by `make bench`; every script says in its docstring what it measures and what it leaves out. Figures",
        "that compare were taken in turns in one run; a goal that is not met says so.",
        "",
        "| figure | goal | measured | met |",
        "|---|---|---|---|",
        *(figure.row(figures) for name, figures in found.items() for figure in FIGURES[name]),
        "",
        f"Taken on {' to '.join(dict.fromkeys((dates[0], dates[-1])))}: {machine()}.",
        "",
        "```json",
        *(json.dumps({"benchmark": name, **figures}) for name, figures in found.items()),
        "```",
    ]
    return "\n".join(lines) + "\n"


def earlier(text: str) -> dict[str, dict[str, Any]]:
    """What a RESULTS.md says, by benchmark."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"benchmark": ')]
    return {line.pop("benchmark"): line for line in lines}


def machine() -> str:
    """What the figures were taken on."""
    import psutil

    memory_gb = psutil.virtual_memory().total / 2**30
    postgres = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True)
    return (
        f"{os.cpu_count()} cores ({_processor()}), {memory_gb:.0f} GiB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, {postgres.stdout.strip()}"
    )


def _processor() -> str:
    if sys.platform == "darwin":
        named = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return named.stdout.strip()
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in facts if line.startswith("model name")), platform.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(FIGURES), action="append", help="this one; repeat for several")
    parser.add_argument("--quick", action="store_true", help="rough figures in a few minutes")
    parser.add_argument("--date", default=datetime.now(UTC).date().isoformat(), help="the date that is written down")
    asked = parser.parse_args()
    taken = {"taken_on": asked.date}
    new = {name: taken | (run(name, quick=asked.quick) or {"failed": True}) for name in asked.only or FIGURES}
    if asked.quick:
        print(f"{document(new)}\nRough: with --quick less is done than the labels say.")
    else:
        results = _HERE / "RESULTS.md"
        known = earlier(results.read_text("utf-8")) | new
        results.write_text(document({name: known[name] for name in FIGURES if name in known}), "utf-8")
        print(document(new))
    sys.exit(any("failed" in figures for figures in new.values()))


if __name__ == "__main__":
    main()
