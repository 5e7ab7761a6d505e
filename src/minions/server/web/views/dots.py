"""A dot for each subtask, or for some neighbouring ones when there are many; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from minions.domain.tally import Tally

LOOKS = ("queued", "done", "partial", "running", "released", "failed", "ended")
WORDS = {
    "queued": "queued",
    "done": "done",
    "partial": "partly done",
    "running": "running",
    "released": "given back",
    "failed": "set aside",
    "ended": "cancelled",
}
_LETTERS = {look: word[0] for look, word in WORDS.items()}  # no two words begin alike
_IN_LEGEND = ("done", "partial", "running", "released", "failed", "ended", "queued")
_COLUMNS = ((200, 20), (800, 40), (2000, 64))


@dataclass(frozen=True, slots=True)
class Dots:
    """looks: one a dot, in input order. each: how many subtasks a dot stands for. paths: (look, SVG path) to draw.
    ground: the SVG path of what lies under all that is done, so that how far it is shows from afar."""

    looks: list[str]
    each: int
    columns: int
    paths: list[tuple[str, str]]
    ground: str

    @property
    def rows(self) -> int:
        return -(-len(self.looks) // self.columns)

    def legend(self, counts: Mapping[str, int]) -> list[tuple[str, str]]:
        """(look, words) of every look that is drawn, counted from the dots: the two never contradict each other.

        counts: of the looks, for dots that stand for several subtasks each.
        """
        drawn = Counter(self.looks)
        numbers: Mapping[str, int | None] = drawn if self.each == 1 else {"partial": None, **counts}
        return [
            (look, WORDS[look] if number is None else f"{number:,} {WORDS[look]}")
            for look in _IN_LEGEND
            if (number := numbers.get(look, 0)) or (number is None and drawn[look])
        ]

    @property
    def code(self) -> str:
        """One letter a dot, for the script that tells what is under the pointer."""
        return "".join(_LETTERS[look] for look in self.looks)


def dots(
    tally: Tally,
    subtasks: int,
    running: Iterable[int],
    given_back: Iterable[int],
    cancelled: Iterable[tuple[int, int]],
) -> Dots:
    """What each dot looks like. What needs a look wins: a failed subtask colours its dot, then one under way."""
    size = 1 << tally.shift
    count = -(-subtasks // size)
    active = Counter(number >> tally.shift for number in running)
    waiting = Counter(number >> tally.shift for number in given_back)
    gone = _spread(cancelled, tally.shift)
    looks: list[str] = []
    for number in range(count):
        cell = tally.cells.get(number)
        members = min(size, subtasks - number * size)
        done = cell.done if cell else 0
        if cell and cell.failed:
            looks.append("failed")
        elif active[number]:
            looks.append("running")
        elif waiting[number]:
            looks.append("released")
        elif gone[number]:
            looks.append("ended")
        else:
            looks.append("done" if done >= members else "partial" if done else "queued")
    columns = next((columns for most, columns in _COLUMNS if count <= most), _COLUMNS[-1][1])
    return Dots(looks, size, columns, _paths(looks, columns), _ground(looks, columns))


def _spread(ranges: Iterable[tuple[int, int]], shift: int) -> Counter[int]:
    """How many subtasks of each cell the ranges cover."""
    found: Counter[int] = Counter()
    for first, length in ranges:
        last = first + length
        for cell in range(first >> shift, ((last - 1) >> shift) + 1):
            found[cell] += min(last, (cell + 1) << shift) - max(first, cell << shift)
    return found


def _paths(looks: Sequence[str], columns: int) -> list[tuple[str, str]]:
    """All dots of one look as one path: thousands of elements would be slow to lay out. A cell is 10 units wide."""
    pieces: dict[str, list[str]] = {}
    for index, look in enumerate(looks):
        row, column = divmod(index, columns)
        pieces.setdefault(look, []).append(_shape(look, column * 10, row * 10))
    return [(look, "".join(pieces[look])) for look in LOOKS if look in pieces]


def _ground(looks: Sequence[str], columns: int) -> str:
    """One rectangle for each run of neighbours in a row that are done."""
    pieces: list[str] = []
    for first in range(0, len(looks), columns):
        at = 0
        for look, run in groupby(looks[first : first + columns]):
            length = sum(1 for _ in run)
            if look == "done":
                pieces.append(f"M{at * 10} {first // columns * 10}h{length * 10}v10h-{length * 10}z")
            at += length
    return "".join(pieces)


def _shape(look: str, x: int, y: int) -> str:
    """The mark of the look, as it stands in the legend: see parts/marks.html. Some are filled and some are strokes."""
    match look:
        case "running":
            return f"M{x + 0.8} {y + 5}a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0-8.4 0z"
        case "released":
            return f"M{x + 5} {y + 0.4}l4.6 4.6-4.6 4.6-4.6-4.6z"
        case "failed":
            return f"M{x + 1} {y + 1}h8v8h-8z"
        case "partial":
            return f"M{x + 1.5} {y + 5}a3.5 3.5 0 1 0 7 0z"
        case "queued":
            return f"M{x + 1.5} {y + 5}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z"
        case "ended":
            return f"M{x + 1.5} {y + 5}h7"
        case _:
            return f"M{x + 1.3} {y + 5.4}l2.7 2.6 4.7-5.8"
