"""The directory `.minions`: what is remembered there, who may be there, and what speaks of it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from minions.commands.explain import without_empty
from minions.commands.job_rows import job_row
from minions.commands.merge import merge_command, refuse_unless_right
from minions.domain.errors import Conflict, MinionsError, NotFound
from minions.domain.jobs import Job
from minions.hosts.inventory import Host
from minions.hosts.recipes import choose
from minions.hosts.replay import replay
from minions.hosts.resume import Output
from minions.hosts.run_directory import HostWish, InputFile, Run, RunDirectory, name_of, watching
from minions.hosts.verifying import Verified
from minions.runtime.locks import lock_holder

JOBS = tuple(
    (Job(index, ("run", f"it's {index}", "ü"), f"out/{index}.txt", {"SEED": "a b"}), f"{index:x}" * 64)
    for index in range(10)
)
RUN = Run(
    commit="c" * 40,
    patch_sha256=None,
    project_key="k" * 16,
    inputs=(InputFile("data/a b.bin", "1" * 64, 5, in_commit=False), InputFile("in.txt", "2" * 64, 6, in_commit=True)),
    jobs=JOBS,
    command=("run",),
    setup=("make", "deps"),
    timeout_seconds=3.5,
    retries=2,
    selected=(0, 1, 2),
)


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path)
    directory.make()
    return directory


def test_a_run_is_read_as_it_was_written(directory: RunDirectory) -> None:
    with pytest.raises(NotFound, match="nothing was run"):
        directory.read_run()
    directory.write_run(RUN)
    assert directory.read_run() == RUN
    directory.write_run(replace(RUN, setup=None, patch_sha256="p" * 64))
    assert directory.read_run().setup is None


def test_what_was_delivered_is_remembered(directory: RunDirectory) -> None:
    assert directory.delivered() == set()
    directory.note_delivered([("a" * 64, "b" * 64)])
    directory.note_delivered([("c" * 64, "d" * 64)])
    with (directory.path / "delivered").open("a") as file:
        file.write("e" * 64 + " half a li")  # the machine lost power
    assert directory.delivered() == {("a" * 64, "b" * 64), ("c" * 64, "d" * 64)}


def test_wishes_and_used_hosts(directory: RunDirectory) -> None:
    directory.wish("mini", HostWish(slots=4))
    directory.wish("local", HostWish(paused=True))
    assert directory.wishes() == {"mini": HostWish(slots=4), "local": HostWish(paused=True)}
    directory.note_host("mini", used=True)
    directory.note_host("local", used=True)
    directory.note_host("mini", used=False)
    assert directory.hosts_used() == {"local"}


def test_the_name_on_hosts_stays_the_same(directory: RunDirectory) -> None:
    name = directory.deployment_name()
    assert len(name) == 16
    assert RunDirectory(directory.root).deployment_name() == name


def test_one_may_watch_and_the_other_hears_of_it(directory: RunDirectory) -> None:
    place = directory.path / "watching.lock"
    assert lock_holder(place) is None
    program = "import sys; from minions.hosts.run_directory import *; from pathlib import Path\n"
    program += "held = watching(RunDirectory(Path(sys.argv[1]))); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(directory.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert lock_holder(place) == other.pid
        with pytest.raises(Conflict, match=f"already runs in this project .process {other.pid}."):
            watching(directory)
        other.kill()
        other.wait()
    assert lock_holder(place) is None, "a lock does not outlive its process"
    watching(directory).close()


@pytest.mark.parametrize(("reference", "place"), [("3", 3), ("out/4.txt", 4), ("5555", 5), ("0", 0)])
def test_jobs_are_named_by_number_identity_or_output(reference: str, place: int) -> None:
    assert name_of(JOBS, reference) == place


@pytest.mark.parametrize("reference", ["10", "out", "xyz", "aaa"])
def test_what_names_no_job(reference: str) -> None:
    with pytest.raises(NotFound, match="names no job of the last run"):
        name_of(JOBS, reference)


def test_a_job_can_be_run_again_by_hand(tmp_path: Path) -> None:
    root, patch = tmp_path / "my project", tmp_path / "p q.patch"
    text = replay(RUN, 3, root, patch)
    comment, *lines = text.splitlines()
    assert all(line.endswith(" &&") for line in lines[:-1]), "nothing goes on where something failed"
    tree = str(tmp_path / f"replay-{RUN.jobs[3][1][:12]}")
    steps = [shlex.split(line.removesuffix(" &&")) for line in lines]
    assert comment == f"# to do it once more, first: git -C {shlex.quote(str(root))} worktree remove --force {tree}"
    assert steps[0] == ["git", "-C", str(root), "worktree", "add", "--detach", tree, "c" * 40]
    assert steps[1][-1] == str(patch)
    assert ["cp", str(root / "data" / "a b.bin"), f"{tree}/data/a b.bin"] in steps
    assert not any("in.txt" in line for line in lines), "the commit brings it"
    assert ["make", "deps"] in steps
    assert steps[-1] == ["env", "SEED=a b", "run", "it's 3", "ü"]


def test_what_a_job_had_around_it_on_its_host_is_told_for_a_replay(tmp_path: Path) -> None:
    host = Host("mini", "m", setup=("make", "more"), environment=(("A", "1 2"),), path=("/opt/x",))
    recipes = choose({"requirements.txt": b"x==1 --hash=sha256:0"}, None, has_uv=True)
    lines = replay(RUN, 3, tmp_path, None, recipes=recipes, host=host).splitlines()
    told = [line for line in lines if line.startswith("# ")]
    assert "# requirements.txt was installed before, in the worktree: uv venv --clear .venv" in told
    assert "# mini had in its environment: 'A=1 2'" in told
    assert "# mini had before its PATH: /opt/x" in told
    assert "make more &&" in lines
    assert "make deps &&" not in lines, "a host's own setup takes its place"


def test_an_argument_that_is_no_text_can_be_shown() -> None:
    run = replace(RUN, jobs=((Job(0, ("run", "a\udce9"), "out", {"X": "\ud800"}), "a" * 64),))
    row = job_row(run, 0, None)
    assert (row["command"], row["environment"]) == (["run", "a\\udce9"], {"X": "\\ud800"})
    assert replay(run, 0, Path("/p"), None).encode().endswith(b"env 'X=\\ud800' run 'a\\udce9'")


def test_what_is_no_longer_a_job_is_told_as_damaged(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.make()
    directory.write_run(replace(RUN, jobs=((Job(0, ("run",), ".minions/run.json", {}), "a" * 64),)))
    damaged = r"jobs\.jsonl, line 1: output '\.minions/run\.json' must not lie in \.minions"
    with pytest.raises(MinionsError, match=damaged):
        _ = directory.read_run().jobs[0]


def test_headers_of_a_log_that_nothing_stands_under_are_left_out() -> None:
    assert without_empty("--- stdout\n\n--- stderr\nwent wrong\n\n") == "--- stderr\nwent wrong\n\n"
    assert without_empty("--- stdout\nfine\n\n--- stderr\n\n") == "--- stdout\nfine\n\n"
    assert without_empty("--- stdout\n\n--- stderr\n\n") == ""


def test_a_merge_names_the_outputs_in_order_and_refuses_what_is_not_right() -> None:
    assert merge_command(["m", "{outputs}", "-o", "all"], ["b", "a c"]) == ["m", "b", "a c", "-o", "all"]
    refuse_unless_right(RUN, Verified(tuple(range(10)), (), ()))
    with pytest.raises(Conflict) as few:
        refuse_unless_right(RUN, Verified((), ((1, Output.CHANGED), (2, Output.MISSING)), (7,)))
    assert few.value.message.splitlines() == [
        "nothing was merged:", "  out/1.txt is changed", "  out/2.txt is missing", "  out/7.txt is not done"
    ]  # fmt: skip
    many = replace(RUN, jobs=[(Job(index, ("run",), f"out/{index}", {}), "a" * 64) for index in range(5000)])
    with pytest.raises(Conflict) as cut:
        refuse_unless_right(many, Verified((), tuple((place, Output.MISSING) for place in range(5000)), ()))
    said = cut.value.message.splitlines()
    assert said[20:] == ["  out/19 is missing", "  and 4,980 more; `minions verify --json` lists all"]
