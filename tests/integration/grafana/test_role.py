"""Grafana's role: who makes it, who lets it read, and what it must not pass for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from typing import Any

import asyncpg
import pytest

from minions.store.database import dedicated
from minions.store.migrations import migrate
from minions.store.watchdog import LOCK, become_watchdog, usurper, watchdog_is_active
from minions.watchdog.main import watch
from minions.watchdog.settings import WatchdogSettings
from tests.integration.grafana.conftest import PASSWORD, ROLE, let_in, log_in, make_role, run_script
from tests.services.postgres import PostgresService


@pytest.fixture
def people(postgres: PostgresService) -> Generator[tuple[str, str]]:
    """(one who may create roles, one who may not)"""
    postgres.sql("CREATE ROLE maker CREATEROLE; CREATE ROLE ordinary")
    if postgres.sql(f"SELECT 1 FROM pg_roles WHERE rolname = '{ROLE}'"):
        postgres.sql(f"GRANT {ROLE} TO maker WITH ADMIN OPTION")
    yield "maker", "ordinary"
    postgres.sql("DROP OWNED BY maker; DROP ROLE maker; DROP ROLE ordinary")


async def owned(postgres: PostgresService, url: str, owner: str) -> None:
    """Make the database somebody's, and the tables in it."""
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.sql(f"ALTER DATABASE {name} OWNER TO {owner}")
    await migrate(as_role(url, owner), "development")


def as_role(url: str, role: str) -> str:
    """The same, for asyncpg, where whoever logs in becomes this role at once."""
    return f"{url}{'&' if '?' in url else '?'}role={role}"


async def test_an_owner_who_may_not_create_roles_lets_it_read(
    postgres: PostgresService, people: tuple[str, str], database_url: str
) -> None:
    maker, owner = people
    await owned(postgres, database_url, owner)
    assert "permission denied" in run_script(database_url, "grafana_role.sql", owner)
    assert run_script(postgres.url(), "grafana_role.sql", maker) == ""
    assert run_script(database_url, "grafana_grants.sql", owner) == ""
    let_in(postgres)
    reader = await log_in(database_url, PASSWORD)
    assert await reader.fetchval("SELECT active FROM grafana_watchdog") == 0
    await reader.execute("SET default_transaction_read_only = off")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await reader.execute("CREATE TEMPORARY TABLE mine (x int)")
    await reader.close()


async def test_a_fence_leaves_locks_to_the_owner(
    postgres: PostgresService, people: tuple[str, str], database_url: str
) -> None:
    _, owner = people
    await owned(postgres, database_url, owner)
    make_role(database_url)
    for _ in range(2):
        assert run_script(database_url, "fence.sql") == ""
    let_in(postgres)
    reader = await log_in(database_url, PASSWORD)
    await reader.execute("SET default_transaction_read_only = off")
    for statement in (
        f"SELECT pg_try_advisory_lock({LOCK})",
        f"SELECT pg_advisory_xact_lock_shared({LOCK})",
        "SELECT pg_try_advisory_lock(1, 2)",
        "SELECT lo_from_bytea(0, 'abc')",
        "SELECT lo_create(0)",
        "SELECT lowrite(1, 'abc')",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.execute(statement)
    await reader.close()
    async with dedicated(as_role(database_url, owner)) as connection:
        assert await connection.fetchval("SELECT current_user") == owner
        assert await become_watchdog(connection)
        assert await connection.fetchval("SELECT pg_try_advisory_lock(1, 2)")


async def test_a_database_of_somebody_else_is_left_as_it_is(
    postgres: PostgresService, people: tuple[str, str], database_url: str
) -> None:
    _, other = people
    await migrate(database_url, "development")
    postgres.sql(f"ALTER DATABASE {database_url.partition('?')[0].rpartition('/')[2]} OWNER TO {other}")
    make_role(database_url)
    assert postgres.sql("SELECT has_database_privilege('public', current_database(), 'TEMP')") == "t"


@pytest.mark.parametrize("password", ["", "two\nlines", "kennwört"])
def test_a_password_that_would_not_be_the_same_everywhere_is_refused(postgres: PostgresService, password: str) -> None:
    said = run_script(postgres.url(), "grafana_role.sql", password=password)
    assert "MINIONS_GRAFANA_PASSWORD must be one line of printable ASCII" in said


@pytest.mark.parametrize("password", ["x", 'it\'s \\ "quoted", $1 ', "a long one, " * 20])
async def test_the_password_is_the_one_that_was_given(
    postgres: PostgresService, migrated_url: str, password: str
) -> None:
    let_in(postgres)
    make_role(migrated_url)
    assert run_script(postgres.url(), "grafana_role.sql", password=password) == ""
    await (await log_in(migrated_url, password)).close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await _raw_log_in(migrated_url, password + "x")


async def _raw_log_in(url: str, password: str) -> None:
    await asyncpg.connect(url, user=ROLE, password=password)  # pyright: ignore[reportUnknownMemberType]  # untyped


def test_the_password_is_in_no_log(postgres: PostgresService, migrated_url: str) -> None:
    name = migrated_url.partition("?")[0].rpartition("/")[2]
    postgres.sql(f"ALTER DATABASE {name} SET log_statement = 'all'")
    before = postgres.log.stat().st_size
    make_role(migrated_url)
    logged = postgres.log.read_bytes()[before:].decode()
    assert "ALTER ROLE minions_grafana WITH LOGIN" in logged
    assert PASSWORD not in logged.replace("''", "'")


async def test_a_lock_that_the_role_takes_is_no_watchdog(
    reader: Any, migrated_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert await reader.fetchval("SELECT pg_try_advisory_lock($1)", LOCK), "whoever may connect may do that"
    async with dedicated(migrated_url) as connection:
        assert not await watchdog_is_active(connection)
        assert await usurper(connection) == (await reader.fetchval("SELECT pg_backend_pid()"), ROLE)
        assert not await become_watchdog(connection)
    assert await reader.fetchval("SELECT active FROM grafana_watchdog") == 0
    caplog.set_level(logging.INFO)
    watching = asyncio.create_task(watch(WatchdogSettings(migrated_url, poll_seconds=0.02)))
    try:
        await _said(caplog, f"its role {ROLE} cannot be a watchdog; end it: SELECT pg_terminate_backend(")
        await reader.execute("SELECT pg_advisory_unlock_all()")
        await _said(caplog, "this watchdog is active")
        assert len([message for message in caplog.messages if "cannot be a watchdog" in message]) == 1
        assert await reader.fetchval("SELECT active FROM grafana_watchdog") == 1
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def test_who_may_take_subtasks_may_be_a_watchdog(reader: Any, migrated_url: str) -> None:
    """A watchdog may have a role of its own, which owns nothing."""
    async with dedicated(migrated_url) as connection:
        await reader.execute(f"SELECT pg_advisory_lock({LOCK})")
        assert not await watchdog_is_active(connection)
        await connection.execute(f"GRANT DELETE ON minion_subtask_acquirement TO {ROLE}")
        assert await watchdog_is_active(connection)
        assert await reader.fetchval("SELECT active FROM grafana_watchdog") == 1


async def _said(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(60):
        while text not in caplog.text:  # noqa: ASYNC110 -- there is no event for it
            await asyncio.sleep(0.02)
