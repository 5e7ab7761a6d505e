"""The services that the other tests stand on."""

from __future__ import annotations

from typing import Any, cast

import asyncpg
import httpx

from tests.services.postgres import PostgresService
from tests.services.s3 import S3Service


async def connect(url: str) -> Any:
    """A connection; asyncpg has no types of its own."""
    return await cast(Any, asyncpg).connect(url)


async def test_a_database_is_empty_and_its_own(database_url: str, postgres: PostgresService) -> None:
    connection = await connect(database_url)
    try:
        await connection.execute("CREATE TABLE a_thing (number int)")
        assert await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname = 'a_thing'") == 1
    finally:
        await connection.close()
    other = postgres.create_database()
    connection = await connect(other)
    try:
        assert await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname = 'a_thing'") == 0
    finally:
        await connection.close()
        postgres.drop_database(other)


async def test_a_killed_server_comes_back_under_the_same_url(database_url: str, postgres: PostgresService) -> None:
    connection = await connect(database_url)
    postgres.kill()
    assert postgres.pid is None
    postgres.start()
    connection.terminate()
    connection = await connect(database_url)
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()


def test_s3_refuses_those_without_keys(s3: S3Service) -> None:
    assert httpx.get(f"{s3.endpoint}/{s3.bucket}", timeout=60).status_code == 403
