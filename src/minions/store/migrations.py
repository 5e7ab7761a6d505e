"""Migrations: numbered SQL files, each applied once, under one lock."""

from __future__ import annotations

import secrets
from contextlib import suppress
from importlib.resources import files

from minions.domain.errors import Conflict, Unavailable
from minions.store.database import GONE, Connection, connect
from minions.store.queries import query

_LOCK = 0x6D696E696F6E73  # "minions": servers that start together migrate one after the other


def numbered() -> list[tuple[int, str, str]]:
    """All migrations as (number, file name, SQL), in order."""
    folder = files("minions.store").joinpath("migrations")
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(entry.name.split("_")[0]), entry.name, entry.read_text(encoding="utf-8")) for entry in found)


async def is_migrated(connection: Connection) -> bool:
    """Whether a server has been here."""
    return await connection.fetchval("SELECT to_regclass('minion_deployment') IS NOT NULL")


async def missing(connection: Connection) -> list[str]:
    """Names of the migrations of this version that the database lacks."""
    done = {row["number"] for row in await connection.fetch("SELECT number FROM minion_migration")}
    return [name for number, name, _ in numbered() if number not in done]


async def migrate(url: str, label: str) -> list[str]:
    """Bring the database to this version. Returns the names of what was applied.

    label: production or development. Raises Conflict when the database was migrated under the other label, or by a
    newer version of Minions.
    """
    connection = await connect(url)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await _check_label(connection, label)  # before anything is changed in what may be production
        applied = await _apply_missing(connection)
        await connection.execute(query("insert_deployment"), label, secrets.token_bytes(32))
        return applied
    except GONE as error:
        raise Unavailable(f"PostgreSQL does not answer: {type(error).__name__}") from error
    finally:
        with suppress(*GONE):
            await connection.close()


async def _check_label(connection: Connection, label: str) -> None:
    if not await is_migrated(connection):
        return
    found = await connection.fetchval("SELECT label FROM minion_deployment")
    if found is not None and found != label:
        raise Conflict(
            f"this database is labelled {found}, and this process is configured for {label}",
            hint=f"Pass --label {found}, or another database URL.",
        )


async def _apply_missing(connection: Connection) -> list[str]:
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS minion_migration "
        "(number int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    done = {row["number"] for row in await connection.fetch("SELECT number FROM minion_migration")}
    known = numbered()
    if newer := done - {number for number, _, _ in known}:
        raise Conflict(
            f"this database was migrated by a newer version of Minions (migration {max(newer)})",
            hint="Upgrade this machine: pip install --upgrade minions-cloud",
        )
    applied: list[str] = []
    for number, name, statements in known:
        if number in done:
            continue
        async with connection.transaction():
            await connection.execute(statements)
            await connection.execute("INSERT INTO minion_migration (number, name) VALUES ($1, $2)", number, name)
        applied.append(name)
    return applied
