"""The probes on this machine, and what becomes of one that hangs, raises, or is not needed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import psutil
import pytest

from minions.domain.owner_policy import DEDICATED, OwnerPolicy
from minions.executor.probes import sleep
from minions.executor.probes.asking import ask, text_of
from minions.executor.probes.disk import read_free_bytes, read_used_bytes
from minions.executor.probes.idle import IdleProbe
from minions.executor.probes.macos_sleep import PowerNotices
from minions.executor.probes.memory import read_pressure
from minions.executor.probes.processor import ProcessorProbe
from minions.executor.probes.programs import ProgramsProbe
from minions.executor.probes.reader import FactReader, Looks, Probe
from minions.executor.probes.sleep import SleepWatch

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux has")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Poll: threads of the system have no event that a test could wait for."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(process: psutil.Process) -> bool:
    """One that nobody has waited for yet is not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_value_is_good_for_its_time() -> None:
    clock, read = Clock(), iter(range(10))
    looks = Looks([Probe("x", 5.0, lambda: next(read))], clock)
    seen = [looks.take(["x"], 60.0)["x"]]
    for clock.now in (1.0, 4.9, 5.0, 20.0):
        seen.append(looks.take(["x"], 60.0)["x"])
    assert seen == [0, 0, 0, 1, 2]


def test_a_probe_that_raises_is_unknown_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    clock, answers = Clock(), iter([OSError("no such sensor"), OSError("no such sensor"), 7])

    def read() -> int:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    looks = Looks([Probe("heat", 1.0, read)], clock)
    seen: list[object] = []
    with caplog.at_level(logging.WARNING):
        for clock.now in (0.0, 1.0, 2.0):
            seen.append(looks.take(["heat"], 60.0)["heat"])
    assert seen == [None, None, 7]
    assert [record.getMessage() for record in caplog.records] == [
        "the probe for heat: OSError: no such sensor; it counts as unknown"
    ]


def test_a_probe_that_hangs_holds_up_nothing_and_is_asked_again_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, go_on, numbers = Clock(), threading.Event(), count()
    begun: list[int] = []

    def hang() -> str:
        begun.append(1)
        go_on.wait(60)
        return "back"

    looks = Looks([Probe("slow", 0.0, hang, patience_seconds=2.0), Probe("quick", 0.0, lambda: next(numbers))], clock)
    looks.take(["quick"], 60.0)
    with caplog.at_level(logging.WARNING):
        started = time.monotonic()
        for clock.now in (0.0, 1.0, 3.0, 4.0):
            found = looks.take(["slow", "quick"], 0.05)
            assert (found["slow"], found["quick"] is None) == (None, False)
        until(lambda: looks.take(["quick"], 0.05)["quick"] > found["quick"])  # it is read on beside the other
        assert time.monotonic() - started < 50
    assert len(begun) == 1, "one that hangs is not started again"
    assert [record.getMessage() for record in caplog.records] == [
        "the probe for slow: does not answer; it counts as unknown"
    ]
    go_on.set()
    until(lambda: looks.take(["slow"], 0.05)["slow"] == "back")


def test_while_a_look_is_under_way_the_last_value_stands_for_a_while() -> None:
    clock, go_on = Clock(), threading.Event()
    answers = iter(["old", "new"])

    def read() -> str:
        answer = next(answers)
        if answer == "new":
            go_on.wait(60)
        return answer

    looks = Looks([Probe("disk", 10.0, read, patience_seconds=100.0)], clock)
    assert looks.take(["disk"], 60.0)["disk"] == "old"
    clock.now = 10.0
    assert looks.take(["disk"], 0.01)["disk"] == "old"
    clock.now = 111.0
    assert looks.take(["disk"], 0.01)["disk"] is None
    go_on.set()


def test_only_what_the_policy_needs_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minions.executor.probes.reader._WAIT_SECONDS", 60.0)  # it is what is read that counts here
    reader = FactReader(tmp_path)
    facts = reader.read(DEDICATED, is_working=True, is_loaded=False)
    assert (facts.is_working, facts.is_loaded) == (True, False)
    assert facts.now.tzinfo is not None
    unread = (facts.idle_seconds, facts.on_battery, facts.pressure, facts.programs, facts.disk_free_bytes)
    assert unread == (None,) * 5
    full = replace(OwnerPolicy(), excluding_programs=("x",), disk_limit_bytes=10**9)
    facts = reader.read(full, is_working=False, is_loaded=False)
    assert facts.disk_free_bytes is not None
    assert facts.disk_used_bytes == 0
    assert facts.programs


@linux_only
def test_this_machine_can_be_read() -> None:
    assert read_pressure() is not None
    assert text_of("/proc/meminfo")


@linux_only
def test_somebody_who_types_into_a_terminal_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real terminal: the kernel notes the time of what is typed."""
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    if any(Path("/tmp/.X11-unix").glob("X*")) or any(Path("/run/user").glob("*/wayland-*")):
        pytest.skip("somebody may sit before this machine's screen")
    master, slave = os.openpty()
    try:
        name = os.ttyname(slave)
        os.utime(name, (time.time() - 500, time.time() - 500))
        before = IdleProbe().read()
        assert before is not None
        os.write(master, b"x\n")
        os.read(slave, 10)
        typed_at = time.time()
        os.utime(name)  # the kernel's own note has steps of eight seconds
        after = IdleProbe().read()
        assert after is not None
        assert after < time.time() - typed_at + 2
    finally:
        os.close(master)
        os.close(slave)


def test_a_screen_of_which_nothing_is_known_makes_idle_time_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("reads what Linux has")
    monkeypatch.setenv("DISPLAY", ":77")
    monkeypatch.setenv("PATH", "/nowhere")
    assert IdleProbe().read() is None


def test_programs_come_and_go() -> None:
    probe = ProgramsProbe()
    with subprocess.Popen(["sleep", "30"]) as child:
        assert "sleep" in probe.read()
        child.kill()
    names = probe.read()
    assert names
    assert child.pid not in probe.known


def test_a_process_that_becomes_another_program_just_after_it_was_seen() -> None:
    with subprocess.Popen(["sh", "-c", "read -r _; exec sleep 30"], stdin=subprocess.PIPE) as child:
        probe = ProgramsProbe(lambda: [child.pid])
        assert "sleep" not in probe.read()
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        while psutil.Process(child.pid).name() != "sleep":
            time.sleep(0.01)
        assert "sleep" in probe.read()
        child.kill()


def test_the_processor_has_an_answer_at_the_second_look() -> None:
    probe = ProcessorProbe()
    assert probe.read() is None
    second = probe.read()
    assert second is not None
    assert 0 <= second <= 100


def test_disk_of_a_place_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert read_free_bytes(tmp_path / "a" / "b") > 0


def test_what_is_kept_on_disk_counts_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / "weights"
    file.write_bytes(os.urandom(200_000))
    os.link(file, tmp_path / "again")
    (tmp_path / "link").symlink_to(file)
    used = read_used_bytes([tmp_path])
    assert 200_000 <= used < 300_000
    assert read_used_bytes([tmp_path / "absent"]) == 0


def test_what_does_not_answer_is_none() -> None:
    assert ask("/nowhere/at-all") is None
    assert ask("false") is None
    assert ask("echo", "hello") == "hello\n"
    assert text_of("/nowhere") is None


BEFORE, AFTER = (
    f"/org/freedesktop/login1: org.freedesktop.login1.Manager.PrepareForSleep ({word},)" for word in ("true", "false")
)


@linux_only
def test_sleep_waits_until_work_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that speaks as gdbus does, and a lock that is a process, as systemd-inhibit's is."""
    monkeypatch.setattr(sleep, "HOLD_SECONDS", 60.0)
    fifo, held = tmp_path / "signals", tmp_path / "held"
    os.mkfifo(fifo)
    watch = SleepWatch(
        listen=f"(echo 'The name org.freedesktop.login1 is owned by :1.5'; exec cat {fifo})",
        inhibit=f"touch {held}; cat; rm {held}",
    )
    watch.start()
    try:
        with fifo.open("w") as signals:
            until(lambda: watch.about_to_sleep is False and held.exists())
            print(BEFORE, file=signals, flush=True)
            until(lambda: watch.about_to_sleep)
            assert held.exists(), "the system waits"
            watch.work_is_given_back()
            until(lambda: not held.exists())
            print(AFTER, file=signals, flush=True)
            until(lambda: watch.about_to_sleep is False and held.exists())
        until(lambda: watch.about_to_sleep is None)
    finally:
        watch.close()
    assert not held.exists(), "nothing is left running"


@linux_only
def test_who_listens_ends_with_the_watch(tmp_path: Path) -> None:
    mark = tmp_path / "begun"
    watch = SleepWatch(listen=f"sh -c 'echo $$ > {mark}; exec sleep 600'", inhibit="cat")
    watch.start()
    until(lambda: mark.exists() and mark.read_text().endswith("\n"))
    listener = psutil.Process(int(mark.read_text()))
    watch.close()
    until(lambda: not is_alive(listener))


@linux_only
def test_without_logind_sleep_is_unknown() -> None:
    watch = SleepWatch(listen="exit 1")
    watch.start()
    watch.close()
    assert watch.about_to_sleep is None


def test_notices_of_macos_are_answered() -> None:
    told: list[str] = []
    notices = PowerNotices(lambda: told.append("sleep"), lambda: told.append("woken"))
    for message in (0xE0000270, 0xE0000280, 0xE0000320, 0xE0000300):
        notices.answer(message, message, lambda argument: told.append(f"allowed {argument:x}"))
    assert told == ["allowed e0000270", "sleep", "allowed e0000280", "woken"]


def test_a_notice_is_answered_though_giving_back_failed() -> None:
    told: list[object] = []

    def fail() -> None:
        raise RuntimeError

    notices = PowerNotices(fail, lambda: None)
    with pytest.raises(RuntimeError):
        notices.answer(0xE0000280, 5, told.append)
    assert told == [5]
