"""The connection to PostgreSQL: a pool for most calls, dedicated connections for the hot ones."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol, cast

import asyncpg

from minions.domain.errors import AccessDenied, FieldError, NotFound, Unavailable, ValidationFailed
from minions.store.queries import query

log = logging.getLogger(__name__)

Record = Mapping[str, Any]
Listener = Callable[[Any, int, str, str], None]


class Connection(Protocol):
    """What we use of asyncpg's connections, whose own types are partial."""

    async def fetch(self, query: str, *args: object) -> list[Record]: ...
    async def fetchrow(self, query: str, *args: object) -> Record | None: ...
    async def fetchval(self, query: str, *args: object) -> Any: ...
    async def execute(self, query: str, *args: object) -> str: ...
    def transaction(
        self, *, isolation: str | None = None, readonly: bool = False
    ) -> AbstractAsyncContextManager[None]: ...
    async def copy_records_to_table(
        self, table_name: str, *, records: Sequence[tuple[Any, ...]], columns: list[str]
    ) -> str: ...
    async def add_listener(self, channel: str, callback: Listener) -> None: ...
    def is_closed(self) -> bool: ...
    async def close(self, *, timeout: float | None = None) -> None: ...  # noqa: ASYNC109 -- asyncpg's name
    def terminate(self) -> None: ...


class _Pool(Protocol):
    async def acquire(self, *, timeout: float | None = None) -> Connection: ...  # noqa: ASYNC109 -- asyncpg's name
    async def release(self, connection: Connection, *, timeout: float | None = None) -> None: ...  # noqa: ASYNC109
    async def expire_connections(self) -> None: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...


async def connect(url: str) -> Connection:
    """One connection that belongs to nobody's pool. Raises Unavailable."""
    try:
        connection = cast("Any", asyncpg).connect(
            url, timeout=10, command_timeout=60, server_settings={"application_name": "minions"}
        )
        return cast("Connection", await connection)
    except GONE as error:
        raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise AccessDenied("PostgreSQL refuses this user or password", hint="Correct the database URL.") from error
    except asyncpg.InvalidCatalogNameError as error:
        raise NotFound("PostgreSQL has no database of this name", hint="Create it, or correct the URL.") from error


GONE = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # it stops, starts or recovers
    asyncpg.InsufficientResourcesError,  # too many connections, or its disk is full
    asyncpg.TransactionRollbackError,  # a deadlock or a conflict: nothing was done
    asyncpg.ReadOnlySQLTransactionError,  # a replica that is not promoted yet
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that is being lost, used before that is noticed
    ConnectionError,
    OSError,
    TimeoutError,
)
"""What it looks like when the database is away: worth another try, with nothing known to be done."""


_FAREWELL_SECONDS = 2.0

LOCKED = asyncpg.LockNotAvailableError
"""Another transaction kept a lock for longer than we wanted to wait."""


class _PooledConnection(asyncpg.Connection):
    """A connection whose state is never changed by us, so that giving it back costs no round trip."""

    def get_reset_query(self) -> str:
        return ""

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 -- asyncpg's name
        """The pool closes what it lets expire in a task of its own, which nobody asks how it went."""
        with suppress(*GONE):
            await cast("Any", super()).close(timeout=timeout or _FAREWELL_SECONDS)


async def _prepare(connection: Any) -> None:
    await connection.set_type_codec(
        "jsonb", encoder=_to_jsonb, decoder=_from_jsonb, schema="pg_catalog", format="binary"
    )


def _to_jsonb(value: Any) -> bytes:
    """The binary form, which COPY needs: a version byte before the text."""
    return b"\x01" + json.dumps(value).encode()


def _from_jsonb(stored: bytes) -> Any:
    return json.loads(stored[1:])


class Database:
    """A pool, and the doors to it. All calls raise Unavailable when the database is away."""

    def __init__(self, url: str, pool: _Pool) -> None:
        self.url = url
        self.patience_seconds = 10.0  # for a free connection
        self._pool = pool
        self._lent: set[Connection] = set()
        self._silent_seconds: float | None = None

    @classmethod
    async def open(cls, url: str, *, connections: int = 8) -> Database:
        """Connect. Raises Unavailable, naming the host, when nobody answers."""
        try:
            pool = await cast("Any", asyncpg).create_pool(
                url,
                min_size=1,
                max_size=connections,
                init=_prepare,
                connection_class=_PooledConnection,
                command_timeout=60,
                server_settings={"application_name": "minions"},
            )
        except GONE as error:
            raise Unavailable(f"PostgreSQL does not answer: {error}") from error
        return cls(url, cast("_Pool", pool))

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._pool.close()
        self._pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A connection from the pool."""
        self._refuse_if_silent()
        try:
            connection = await self._pool.acquire(timeout=self.patience_seconds)
            self._lent.add(connection)
            try:
                yield connection
            except asyncpg.InternalClientError:
                connection.terminate()  # its state is unknown: nobody else may get it
                raise
            finally:
                self._lent.discard(connection)
                # A statement that was cut off is cancelled first. One that hangs is not waited for: asyncpg drops it.
                with suppress(*GONE):
                    await self._pool.release(connection, timeout=_FAREWELL_SECONDS)
        except GONE as error:
            raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}") from error

    @asynccontextmanager
    async def briefly(self, seconds: float) -> AsyncGenerator[Connection]:
        """A connection for a block that must be over in so many seconds. Raises Unavailable, not a moment later: what
        hangs is dropped without a farewell."""
        try:
            async with asyncio.timeout(seconds), self.connection() as connection:
                try:
                    yield connection
                except asyncio.CancelledError:
                    connection.terminate()
                    raise
        except TimeoutError as error:
            raise Unavailable(f"PostgreSQL did not answer in {seconds:g} s") from error

    async def fall_silent(self, seconds: float) -> None:
        """It has not answered anything for so long: all that wait are told now, and those to come at once."""
        if self._silent_seconds is None:
            log.error("PostgreSQL has not answered for %g s; requests are refused until it does", seconds)
        self._silent_seconds = seconds
        for connection in list(self._lent):
            connection.terminate()
        await self._pool.expire_connections()

    def heard(self) -> None:
        """It answers, or refuses to by itself."""
        if self._silent_seconds is not None:
            log.info("PostgreSQL answers again")
        self._silent_seconds = None

    def _refuse_if_silent(self) -> None:
        if self._silent_seconds is not None:
            raise Unavailable(f"PostgreSQL has not answered for {self._silent_seconds:g} s")

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A connection with a transaction that commits at the end, or rolls back."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def dedicated(self) -> AsyncGenerator[Connection]:
        """See `dedicated`."""
        self._refuse_if_silent()
        async with dedicated(self.url) as connection:
            self._lent.add(connection)
            try:
                yield connection
            finally:
                self._lent.discard(connection)

    async def all(self, name: str, *values: Any) -> list[Record]:
        """The rows of a named query."""
        async with self.connection() as connection:
            return await all_of(connection, name, *values)

    async def one(self, name: str, *values: Any) -> Record | None:
        """The first row of a named query, or None."""
        async with self.connection() as connection:
            return await one_of(connection, name, *values)


@asynccontextmanager
async def dedicated(url: str) -> AsyncGenerator[Connection]:
    """A connection of one's own, for listening, for advisory locks and for prepared hot statements."""
    connection = await connect(url)
    try:
        await _prepare(connection)
        yield connection
    except GONE as error:
        raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}") from error
    finally:
        with suppress(*GONE):
            await connection.close(timeout=_FAREWELL_SECONDS)


async def all_of(connection: Connection, name: str, *values: Any) -> list[Record]:
    """The rows of a named query on a given connection. Raises ValidationFailed for a text that cannot be stored."""
    try:
        return await connection.fetch(query(name), *values)
    except UNSTORABLE as error:
        raise _unstorable() from error


async def one_of(connection: Connection, name: str, *values: Any) -> Record | None:
    """The first row of a named query on a given connection, or None. Raises as `all_of`."""
    try:
        return await connection.fetchrow(query(name), *values)
    except UNSTORABLE as error:
        raise _unstorable() from error


UNSTORABLE = (asyncpg.CharacterNotInRepertoireError, asyncpg.UntranslatableCharacterError)
"""How PostgreSQL refuses the one character that JSON has and its texts do not."""


def _unstorable() -> ValidationFailed:
    message = "a text holds the character NUL (\\u0000), which cannot be stored; remove it"
    return ValidationFailed([FieldError("body", "null_character", message)])


async def copy_rows(
    connection: Connection, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows by COPY."""
    await connection.copy_records_to_table(table, records=rows, columns=list(columns))
