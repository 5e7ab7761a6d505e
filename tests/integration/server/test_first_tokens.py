"""The tokens that a start makes, and its warnings of those that whoever set the variables may be wrong about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from minions.server.first_tokens import ensure_tokens
from tests.integration.server.conftest import DeploymentFactory
from tests.integration.server.driving import Served, ok, problem


async def tokens(served: Served) -> dict[str, str]:
    """The ids of valid tokens, by name."""
    return {each["name"]: each["id"] for each in (await ok(served.client.get("/api/v1/tokens")))["data"]}


async def revoke(served: Served, number: str) -> None:
    await ok(served.client.delete(f"/api/v1/tokens/{number}"), 204)


async def start_again(served: Served, admin_token: str | None) -> str | None:
    """What a start shows that is given this."""
    served.deployment.settings = replace(served.deployment.settings, admin_token=admin_token)
    return await ensure_tokens(served.deployment)


async def test_a_start_says_that_the_token_before_is_still_valid(
    deployment_factory: DeploymentFactory, caplog: pytest.LogCaptureFixture
) -> None:
    before = await deployment_factory()
    (old,) = [number for name, number in (await tokens(before)).items() if name == "first admin"]
    assert not caplog.messages
    after = await deployment_factory(admin_token="mns_changed")
    assert [message for message in caplog.messages if f"minions tokens revoke {old}" in message]
    await ok(before.client.get("/api/v1/tokens"))
    await revoke(after, old)
    await problem(after.as_bearer("mns_admin").get("/api/v1/tokens"), 401)
    caplog.clear()
    await deployment_factory(admin_token="mns_changed")
    assert not caplog.messages


async def test_a_start_says_that_a_revoked_token_is_not_made_again(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    other = served.as_bearer(await served.token(scope="admin"))
    await revoke(served, (await tokens(served))["first admin"])
    assert await start_again(served, "mns_admin") is None
    (said,) = caplog.messages
    assert said.startswith("the token in MINIONS_ADMIN_TOKEN was revoked, or has expired")
    await problem(served.client.get("/api/v1/tokens"), 401)
    await ok(other.get("/api/v1/tokens"))


@pytest.mark.parametrize(
    "left",
    [{"scope": "submit"}, {"scope": "admin", "teams": ["search"]}, {"scope": "admin", "expires_days": 1}],
    ids=["no administrator", "one of a team", "one that has expired"],
)
async def test_who_is_locked_out_gets_in_by_a_start(served: Served, left: dict[str, Any]) -> None:
    """Other tokens are no help, and do not keep a start from making an administrator's."""
    await ok(served.client.post("/api/v1/tokens", json={"name": "left", **left}), 201)
    async with served.deployment.database.connection() as connection:
        await connection.execute("UPDATE minion_token SET expires_at = now() WHERE expires_at IS NOT NULL")
    await revoke(served, (await tokens(served))["first admin"])
    shown = await start_again(served, None)
    assert shown is not None
    assert await start_again(served, None) is None, "once"
    await ok(served.as_bearer(shown).get("/api/v1/tokens"))


async def test_a_variable_that_locks_everybody_out_is_named(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    await revoke(served, (await tokens(served))["first admin"])
    assert await start_again(served, "mns_admin") is None
    assert any("no administrator's token is valid: set MINIONS_ADMIN_TOKEN" in message for message in caplog.messages)
    assert await start_again(served, "mns_another") is None
    await ok(served.as_bearer("mns_another").get("/api/v1/tokens"))


async def test_a_token_that_reaches_less_than_its_variable_says_is_named(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    await start_again(served, "mns_executor")
    assert any("reaches less than its name says" in message for message in caplog.messages)
    await problem(served.as_bearer("mns_executor").get("/api/v1/tokens"), 403)
