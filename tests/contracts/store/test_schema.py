"""What is dumped is what is migrated, and the database's own lists are those of the domain."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from minions.domain.errors import Conflict
from minions.domain.lifecycle import LedgerEntry, TaskState
from minions.store import migrations
from minions.store.database import Connection, connect
from minions.store.dump_schema import dump_schema
from minions.store.migrations import migrate
from minions.store.queries import query, query_names


async def test_schema_sql_is_what_the_migrations_make(migrated_url: str) -> None:
    kept = files("minions.store").joinpath("schema.sql").read_text(encoding="utf-8")
    assert await dump_schema(migrated_url) == kept, "run: make schema"


async def test_the_dump_makes_the_same_database(migrated_url: str, database_url: str) -> None:
    dumped = await dump_schema(migrated_url)
    connection = await connect(database_url)
    for statement in _in_order_of_references(dumped):
        await connection.execute(statement)
    await connection.close()
    assert await dump_schema(database_url) == dumped


def _in_order_of_references(dumped: str) -> list[str]:
    """Tables first, without their foreign keys, which are added at the end."""
    keys: list[str] = []
    tables: list[str] = []
    for table in re.split(r"\n(?=CREATE TABLE)", dumped)[1:]:
        found = re.findall(r"^    (CONSTRAINT \S+ FOREIGN KEY .*?),?$", table, re.MULTILINE)
        name = re.search(r"CREATE TABLE (\S+)", table)
        keys += [f"ALTER TABLE {name[1]} ADD {key}" for key in found if name]
        plain = re.sub(r"^    CONSTRAINT \S+ FOREIGN KEY .*\n", "", table, flags=re.MULTILINE)
        tables.append(re.sub(r",\n\)", "\n)", plain))
    return tables + keys


async def test_every_query_is_one_that_the_database_understands(connection: Connection) -> None:
    for name in query_names():
        await connection.execute(f"PREPARE checked AS {query(name)}")
        await connection.execute("DEALLOCATE checked")


async def _listed(connection: Connection, table: str, column: str) -> set[str]:
    definitions = await connection.fetch(
        "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conrelid = $1::regclass AND contype = 'c'",
        table,
    )
    start = f"CHECK (({column} = ANY (ARRAY["
    (text,) = [row["text"] for row in definitions if row["text"].startswith(start)]
    return set(re.findall(r"'(\w+)'::text", text))


async def test_states_and_entries_are_those_of_the_domain(connection: Connection) -> None:
    assert await _listed(connection, "minion_task", "state") == {state.value for state in TaskState}
    assert await _listed(connection, "minion_subtask_ledger", "entry") == {entry.value for entry in LedgerEntry}


async def test_migrating_twice_changes_nothing(migrated_url: str) -> None:
    assert await migrate(migrated_url, "development") == []


async def test_another_label_is_refused_before_anything_is_changed(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = [*migrations.numbered(), (9999, "9999_later.sql", "CREATE TABLE minion_later (number int)")]
    monkeypatch.setattr(migrations, "numbered", lambda: later)
    with pytest.raises(Conflict, match="labelled development"):
        await migrate(migrated_url, "production")
    connection = await connect(migrated_url)
    assert await connection.fetchval("SELECT to_regclass('minion_later') IS NULL")
    await connection.close()


async def test_a_database_of_a_newer_version_is_refused(migrated_url: str) -> None:
    connection = await connect(migrated_url)
    await connection.execute("INSERT INTO minion_migration (number, name) VALUES (9999, '9999_later.sql')")
    await connection.close()
    with pytest.raises(Conflict, match="newer version"):
        await migrate(migrated_url, "development")
