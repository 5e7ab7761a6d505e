"""Lines of the file of jobs, read in blocks: jobs that follow one another are mostly handed out one after the other."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from minions.domain.errors import InputUnreadable
from minions.domain.jobs import Job, parse_job_line
from minions.executor.commands.messages import Assigned

_BLOCK_BYTES = 1 << 20
_KEPT_BLOCKS = 4

Read = Callable[[str, tuple[int, int]], Awaitable[bytes]]
"""Read the bytes [start, end) of what a link leads to."""


class JobLines:
    """The last blocks that were read."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._reading = asyncio.Lock()

    async def job(self, assigned: Assigned) -> tuple[Job, str]:
        """The job of an assignment, and its identity. Raises InputUnreadable, Unavailable."""
        async with self._reading:  # those who want the same block wait for the one that reads it
            line = self._kept(assigned)
            if line is None:
                start, end = assigned.line
                until = min(max(end, start + _BLOCK_BYTES), assigned.object_bytes)
                block = await self._read(assigned.object_link, (start, until))
                self._blocks[assigned.object, start] = block
                while len(self._blocks) > _KEPT_BLOCKS:
                    self._blocks.popitem(last=False)
                line = block[: end - start]
        try:
            return parse_job_line(line)
        except ValueError as error:
            raise InputUnreadable(f"job {assigned.subtask_id}: {error}") from None

    def _kept(self, assigned: Assigned) -> bytes | None:
        start, end = assigned.line
        for (name, first), block in self._blocks.items():
            if name == assigned.object and first <= start and end <= first + len(block):
                return block[start - first : end - first]
        return None
