"""Small files and processes around the owner: orders, facts that are scripted, the service, keeping awake."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from minions.domain.facts import Thermal
from minions.domain.owner_policy import OwnerPolicy
from minions.domain.policy import Order, OrderKind
from minions.executor.facts_file import MachineOfFile, parse_facts
from minions.executor.keep_awake import KeepAwake, awake_command
from minions.executor.orders import read_order, write_order
from minions.executor.service import service_file

NOW = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)


def test_an_order_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    assert read_order(file) == Order()
    order = Order(OrderKind.PAUSE, NOW, NOW.replace(hour=23))
    write_order(file, order)
    assert read_order(file) == order
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "{", '{"kind": "sing"}', '{"kind": "pause", "until": "soon"}'])
def test_an_order_that_cannot_be_read_is_a_pause(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "order.json"
    file.write_text(content)
    unread = read_order(file)
    assert (unread.kind, unread.until) == (OrderKind.PAUSE, None), "it may have been a pause"
    assert unread.reason == f"what was ordered last cannot be read in {file} (minions executor resume begins anew)"
    assert "cannot be read" in caplog.text


def test_facts_of_a_file() -> None:
    facts = parse_facts(
        '{"idle_seconds": 3, "thermal": 2, "programs": ["zoom.us"]}', NOW, is_working=True, is_loaded=False
    )
    assert (facts.idle_seconds, facts.thermal, facts.programs) == (3, Thermal.SERIOUS, frozenset({"zoom.us"}))
    assert facts.is_working
    assert facts.on_battery is None, "what is left out is unknown"
    for wrong in ("[]", '{"idle": 3}', '{"is_working": true}', '{"idle_seconds": "a while"}'):
        with pytest.raises(ValueError, match=r"\w"):
            parse_facts(wrong, NOW, is_working=True, is_loaded=False)


def test_a_file_that_is_not_there_is_a_machine_of_which_nothing_is_known(tmp_path: Path) -> None:
    facts = MachineOfFile(tmp_path / "none").read(OwnerPolicy(), is_working=True, is_loaded=True)
    assert (facts.idle_seconds, facts.is_working, facts.is_loaded) == (None, True, True)


def test_what_keeps_a_mac_awake_ends_with_the_executor() -> None:
    assert awake_command("darwin", 42) == ["/usr/bin/caffeinate", "-i", "-w", "42"]
    assert awake_command("win32", 42) is None


async def test_it_is_held_awake_until_it_may_sleep() -> None:
    keeping = KeepAwake(["sleep", "60"])
    assert not keeping.is_holding
    await keeping.set(True)
    await keeping.set(True)
    assert keeping.is_holding
    await keeping.set(False)
    assert not keeping.is_holding


@pytest.mark.parametrize("command", [["/nowhere/caffeinate"], ["false"]])
async def test_what_cannot_keep_it_awake_is_not_tried_twice_a_second(
    command: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    keeping = KeepAwake(command)
    while not caplog.text:  # a loaded machine takes its time to start it and to see it end
        await keeping.set(True)
        await asyncio.sleep(0.01)
    for _ in range(3):
        await keeping.set(True)
        assert not keeping.is_holding
    assert caplog.text.count("cannot be kept awake") == 1
    await keeping.let_sleep()


def test_where_the_service_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    home = Path("/home/anna")
    assert str(service_file("linux", home)).endswith(".config/systemd/user/minions-executor.service")
    assert str(service_file("darwin", home)).startswith("/home/anna/Library/LaunchAgents/")
    assert service_file("win32", home) is None
