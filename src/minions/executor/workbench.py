"""The workbench: one engine, fed by the subtasks under way, started again when a row has ended it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from minions.domain.errors import EngineFailed, MinionsError
from minions.domain.rows import Outcome
from minions.domain.specification import CompleteParameters, EmbedParameters
from minions.executor.bench_rows import BenchRow, BenchRows
from minions.executor.engine_process import HOST, EngineCrashed, EngineProcess
from minions.executor.engines.base import EngineFacts, EngineRequest
from minions.executor.ollama_memory import free_memory
from minions.executor.places import ENGINE_LOG_FILE
from minions.executor.plan import Gaps, load_limit_seconds, stall_limit_seconds

log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_ROWS_PER_SLOT = 2  # one that is worked on, one that waits for its end


class Workbench:
    """Runs one engine process at a time. Subtasks that need the same engine share it; another one waits its turn.

    When the engine's process dies, the rows under way are suspects: the engine is started again and they are tried in
    halves, until the row that kills it stands alone and becomes a failed row. Nobody else's rows are lost or doubled.
    """

    def __init__(
        self,
        *,
        logs: Path,
        memory_limit_bytes: int | None,
        tell: Callable[[str], None],
        host: Sequence[str] = HOST,
        stall_limit: Callable[[EngineFacts, EmbedParameters | CompleteParameters, float], float] = stall_limit_seconds,
    ) -> None:
        """logs: the directory of the engine's log. tell(what) hears what the engine does: downloading, loading.

        host: the module that an engine's process runs.
        """
        self._logs = logs
        self._memory_limit_bytes = memory_limit_bytes
        self._tell = tell
        self._on_hungry: Callable[[], None] = lambda: None
        self._host = host
        self._stall_limit = stall_limit
        self._request: EngineRequest | None = None
        self._serving: asyncio.Task[None] | None = None
        self._engine: EngineProcess | None = None
        self._process: EngineProcess | None = None  # there before the engine is loaded
        self._load_limit: asyncio.Timeout | None = None
        self._load_seconds_left = 0.0
        self._suspended = False
        self._facts: asyncio.Future[EngineFacts] | None = None
        self._users = 0
        self._changed = asyncio.Condition()
        self._rows = BenchRows()
        self._stirred = asyncio.Event()
        self._under_way_changed = asyncio.Event()

    @asynccontextmanager
    async def engine(self, request: EngineRequest) -> AsyncGenerator[EngineFacts]:
        """Use the engine that this request describes, loading it when it is not the one that is loaded.

        Raises ModelUnavailable or EngineFailed when it cannot be loaded.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._users == 0 or _same(self._request, request))
            if not _same(self._request, request) or self._serving is None or self._serving.done():
                await self._stop()
                self._start(request)
            self._users += 1
            facts = self._facts
        try:
            assert facts is not None
            yield await asyncio.shield(facts)
        finally:
            async with self._changed:
                self._users -= 1
                self._changed.notify_all()

    async def submit(
        self,
        texts: Sequence[str],
        answer: Callable[[int, Outcome], None],
        fail: Callable[[MinionsError], None],
    ) -> None:
        """Have texts worked on; returns as soon as there is room for more.

        answer(i, outcome) is called once for each text, in any order, unless fail(error) is: then the engine is given
        up and the rest is not answered.
        """
        rows = [
            BenchRow(text, lambda outcome, index=index: answer(index, outcome), fail)
            for index, text in enumerate(texts)
        ]
        facts = self._facts
        if facts is None or self._serving is None or self._serving.done():
            raise EngineFailed("the engine is gone")
        window = (await asyncio.shield(facts)).window_rows
        while (unanswered := len(self._rows.unanswered)) and unanswered + len(rows) > window:
            self._under_way_changed.clear()
            await self._under_way_changed.wait()
            if self._serving.done():
                raise EngineFailed("the engine is gone")
        self._rows.add(rows)
        self._stirred.set()

    def withdraw(self, fail: Callable[[MinionsError], None]) -> None:
        """Forget the texts that were submitted with this `fail` and that the engine has not been given yet."""
        self._rows.withdraw(fail)
        self._under_way_changed.set()

    async def unload(self) -> None:
        """Give the memory back, when nobody uses the engine."""
        async with self._changed:
            if self._users == 0:
                await self._stop()

    async def close(self) -> None:
        """End the engine at once."""
        await self._stop()

    def suspend(self) -> None:
        """Freeze the engine, loaded or not, until `proceed`; one that starts meanwhile is frozen as well."""
        if not self._suspended:
            self._suspended = True
            self._freeze()

    def proceed(self) -> None:
        """Go on. The time that passed counts neither as loading nor as stalling."""
        if not self._suspended:
            return
        self._suspended = False
        if self._load_limit is not None and self._load_limit.when() is None:
            self._load_limit.reschedule(asyncio.get_running_loop().time() + self._load_seconds_left)
        if self._process is not None:
            self._process.proceed()

    def limit_memory(self, limit_bytes: int | None) -> None:
        """What an engine may hold; for those that start from now on."""
        self._memory_limit_bytes = limit_bytes

    @property
    def loaded(self) -> str | None:
        """The model in memory."""
        return self._request.model if self._request and self._engine is not None else None

    @property
    def engine_pid(self) -> int | None:
        """The process of the engine, loaded or still loading."""
        return self._process.pid if self._process is not None else None

    @property
    def hungry(self) -> bool:
        """Whether the engine will have nothing for some of its slots before it is asked for the next rows."""
        rows = self._rows.unsuspected
        return self._engine is not None and rows < _ROWS_PER_SLOT * self._engine.facts.parallel_rows

    def when_hungry(self, call: Callable[[], None]) -> None:
        """Have `call` called whenever `hungry` may have become true."""
        self._on_hungry = call

    def _start(self, request: EngineRequest) -> None:
        self._request = request
        self._rows = BenchRows()
        self._facts = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(request))

    async def _stop(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
            if self._request is not None:
                await free_memory(self._request)
        self._serving = self._request = self._engine = self._process = None

    async def _serve(self, request: EngineRequest) -> None:
        """Keep an engine running until cancelled, or until it has to be given up."""
        error: MinionsError | None = None
        try:
            while error is None:
                try:
                    await self._serve_once(request)
                except EngineCrashed as crash:
                    log.warning("%s", crash.message)
                    error = self._rows.crashed(crash)
        except MinionsError as given_up:
            error = given_up
        except OSError as failed:
            error = EngineFailed(f"the engine's process cannot be started: {(failed.strerror or 'unknown').lower()}")
        finally:
            self._engine = self._process = None
            self._give_up(error or EngineFailed("the engine was stopped"))

    async def _serve_once(self, request: EngineRequest) -> None:
        starting = EngineProcess.start(
            replace(request, memory_limit_bytes=self._memory_limit_bytes),
            log_path=self._logs / ENGINE_LOG_FILE,
            memory_limit_bytes=self._memory_limit_bytes,
            on_progress=lambda what, done, total: self._on_progress(f"{what} {request.model}", done, total),
            on_start=self._note_process,
            host=self._host,
        )
        try:
            async with asyncio.timeout(load_limit_seconds(request)) as self._load_limit:
                engine = await starting.__aenter__()
        except TimeoutError:
            raise EngineFailed(f"the model was not loaded within {load_limit_seconds(request):.0f} s") from None
        finally:
            self._load_limit = None
        try:
            self._engine = engine
            assert self._facts is not None
            if not self._facts.done():
                self._facts.set_result(engine.facts)
            await self._pump(engine, request)
        finally:
            self._engine = self._process = None
            await starting.__aexit__(None, None, None)

    def _note_process(self, process: EngineProcess) -> None:
        self._process = process
        if self._suspended:
            self._freeze()

    def _freeze(self) -> None:
        if self._load_limit is not None and (due := self._load_limit.when()) is not None:
            self._load_seconds_left = due - asyncio.get_running_loop().time()
            self._load_limit.reschedule(None)
        if self._process is not None:
            self._process.suspend()

    def _on_progress(self, what: str, done: int, total: int | None) -> None:
        self._tell(f"{what}: {100 * done / total:.0f} %" if total else what)

    async def _pump(self, engine: EngineProcess, request: EngineRequest) -> None:
        """Send, receive and watch, until the engine dies; what ended it is raised."""
        helpers = [asyncio.create_task(self._send(engine)), asyncio.create_task(self._watch(engine, request))]
        try:
            async for batch in engine.outcomes():
                self._rows.answered(batch)
                self._under_way_changed.set()
                self._stirred.set()
                if self.hungry:
                    self._on_hungry()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
        raise EngineFailed("the engine ended")

    async def _send(self, engine: EngineProcess) -> None:
        while True:
            self._stirred.clear()
            while (group := self._rows.next_group()) is not None:
                await engine.submit(*group)
            await self._stirred.wait()

    async def _watch(self, engine: EngineProcess, request: EngineRequest) -> None:
        """Kill an engine that has rows and makes nothing of them; the rows are then suspects as after any crash."""
        gaps = Gaps()
        clock = asyncio.get_running_loop().time
        while True:
            asleep_at = clock()
            await asyncio.sleep(_LOOK_SECONDS)
            if clock() - asleep_at > 3 * _LOOK_SECONDS:
                continue  # this process itself stood still: what the engine did meanwhile is not read yet
            stalled = engine.stalled_seconds
            gaps.look(stalled)
            if stalled > self._stall_limit(engine.facts, request.parameters, gaps.longest_seconds):
                await engine.kill_stalled(f"no row was done for {stalled:.0f} s")
                return

    def _give_up(self, error: MinionsError) -> None:
        assert self._facts is not None
        if not self._facts.done():
            self._facts.set_exception(error)
            self._facts.exception()  # who waits for it gets it; that nobody waits is no error
        rows, self._rows = self._rows.unanswered, BenchRows()
        for fail in {id(row.fail): row.fail for row in rows}.values():
            fail(error)
        self._under_way_changed.set()


def _same(loaded: EngineRequest | None, wanted: EngineRequest) -> bool:
    """Whether the loaded engine serves: the links to a model's files change, the model does not."""
    return loaded is not None and _without_links(loaded) == _without_links(wanted)


def _without_links(request: EngineRequest) -> EngineRequest:
    return replace(request, files=tuple(replace(file, link="") for file in request.files))
