"""Files of the server's machine: who may name them as inputs and models, and which ones nobody may."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import Served, fields, lines, ok, problem, request_for, show, submit
from tests.integration.server.web.browsing import post, signed_in

SECRET = "mns_of_the_administrator"


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """Where an embedded deployment keeps its own."""
    place = tmp_path / "data"
    (place / "objects" / "tasks").mkdir(parents=True)
    (place / "tokens.json").write_text(f'{{"text": "{SECRET}"}}\n')
    (place / "objects" / "tasks" / "made.jsonl").write_bytes(lines(2))
    return place


@pytest.fixture
async def embedded(deployment_factory: DeploymentFactory, data: Path) -> Served:
    """As `minions up` starts a server: for this machine, with its data directory closed."""
    return await deployment_factory(objects=str(data / "objects"), closed=(str(data),), host="127.0.0.1")


async def refused(served: Served, secret: str | None = None, **changed: Any) -> str:
    """What is said about it, which must name the field and hold nothing of the file."""
    client = served.as_bearer(secret or "mns_admin")
    request = await request_for(client) | {"model": "hf:a/b", **changed}
    told = await problem(client.post("/api/v1/tasks", json=request), 422)
    (field,) = changed if "inputs" not in changed else ("inputs[0]",)
    assert fields(told) == {field: "access_denied"}, told
    assert SECRET not in str(told)
    return told["detail"]


async def test_a_teams_token_names_no_file_and_no_model_of_the_machine(embedded: Served, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(2))
    team = await embedded.token(scope="submit", teams=["default"])
    everybody = await embedded.token(scope="submit")
    for uri in (f"file://{tmp_path}/in.jsonl", f"file://{tmp_path}/*.jsonl", f"file://localhost{tmp_path}/in.jsonl"):
        assert "upload the file" in await refused(embedded, team, inputs=[uri])
        await ok(
            embedded.as_bearer(everybody).post(
                "/api/v1/tasks", json=await request_for(embedded.client, model="hf:a/b", inputs=[uri])
            ),
            201,
        )
    for model in (str(tmp_path), f"file://{tmp_path}", "/is/not/there"):  # whether it is there is not told either
        assert "limited to teams" in await refused(embedded, team, model=model)
    told = [(await ok(embedded.as_bearer(each).get("/api/v1/server")))["accepts_files"] for each in (team, everybody)]
    assert told == [False, True]


async def test_how_large_a_models_folder_is_is_not_told_to_a_team(served: Served, tmp_path: Path) -> None:
    """Where executors are elsewhere a path is theirs; what lies under it here is nothing to a team."""
    (tmp_path / "model.safetensors").write_bytes(bytes(9_000_000))
    team = served.as_bearer(await served.token(scope="submit", teams=["default"]))
    told = [(await show(each, (await submit(each, model=str(tmp_path)))["id"]))["memory_from"]
            for each in (served.client, team)]  # fmt: skip
    assert ["on the server's disk" in each for each in told] == [True, False]


async def test_nobody_names_what_the_deployment_keeps(embedded: Served, data: Path, tmp_path: Path) -> None:
    (tmp_path / "linked.jsonl").symlink_to(data / "tokens.json")
    (tmp_path / "way").symlink_to(data)
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "other.jsonl").symlink_to(data / "tokens.json")
    (beside / "in.jsonl").write_bytes(lines(2))
    for uri in (
        f"file://{data}/tokens.json",
        f"file://{data}/",
        f"file://{data}/*.json",
        f"file://{tmp_path}/linked.jsonl",
        f"file://{tmp_path}/way/tokens.json",
        f"file://{tmp_path}/way/t*",
        f"file://{beside}/",
        "file:///proc/self/environ",
        f"file:///proc/{os.getpid()}/environ",
    ):
        assert "no task may name; copy the file elsewhere, or upload it" in await refused(embedded, inputs=[uri]), uri
    for model in (str(data / "postgres"), str(tmp_path / "way" / "tokens.json"), "/proc/self"):
        assert "no task may name" in await refused(embedded, model=model)
    (tmp_path / "in.jsonl").write_bytes(lines(2))
    results = f"file://{data}/objects/tasks/"  # may be read again
    for uri in (results, f"file://{beside}/in.jsonl", f"file://{tmp_path}/i*.jsonl"):
        await submit(embedded.client, model="hf:a/b", inputs=[uri])


async def test_a_link_that_turns_to_a_secret_later_is_not_followed(
    embedded: Served, data: Path, tmp_path: Path
) -> None:
    place = tmp_path / "in.jsonl"
    place.write_bytes(lines(2))
    link = await embedded.deployment.inputs.sign_read(place.as_uri(), 60)
    assert (await embedded.client.get(link)).status_code == 200
    place.unlink()
    place.symlink_to(data / "tokens.json")
    answer = await embedded.client.get(link)
    assert answer.status_code == 403
    assert SECRET not in answer.text


async def test_a_preview_shows_no_secret(embedded: Served, data: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(2))
    for secret, uri in (
        ("mns_admin", f"file://{data}/tokens.json"),
        (await embedded.token(scope="submit", teams=["default"]), f"file://{tmp_path}/in.jsonl"),
    ):
        client = await signed_in(embedded, secret)
        page = (await post(client, "/tasks/new/preview", source="uri", uri=uri, kind="embed", model="")).text
        assert "upload" in page
        assert SECRET not in page
        assert "row 000001" not in page


@pytest.mark.parametrize("name", ["x\0", "m" * 300, "m/" * 400])
async def test_a_model_path_that_no_file_system_takes(embedded: Served, name: str) -> None:
    request = await request_for(embedded.client, model=f"/{name}")
    told = await problem(embedded.client.post("/api/v1/tasks", json=request), 422)
    assert fields(told) == {"model": "bad_model" if "\0" in name else "no_such_model"}
