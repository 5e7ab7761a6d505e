"""How processes end: by signals, which let them clean up, and with the parent that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

SERVING = """
import asyncio, sys
from minions.runtime.parent import end_with_parent
from minions.runtime.signals import run_until_stopped

async def serve():
    try:
        print("serving", flush=True)
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        print("clean", flush=True)
        if "deaf" in sys.argv:
            import time
            time.sleep(60)

if int(sys.argv[1]) >= 0:
    end_with_parent(int(sys.argv[1]), grace_seconds=0.2 if "deaf" in sys.argv else 60.0)
factory = None
if "uvloop" in sys.argv:
    import uvloop
    factory = uvloop.new_event_loop
run_until_stopped(serve(), factory)
print("returned", flush=True)
"""


def serving(*arguments: str, pipe: int = -1) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", SERVING, str(pipe), *arguments]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, pass_fds=(pipe,) if pipe >= 0 else ())
    assert process.stdout is not None
    assert process.stdout.readline() == "serving\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_signal_unwinds_and_returns(number: signal.Signals, loop: str) -> None:
    with serving(loop) as process:
        process.send_signal(number)
        assert process.communicate(timeout=60)[0] == "clean\nreturned\n"
    assert process.returncode == 0


def test_a_second_signal_ends_it_at_once() -> None:
    with serving("deaf") as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "clean\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT


def test_the_end_of_the_pipe_is_the_end_of_the_child() -> None:
    read, write = os.pipe()
    with serving(pipe=read) as process:
        os.close(read)
        assert process.poll() is None
        os.close(write)
        assert process.communicate(timeout=60)[0] == "clean\nreturned\n"


def test_a_child_that_hangs_is_killed() -> None:
    read, write = os.pipe()
    with serving("deaf", pipe=read) as process:
        os.close(read)
        os.close(write)
        assert process.wait(60) in (-signal.SIGKILL, -signal.SIGTERM)
