"""A project whose jobs run on several hosts: each notes when it begins and ends, and ends when the test lets it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from minions.client import calls
from minions.client.connection import Connection
from tests.integration.hosts.own_project import OwnProject, wait_until
from tests.integration.hosts.projects import commit
from tests.services.sshd import SshHost

# Its output tells where it was made, so that a late one from elsewhere would be seen.
TABLE = """
[run]
command = ["/bin/sh", "-c", '''
echo "begin {{index}} $WHERE" >> {notes}
while [ -e {held}/{{index}}-$WHERE ] || [ -e {held}/{{index}} ]; do sleep 0.05; done
{work}
echo "end {{index}} $WHERE" >> {notes}''', "job", "{{output}}"]
range = {{ stop = {jobs} }}
output = "results/{{index}}.txt"
{run}
"""
WRITE = 'echo "job {{index}} on $WHERE" > {{output}}'


@dataclass
class FarProject(OwnProject):
    """`minions` in a project with hosts; ssh finds those that are given.

    shared: a directory that all users of this machine may read.
    """

    shared: Path = Path()

    def describe(
        self, hosts: Sequence[str], *, run: str = "", slots: int = 2, work: str = WRITE, silence: str = ""
    ) -> None:
        """Commit the jobs. Each waits while a file `held/NUMBER` or `held/NUMBER-HOST` is there.

        silence: of the hosts over ssh. A busy machine is silent for seconds, so only who cuts cables makes it short.
        """
        self.held.mkdir(exist_ok=True)
        self.notes.touch()
        for place in (self.held, self.notes):
            place.chmod(0o777)
        work = work.format()
        text = TABLE.format(notes=self.notes, held=self.held, jobs=self.jobs, run=run, work=work)
        for name in hosts:
            where = "" if name == "local" else f'ssh = "{name}"\n'
            where += f'silence = "{silence}"\n' if where and silence else ""
            text += f'[hosts.{name}]\n{where}slots = {slots}\nenvironment = {{ WHERE = "{name}" }}\n'
        commit(self.root, {"minions.toml": text})

    @property
    def notes(self) -> Path:
        return self.shared / "notes"

    @property
    def held(self) -> Path:
        return self.shared / "held"

    def hold(self, *names: object) -> None:
        """`4` holds job 4 wherever it runs, `4-mini` only on mini."""
        for name in names:
            (self.held / str(name)).touch()

    def let(self, *names: object) -> None:
        for name in names:
            (self.held / str(name)).unlink()

    def is_held(self, name: object) -> bool:
        return (self.held / str(name)).exists()

    def noted(self, word: str) -> dict[int, list[str]]:
        """The hosts on which each job began, or ended, in their order."""
        found: dict[int, list[str]] = {number: [] for number in range(self.jobs)}
        for line in self.notes.read_text().splitlines():
            what, number, where = line.split()
            if what == word:
                found[int(number)].append(where)
        return found

    def on(self, host: str) -> list[int]:
        """The jobs that began there."""
        return [number for number, hosts in self.noted("begin").items() if host in hosts]

    def wait_for_begun(self, count: int) -> None:
        wait_until(lambda: sum(map(len, self.noted("begin").values())) == count)

    def output(self, number: int) -> Path:
        return self.root / "results" / f"{number}.txt"

    def made(self) -> list[str]:
        """Where each output that has arrived was made."""
        return [self.output(number).read_text().split(" on ")[1].strip() for number in range(self.jobs)]

    def host(self, name: str) -> dict[str, Any]:
        """How a host is, as people are told now."""
        return next(each for each in self.status()["hosts"] if each["name"] == name)

    def status(self) -> dict[str, Any]:
        place = self.root / ".minions" / "status.json"
        wait_until(place.exists)
        return cast("dict[str, Any]", json.loads(place.read_text()))

    def states(self) -> dict[str, str]:
        """How the server takes each executor, by the name of its host."""
        said = json.loads((self.root / ".minions" / "connection.json").read_text())
        connection = Connection(said["server"], said["token"])
        try:
            return {view.name: view.state for view in connection.send(calls.executors(100)).data}
        finally:
            connection.close()


@contextmanager
def far_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: Sequence[SshHost], jobs: int
) -> Generator[FarProject]:
    """ssh knows the hosts as it would by ~/.ssh/config, which a test must leave alone."""
    (tmp_path / "bin").mkdir()
    config = tmp_path / "ssh_config"
    config.write_text("".join((host.directory / "ssh_config").read_text() for host in hosts))
    program = tmp_path / "bin" / "ssh"
    program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    shared = hosts[0].directory / tmp_path.name
    shared.mkdir(mode=0o755)
    project = FarProject(tmp_path / "project", jobs=jobs, shared=shared)
    try:
        yield project
    finally:
        left = project.end()
    assert left == []


def executors_of(host: SshHost) -> list[int]:
    return _with(host, lambda words: any(word.endswith(".pyz") for word in words) and "run" in words)


def jobs_of(host: SshHost) -> list[int]:
    """Their first processes: what these fork is not another program at once."""
    return _with(host, lambda words: words[0] == "/bin/sh" and "job" in words)


def agents_of(host: SshHost) -> list[int]:
    """What answers at the far end of ssh: a Python that is given its program by stdin."""
    return _with(host, lambda words: "-I" in words and "stdin" in words[-2])


def _with(host: SshHost, is_one: Callable[[list[str]], bool]) -> list[int]:
    """The processes of a host by their command lines."""
    found: list[int] = []
    for pid in host.pids():
        with suppress(OSError):  # it has just ended
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
            if os.getsid(pid) == pid and is_one(words):
                found.append(pid)
    return found
