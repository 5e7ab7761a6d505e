"""Remains: what was found of a job that could not be ended, to be looked at again until it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from minions.executor.supervisor.processes import ProcessTable
from minions.executor.supervisor.record import Identity, Record
from minions.executor.supervisor.stopping import Grace, StopReport, Target, stop


class Remains:
    """Of one job. Whatever was found once counts until it has ended, also when its tie to the job is cut by then."""

    def __init__(self, record: Record, launcher: Identity) -> None:
        self.record = record
        self.launcher = launcher
        self._ours: set[Identity] = set()
        self._unknown: set[Identity] = set()

    def note(self, report: StopReport, table: ProcessTable) -> None:
        """What a stop has left."""
        self._ours |= {Identity(process.pid, process.start) for process in report.left}
        starts = [(each.pid, table.start_of(each.pid)) for each in report.unknown]
        self._unknown |= {Identity(pid, start) for pid, start in starts if start is not None}

    async def are_gone(
        self, launchers: Collection[Identity], orphans: Collection[Identity], table: ProcessTable, grace: Grace
    ) -> bool:
        """Stop once more what is ours, with orphans that are; whether nothing is left. launchers: if it still lives."""
        self._ours |= set(orphans)
        target = Target([self.record], frozenset(launchers), known=frozenset(self._ours))
        report = await stop(target, table, grace)
        self.note(report, table)
        return not report.complaints and not await asyncio.to_thread(self._has_unknown, table)

    def _has_unknown(self, table: ProcessTable) -> bool:
        found = [(each, table.look(each.pid)) for each in self._unknown]
        return any(now is not None and now.start == each.start and not now.is_zombie for each, now in found)
