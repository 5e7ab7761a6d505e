"""A database restored from a backup: what executors and clients hold from after it reaches nothing that is new."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from minions.domain.names import number_of
from minions.local.postgres import ROLE, binaries
from tests.integration.server.conftest import servers
from tests.integration.server.driving import lines, ok, submit, until, upload
from tests.services.postgres import PostgresService


def dump_tool(tool: str, url: str, *words: str) -> None:
    """pg_dump or pg_restore of a test's database."""
    place = urlsplit(url)
    host, port = parse_qs(place.query)["host"][0], parse_qs(place.query)["port"][0]
    where = ["--host", host, "--port", port, "--username", ROLE, "--dbname", place.path.removeprefix("/")]
    subprocess.run([binaries() / tool, *where, *words], check=True, capture_output=True, text=True)


async def test_what_was_handed_out_after_the_backup_overwrites_nothing(
    migrated_url: str, postgres: PostgresService, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    restored_url = postgres.create_database()
    async with servers(migrated_url, tmp_path) as start:
        before = await start()
        task = await submit(before.client, 1)
        await until(before.client, task["id"], "running")
        early, late = await before.executor(), await before.executor()
        dump_tool("pg_dump", migrated_url, "--format", "custom", "--file", str(backup))
        forgotten = await late.acquire()
        assert forgotten is not None
        lost_upload = await upload(before.client, lines(1))
    dump_tool("pg_restore", restored_url, "--no-owner", str(backup))
    async with servers(restored_url, tmp_path) as start:
        after = await start()
        early.client, late.client = after.as_bearer("mns_executor"), after.as_bearer("mns_executor")
        held = await early.acquire()
        assert held is not None
        assert (held["task"], held["subtask_id"]) == (forgotten["task"], forgotten["subtask_id"])
        assert held["acquirement"] != forgotten["acquirement"]
        await ok(early.commit(held))
        # Its link is good for hours, and its word for nothing.
        assert (await late.commit(forgotten)).status_code == 409
        await until(after.client, task["id"], "completed")
        parts = await ok(after.client.get(f"/api/v1/tasks/{task['id']}/parts"))
        (part,) = parts["data"]
        assert (await after.client.get(part["link"])).content.startswith(held["acquirement"].encode())
        assert await upload(after.client, lines(1)) != lost_upload
    postgres.drop_database(restored_url)


async def test_numbers_never_go_back(migrated_url: str, tmp_path: Path) -> None:
    async with servers(migrated_url, tmp_path) as start:
        first = await start()
        async with first.deployment.database.connection() as connection:
            await connection.execute("SELECT setval('minion_upload_upload_id_seq', 1152921504606846976)")
        earlier = await upload(first.client, lines(1))
        second = await start()
        assert number_of("upl", await upload(second.client, lines(1))) == number_of("upl", earlier) + 1
