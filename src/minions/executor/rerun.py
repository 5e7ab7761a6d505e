"""Running failed rows of an earlier part again: what of it is read, and what is kept."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field

import httpx

from minions.domain.choices import PartFormat
from minions.domain.errors import AccessDenied, InputUnreadable, ObjectMissing, ResultsDamaged
from minions.executor.reading import aside
from minions.formats.arrow import Table
from minions.formats.merge import failed_positions
from minions.formats.part import read_part
from minions.objects.http_source import HttpSource
from minions.wire.executor import EarlierPart, InputPiece


@dataclass(slots=True, eq=False)
class Rerun:
    """An earlier part under way. positions: of the rows that are run again. read_all: the engine has them all.

    is_last: nothing of the subtask is left to run after it.
    """

    earlier: EarlierPart
    table: Table
    positions: list[int]
    is_last: bool
    read_all: bool = False
    wanted: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.wanted = frozenset(self.positions)

    def piece(self, whole: InputPiece) -> InputPiece:
        """What to read of the subtask's input."""
        return whole.model_copy(update={"cursor": self.positions[0], "end": self.earlier.end})

    def check_read(self, positions: list[int]) -> None:
        """Note that these rows were read, and all of them. Raises InputUnreadable unless they are those wanted."""
        if positions != self.positions:
            raise InputUnreadable(
                f"of {len(self.positions)} failed rows, {len(positions)} are where they were: the input has changed; "
                f"hand it in as a new task"
            )
        self.read_all = True


async def earlier_rerun(
    earlier: EarlierPart,
    url: str,
    codes: list[str] | None,
    output_format: PartFormat,
    client: httpx.Client,
    *,
    is_last: bool,
) -> Rerun:
    """Read the part at `url`. Raises ResultsDamaged when it is not what was committed: then no row of it is run again,
    since all the rows that worked would have to be."""
    name = f"the part at {earlier.start}, whose failed rows are to be run again,"
    source = HttpSource(url, earlier.size_bytes, name, client=client)
    try:
        data = await aside(lambda: source.read(0, earlier.size_bytes))
    except (ObjectMissing, InputUnreadable, AccessDenied) as error:
        raise ResultsDamaged(f"{name} cannot be read: {error.message}") from error
    table, positions = await asyncio.to_thread(_checked, data, earlier, codes, output_format, name)
    return Rerun(earlier, table, positions, is_last)


def _checked(
    data: bytes, earlier: EarlierPart, codes: list[str] | None, output_format: PartFormat, name: str
) -> tuple[Table, list[int]]:
    if hashlib.sha256(data).hexdigest() != earlier.sha256:
        raise ResultsDamaged(f"{name} does not have the hash that was committed for it")
    table = read_part(data, output_format)
    positions = failed_positions(table, codes)
    if table.num_rows != earlier.rows or not positions:
        raise ResultsDamaged(f"{name} has {table.num_rows} rows, of which {len(positions)} are to be run again")
    return table, positions
