"""The supervisor starts exactly what was asked for, bounds what it prints, and says how it ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import zipfile
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minions
from minions.executor.supervisor.command import CommandInvalid
from minions.executor.supervisor.outcome import Ending
from minions.executor.supervisor.record import parse_journal
from minions.executor.supervisor.stopping import Grace
from minions.executor.supervisor.supervisor import Supervisor, supervise
from minions.executor.supervisor.sweep import DirectoryTaken
from tests.integration.executor.supervising import PATH, Scene

ECHO = "import json, os, sys; json.dump([os.fsencode(each).hex() for each in sys.argv[1:]], sys.stdout)"


@pytest.fixture
async def supervisor(scene: Scene) -> AsyncGenerator[Supervisor]:
    async with supervise(scene.directory, grace=Grace(term_seconds=3, kill_seconds=10)) as running:
        yield running
    assert scene.alive() == []


_ARGUMENTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["", " ", "'", '"', "$HOME", "$(true)", "`", "\\", "a\nb", "-n", "--", "*", "é", "日本", ";&|"]
        ),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        st.binary().map(lambda data: data.replace(b"\0", b"")),
    ),
    max_size=8,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=_ARGUMENTS)
async def test_any_argument_arrives_as_it_is(
    supervisor: Supervisor, scene: Scene, arguments: list[str | bytes]
) -> None:
    outcome = await supervisor.run(scene.command(sys.executable, "-ISc", ECHO, *arguments))
    assert outcome.succeeded, outcome
    arrived = [bytes.fromhex(each) for each in json.loads((scene.place / "out").read_text())]
    assert arrived == [each.encode() if isinstance(each, str) else each for each in arguments]


async def test_the_environment_is_exactly_the_given_one(
    supervisor: Supervisor, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSED", "ours")
    monkeypatch.setenv("KEPT_BACK", "secret")
    environment = {"PATH": PATH, "odd-name": "a\nb 'ü'"}
    await supervisor.run(scene.command("env", "-0", environment=environment, pass_through=("PASSED", "ABSENT")))
    seen = dict(each.split("=", 1) for each in (scene.place / "out").read_text().split("\0")[:-1])
    assert len(seen.pop("MINIONS_JOB_TOKEN")) == 32
    assert seen == {**environment, "PASSED": "ours"}


async def test_a_job_leads_its_session_and_was_on_record_before_it_began(supervisor: Supervisor, scene: Scene) -> None:
    script = f'cat {scene.directory}/*.journal; read -r stat </proc/$$/stat; echo "$stat"; echo $MINIONS_JOB_TOKEN'
    job = await supervisor.start(scene.shell(script))
    await job.wait()
    *journal, stat, token = (scene.place / "out").read_text().splitlines()
    (record,) = parse_journal("\n".join(journal).encode()).records
    fields = stat.rpartition(")")[2].split()
    assert record == job.record
    assert record.token == token
    assert [record.pgid, record.sid, record.start] == [int(fields[2]), int(fields[3]), int(fields[19])]
    assert record.pid == record.pgid == record.sid


async def test_signals_are_as_a_program_expects_them(supervisor: Supervisor, scene: Scene) -> None:
    """Python ignores SIGPIPE and the launcher SIGTERM; ignored signals would stay ignored in the job.

    The two that the C library keeps for its threads are left out: a program that make started has them ignored, and
    no program can ask for anything else.
    """
    await supervisor.run(scene.command("grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"))
    masks = [int(line.split()[1], 16) for line in (scene.place / "out").read_text().splitlines()]
    assert [[number for number in signal.valid_signals() if mask >> number - 1 & 1] for mask in masks] == [[], []]


async def test_the_input_is_empty_and_nothing_else_is_open(supervisor: Supervisor, scene: Scene) -> None:
    outcome = await supervisor.run(scene.shell("cat; ls /proc/self/fd"))
    assert outcome.succeeded
    assert (scene.place / "out").read_text().split() == ["0", "1", "2", "3"]  # the last is the listing's own


@pytest.mark.parametrize(
    ("script", "ending", "exit_code", "number"),
    [
        ("exit 0", Ending.EXITED, 0, None),
        ("exit 3", Ending.EXITED, 3, None),
        ("kill -SEGV $$", Ending.SIGNALLED, None, signal.SIGSEGV),
    ],
)
async def test_how_it_ended(
    supervisor: Supervisor, scene: Scene, script: str, ending: Ending, exit_code: int | None, number: int | None
) -> None:
    outcome = await supervisor.run(scene.shell(f"echo why >&2; {script}"))
    assert (outcome.ending, outcome.exit_code, outcome.signal_number) == (ending, exit_code, number)
    assert outcome.stderr_tail == "why\n"
    assert outcome.left == ()


async def test_what_cannot_be_started_says_why(supervisor: Supervisor, scene: Scene) -> None:
    program = scene.place / "program"
    program.write_text("no interpreter is named here")
    cases = {
        "No such file": scene.command("absent"),
        "Exec format error": scene.command(str(program)),
        "directory '/absent'": scene.command("true", directory=Path("/absent")),
        "No such file or directory": scene.command("true", stdout=scene.place / "absent" / "out"),
    }
    program.chmod(0o700)
    for reason, command in cases.items():
        outcome = await supervisor.run(command)
        assert outcome.ending is Ending.NOT_STARTED
        assert reason in outcome.reason
    with pytest.raises(CommandInvalid):
        await supervisor.run(scene.command("true", "\0"))
    assert supervisor.running == 0


async def test_an_endless_output_is_bounded_and_its_writer_goes_on(supervisor: Supervisor, scene: Scene) -> None:
    script = "echo begin; yes | head -c 30000000; echo end; echo said >&2"
    outcome = await supervisor.run(scene.shell(script, head_bytes=1000, tail_bytes=500))
    assert outcome.succeeded
    assert outcome.stdout_bytes == 30_000_010
    kept = (scene.place / "out").read_bytes()
    assert len(kept) < 1600
    assert kept.startswith(b"begin\ny\n")
    assert kept.endswith(b"y\nend\n")
    assert b"29,998,510 bytes left out" in kept
    assert (scene.place / "err").read_bytes() == b"said\n"


async def test_a_full_disk_does_not_stop_the_job_and_is_told(supervisor: Supervisor, scene: Scene) -> None:
    outcome = await supervisor.run(scene.shell("yes | head -c 300000", stdout=Path("/dev/full")))
    assert outcome.exit_code == 0
    assert not outcome.succeeded
    assert "/dev/full cannot be written: no space left on device" in outcome.output_fault


async def test_an_output_that_is_no_text_is_shown_as_well_as_can_be(supervisor: Supervisor, scene: Scene) -> None:
    outcome = await supervisor.run(scene.shell(r"printf 'a\377b' >&2"))
    assert outcome.stderr_tail == "a\N{REPLACEMENT CHARACTER}b"


async def test_the_peak_of_memory(supervisor: Supervisor, scene: Scene) -> None:
    outcome = await supervisor.run(scene.command(sys.executable, "-ISc", "bytearray(80_000_000)"))
    assert 80_000_000 < (outcome.peak_memory_bytes or 0) < 200_000_000


async def test_many_quick_jobs_leave_nothing_behind(supervisor: Supervisor, scene: Scene) -> None:
    await supervisor.run(scene.command("true"))
    launcher = psutil.Process(*scene.launchers())
    before = launcher.num_fds(), len(os.listdir("/proc/self/fd"))

    async def slot(number: int) -> None:
        places = {"stdout": scene.place / f"out{number}", "stderr": scene.place / f"err{number}"}
        for _ in range(50):
            assert (await supervisor.run(scene.command("true", **places))).succeeded

    await asyncio.gather(*(slot(number) for number in range(4)))
    assert launcher.children() == []
    assert (launcher.num_fds(), len(os.listdir("/proc/self/fd"))) == before
    assert supervisor.running == 0
    (journal,) = scene.directory.glob("*.journal")
    assert parse_journal(journal.read_bytes()).records == []


async def test_a_directory_serves_one_supervisor_and_is_empty_after_it(scene: Scene) -> None:
    async with supervise(scene.directory) as supervisor:
        await supervisor.run(scene.command("true"))
        with pytest.raises(DirectoryTaken, match="another executor runs commands"):
            async with supervise(scene.directory):
                pass
    assert list(scene.directory.glob("*.journal")) == []
    assert scene.launchers() == []


AT_THE_GATE = """
import os, sys
from minions.executor.supervisor.fork import fork_held
first, second = (fork_held([b"touch", each.encode()], {b"PATH": b"/usr/bin:/bin"}, b"/", 1, 2) for each in sys.argv[1:])
first.let_go()
os.waitpid(first.pid, 0)
second.gate.recv(1)
os.kill(os.getpid(), 9)
"""


async def test_a_job_that_was_not_let_go_never_runs(scene: Scene) -> None:
    """Its launcher dies when the job is forked and not on record: nobody would ever look for it."""
    one, two = scene.place / "one", scene.place / "two"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AT_THE_GATE, str(one), str(two), stdout=asyncio.subprocess.PIPE
    )
    await process.communicate()  # ends when the last that holds the pipe is gone
    assert process.returncode == -signal.SIGKILL
    assert one.exists()
    assert not two.exists()


LATE = """
import os, sys
from minions.executor.supervisor import fork
fork._READY_SECONDS = 1e-6
for argv in ([b"touch", sys.argv[1].encode()], [b"absent"]):
    held = fork.fork_held(argv, {b"PATH": b"/usr/bin:/bin"}, b"/", 1, 2)
    held.let_go()
    os.waitpid(held.pid, 0)
    print(held.fault())
"""


async def test_a_job_that_comes_late_to_its_gate_runs(scene: Scene) -> None:
    """On a machine so busy that it got no turn until then."""
    touched = scene.place / "touched"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LATE, str(touched), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out == b"\nthe program 'absent': No such file or directory\n"
    assert touched.exists()


FROM_ONE_FILE = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import minions
from minions.executor.supervisor.command import Command
from minions.executor.supervisor.supervisor import supervise

async def main(place):
    assert minions.__file__.startswith(sys.argv[1])
    async with supervise(place / "jobs") as supervisor:
        files = place / "out", place / "err"
        print((await supervisor.run(Command("job", ["true"], place, *files, {}))).explain())

asyncio.run(main(Path(sys.argv[2])))
"""


async def test_it_works_from_one_file_without_any_library(scene: Scene) -> None:
    """As it travels to hosts."""
    package = Path(minions.__file__).parent
    bundle = scene.place / "bundle.pyz"
    with zipfile.ZipFile(bundle, "w") as file:
        for pattern in ("*.py", "domain/*.py", "runtime/*.py", "executor/*.py", "executor/supervisor/*.py"):
            for source in package.glob(pattern):
                file.write(source, source.relative_to(package.parent))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-IS", "-c", FROM_ONE_FILE, str(bundle), str(scene.place), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out == b"ended with exit code 0\n"
