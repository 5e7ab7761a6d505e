"""What the kernel of macOS answers is read at its places."""

from __future__ import annotations

import struct

from minions.executor.supervisor.mac_processes import KINFO_BYTES, parse_environment, parse_kinfo
from minions.executor.supervisor.processes import Process, parse_token


def _kinfo(pid: int, ppid: int, pgid: int, start: tuple[int, int], state: int) -> bytes:
    entry = bytearray(b"\xee" * KINFO_BYTES)
    struct.pack_into("<qi", entry, 0, *start)
    struct.pack_into("<b", entry, 36, state)
    struct.pack_into("<i", entry, 40, pid)
    struct.pack_into("<ii", entry, 560, ppid, pgid)
    return bytes(entry)


def test_processes_follow_each_other() -> None:
    data = _kinfo(501, 1, 500, (1_700_000_000, 123_456), 2) + _kinfo(502, 501, 500, (1_700_000_001, 0), 5)
    assert parse_kinfo(data + b"half of one") == [
        Process(501, 1, 500, 0, 1_700_000_000_123_456),
        Process(502, 501, 500, 0, 1_700_000_001_000_000, is_zombie=True),
    ]
    assert parse_kinfo(b"") == []


def test_arguments_are_no_environment() -> None:
    answer = struct.pack("<i", 2) + b"/bin/env\0\0\0\0env\0T=argument\0T=variable\0U=\0"
    assert parse_environment(answer) == b"T=variable\0U=\0"
    assert parse_token(parse_environment(answer), "T") == "variable"
    assert parse_environment(b"") == b""
