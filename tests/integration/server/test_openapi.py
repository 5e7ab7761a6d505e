"""The served OpenAPI document, and a server that does what it says: schemathesis calls every operation of it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.integration.cli_deployment import ADMIN, HandExecutor, running_server
from tests.integration.server.driving import ok, submit, until
from tests.services.s3 import S3Service

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[2]
_FILLED = 4
_SECONDS = 300
_GENERATED = re.compile(r"(\d+) generated")


@pytest.fixture
def s3_environment(s3: S3Service, monkeypatch: pytest.MonkeyPatch) -> S3Service:
    """Inputs that are made up may name buckets: they are looked for on this machine."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3


def _client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {ADMIN}"}, timeout=60)


async def _fill(url: str) -> str:
    """Four tasks: one done, with failed rows; one under way; one cancelled; one that waits. And an executor. Returns an
    upload that is there."""
    async with _client(url) as client:
        hand = await asyncio.to_thread(HandExecutor, url)
        done = await submit(client, 6, task_name="done")
        assert await asyncio.to_thread(hand.work_off, 3) == 3
        await until(client, done["id"], "completed")
        under_way = await submit(client, 6, task_name="under-way")
        assert await asyncio.to_thread(hand.work_off, 1) == 1
        cancelled = await submit(client, 4, task_name="cancelled", priority=200)
        await ok(client.post(f"/api/v1/tasks/{cancelled['id']}/cancel"))
        waiting = await submit(client, 4, task_name="waiting")
        found = [task["id"] for task in (done, under_way, cancelled, waiting)]
        assert found == [f"tsk_0000000{1 + number}" for number in range(_FILLED)], "as schemathesis.toml names them"
        hand.close()
        return str(done["inputs"][0]).split("/")[1]


@pytest.mark.timeout(_SECONDS + 60)
async def test_schemathesis_finds_no_fault(migrated_url: str, tmp_path: Path, s3_environment: S3Service) -> None:
    with running_server(migrated_url, str(tmp_path / "objects"), s3_environment.endpoint) as url:
        upload = await _fill(url)
        argv = [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(_HERE / "schemathesis.toml")),
            *("run", f"{url}/openapi.json", "--checks", "all", "--no-color"),
            *("--header", f"Authorization: Bearer {ADMIN}"),
        ]  # fmt: skip
        found = await asyncio.to_thread(
            subprocess.run, argv, capture_output=True, text=True, timeout=_SECONDS, cwd=_ROOT, check=False,
            env=os.environ | {"UPLOAD_THAT_IS_THERE": upload},
        )  # fmt: skip
        async with _client(url) as client:
            tasks = await ok(client.get("/api/v1/tasks"))
    assert found.returncode == 0, found.stdout + found.stderr
    checked = _GENERATED.search(found.stdout)
    assert checked is not None
    assert int(checked[1]) > 1000, found.stdout
    assert len(tasks["data"]) > _FILLED, "it made no task, and so saw little"
