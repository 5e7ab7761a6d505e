"""Files to and from a host: whole and with the right hash, or not under their names."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from minions.hosts.connection import Connection
from minions.hosts.faults import HostUnreachable, RequestFailed, TransferDamaged
from minions.hosts.inventory import Host
from minions.hosts.transfer import get_file, put_file, sha256_of
from tests.services.sshd import SshHost

MIB = 1 << 20
LARGE = 32 * MIB


def file_of(tmp_path: Path, content: bytes, name: str = "a file é") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("size", [0, 1, 5 * MIB + 3])
async def test_a_file_goes_there_and_comes_back(connection: Connection, place: Path, tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    source = file_of(tmp_path, content)
    target = f"{place}/deep/a file é"
    assert await put_file(connection, source, target, mode=0o640)
    sha256 = hashlib.sha256(content).hexdigest()
    done = await connection.run(["stat", "-c", "%s %a", target])
    assert done.stdout.decode().split() == [str(size), "640"]
    assert not await put_file(connection, source, target, mode=0o640)
    back = tmp_path / "back" / "again"
    await get_file(connection, target, back, sha256=sha256)
    assert back.read_bytes() == content
    assert [path.name for path in back.parent.iterdir()] == ["again"]
    listed = (await connection.run(["ls", "-A", f"{place}/deep"])).stdout.decode().splitlines()
    assert listed == ["a file é"]


async def test_a_file_that_was_damaged_there_is_sent_again(connection: Connection, place: Path, tmp_path: Path) -> None:
    source, target = file_of(tmp_path, b"x" * 1000), f"{place}/file"
    await put_file(connection, source, target)
    await connection.run(["sh", "-c", 'printf y | dd of="$0" conv=notrunc', target])
    assert await put_file(connection, source, target)
    assert (await connection.run(["cat", target])).stdout == b"x" * 1000


async def test_a_cut_transfer_goes_on_where_it_stopped(host: Host, mini: SshHost, place: Path, tmp_path: Path) -> None:
    source, target = file_of(tmp_path, os.urandom(LARGE)), f"{place}/large"
    part = f"{target}.{sha256_of(source)[:16]}.part"
    sent = 0
    async with Connection.open(host, options=mini.options) as connection:
        request = connection.request

        async def cutting(verb: str, fields: Mapping[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
            nonlocal sent
            if sent <= LARGE // 2 < sent + len(body):  # once: soon nobody has this number, and then another may
                os.kill(connection.pid, signal.SIGKILL)
            sent += len(body)
            return await request(verb, fields, body)

        connection.request = cutting
        with pytest.raises(HostUnreachable):
            await put_file(connection, source, target)
    sent = 0

    async with Connection.open(host, options=mini.options) as connection:
        request = connection.request
        before = (await request("describe", {"paths": [part, target]}))[0]["found"]
        assert MIB < before[0]["size"] < LARGE
        assert before[1] is None

        async def counting(verb: str, fields: Mapping[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
            nonlocal sent
            sent += len(body)
            return await request(verb, fields, body)

        connection.request = counting
        assert await put_file(connection, source, target)
        after = (await request("describe", {"paths": [part, target], "hash": True}))[0]["found"]
    assert sent <= LARGE - before[0]["size"] + MIB
    assert after[0] is None
    assert after[1]["sha256"] == sha256_of(source)


async def test_a_file_that_never_arrives_whole_is_told_loudly(
    connection: Connection, place: Path, tmp_path: Path
) -> None:
    source, target = file_of(tmp_path, b"one"), f"{place}/file"
    with pytest.raises(TransferDamaged, match=r"mini: .* arrived damaged 3 times"):
        await put_file(connection, source, target, sha256=hashlib.sha256(b"two").hexdigest())
    await connection.run(["sh", "-c", 'printf one > "$0"', target])
    with pytest.raises(TransferDamaged, match="mini: back arrived damaged 3 times"):
        await get_file(connection, target, tmp_path / "back", sha256=hashlib.sha256(b"two").hexdigest())
    assert not (tmp_path / "back").exists()


async def test_a_file_that_is_not_there_and_a_place_that_is_none(
    connection: Connection, place: Path, tmp_path: Path
) -> None:
    with pytest.raises(RequestFailed, match="No such file") as missing:
        await get_file(connection, f"{place}/none", tmp_path / "none", sha256="0" * 64)
    assert missing.value.kind == "ENOENT"
    assert not os.listdir(tmp_path)
    with pytest.raises(RequestFailed, match="Permission denied"):
        await put_file(connection, file_of(tmp_path, b"x"), "/etc/of-nobody/file")
