"""The board of a run: pure text from its status, as lines of (text, style), fitted to a width."""

from __future__ import annotations

from collections.abc import Sequence

from minions.client.progress import bar_text, duration_text
from minions.hosts.status import Failure, HostStatus, Status

Line = list[tuple[str, str]]
_BAR_WIDTH = 30
_LEAST_BAR_WIDTH = 8
_SHOWN_FAILURES = 5
_MARKS = {
    "ready": ("●", "green"),
    "connecting": ("◌", "blue"),
    "preparing": ("◌", "blue"),
    "paused": ("◆", "yellow"),
    "draining": ("◆", "yellow"),
    "away": ("■", "bright_black"),
    "refused": ("■", "red"),
}


def summary(status: Status) -> str:
    """The run in one line of plain text."""
    return "  ".join(text for text, _ in _told(status))


def board(status: Status, width: int) -> list[Line]:
    """The live board: the run, each host, and the first failures."""
    told = _told(status)
    line: Line = []
    for index, (text, style) in enumerate(told):
        line.append((("  " if index else "") + text, style))
    room = width - sum(len(text) for text, _ in line) - 2
    if status.jobs and room >= _LEAST_BAR_WIDTH:
        bar = bar_text(status.done / status.jobs, min(room, _BAR_WIDTH))
        cut = len(bar) - len(bar.lstrip("━"))
        line = [(bar[:cut], "green"), (bar[cut:] + "  ", "bright_black"), *line]
    lines = [line]
    names = max((len(host.name) for host in status.hosts), default=0)
    lines += [_host_line(host, names) for host in status.hosts]
    for what, end in status.held_back:
        lines += [[("  ◆ ", "yellow"), (f"{what}:", "yellow")], [(f"    {end}", "")]]
    lines += [_failure_line(failure) for failure in status.failures[:_SHOWN_FAILURES]]
    if status.failed > _SHOWN_FAILURES:
        lines.append([(f"  and {status.failed - _SHOWN_FAILURES:,} more; `minions ledger --failed` lists them", "dim")])
    return [_cut(each, width) for each in lines]


def failure_text(failure: Failure) -> str:
    """`job 7 (results/shard-007.json) failed on mini: command_failed: it ended with code 1`."""
    where = f" on {failure.host}" if failure.host else ""
    first = next(iter(failure.message.strip().splitlines()), "")
    return f"job {failure.index} ({failure.output}) failed{where}: {first or failure.reason}"


def _told(status: Status) -> Line:
    """What is said of the run, the most important first."""
    if not status.jobs:
        return [(status.activity or "starting", "dim")]
    told: Line = [(f"{status.done:,} / {status.jobs:,} jobs", "bold")]
    if status.failed:
        told.append((f"{status.failed:,} failed", "red"))
    if status.activity:
        told.append((status.activity, "dim"))
    elif status.phase == "running" and status.remaining_seconds is not None:
        told.append((f"{duration_text(*status.remaining_seconds)} left", ""))
    if status.running:
        told.append((f"{status.running:,} running", ""))
    if status.nondeterministic:
        told.append((f"{status.nondeterministic:,} nondeterministic", "yellow"))
    return told


def _host_line(host: HostStatus, width: int) -> Line:
    mark, style = _MARKS.get(host.state, ("·", ""))
    line: Line = [(f"  {mark} ", style), (host.name.ljust(width), "bold")]
    if host.state in ("ready", "paused", "draining"):
        line.append((f"  {host.running} of {host.slots} slots", ""))
        line.append((f"  {host.done:,} done", ""))
        if host.per_minute is not None:
            line.append((f"  {_rate(host.per_minute)}", ""))
    if host.state != "ready":
        line.append((f"  {host.state}{f': {host.reason}' if host.reason else ''}", style))
    return line


def _rate(per_minute: float) -> str:
    if per_minute >= 600:
        return f"{per_minute / 60:,.0f} jobs/s"
    if per_minute >= 1:
        return f"{per_minute:,.1f} jobs/min"
    return f"{per_minute * 60:.1f} jobs/h"


def _failure_line(failure: Failure) -> Line:
    return [("  ■ ", "red"), (failure_text(failure), "")]


def _cut(line: Sequence[tuple[str, str]], width: int) -> Line:
    """At most `width` cells."""
    cut: Line = []
    left = width
    for text, style in line:
        if left <= 0:
            break
        cut.append((text if len(text) <= left else f"{text[: left - 1]}…", style))
        left -= len(text)
    return cut
