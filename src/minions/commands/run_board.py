"""Who prints the board of a run: live on a terminal, else a line every 30 s, and in either case each note once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from minions.commands.output import to_stderr
from minions.hosts.board import Line, board, summary
from minions.hosts.status import Status

if TYPE_CHECKING:
    from rich.live import Live

_LINE_SECONDS = 30.0


class BoardPrinter:
    """Shows a run on a stream; None: nowhere. A context: the live board is there as long as it lasts."""

    def __init__(self, stream: TextIO | None, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._live: Live | None = None
        self._drawn: list[Line] = []
        self._note = -1
        self._said = ""
        self._said_at: float | None = None

    def __enter__(self) -> BoardPrinter:
        if self._stream is not None and self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, highlight=False)
            self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._drawn = []

    def show(self, status: Status) -> None:
        """Bring it up to date."""
        for number, text in status.notes:
            if number > self._note:
                self._say(text)
                self._note = number
        if self._live is not None:
            self._draw(self._live, board(status, self._live.console.width - 1))
            return
        now, line = self._clock(), summary(status)
        due = self._said_at is None or now - self._said_at >= _LINE_SECONDS
        if line != self._said and (due or status.phase == "ended") and status.jobs:
            self._say(line)
            self._said, self._said_at = line, now

    def warn(self, text: str) -> None:
        """Say it even where nothing is shown."""
        if self._live is None and self._stream is None:
            to_stderr(text)
        self._say(text)

    def _draw(self, live: Live, lines: list[Line]) -> None:
        from rich.text import Text

        if lines != self._drawn:
            live.update(Text("\n", no_wrap=True).join(Text.assemble(*line) for line in lines), refresh=True)
            self._drawn = lines

    def _say(self, text: str) -> None:
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text(text, style="dim"))
        elif self._stream is not None:
            print(text, file=self._stream, flush=True)
