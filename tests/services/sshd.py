"""Hosts to reach over SSH: each a real sshd with its own user and home, if need be behind a cable that can be cut."""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from getpass import getuser
from pathlib import Path

import pytest

from tests.services import directories
from tests.services.ports import free_port

PREFIX = "minions-sshd-"
USER_PREFIX = "minions-test-"
_START_SECONDS = 60.0
_chance = random.SystemRandom()


class NoNamespaces(Exception):
    """The kernel refuses network namespaces."""


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert found, f"{name} is not installed; see tests/services/system_packages.sh"
    return found


def _do(*argv: str | Path) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


@dataclass(slots=True)
class Cable:
    """A network of two: we, and one namespace with an address of its own."""

    name: str
    ours: str
    theirs: str

    @classmethod
    @contextmanager
    def laid(cls) -> Generator[Cable]:
        """Raises NoNamespaces where the kernel, or our rights, do not allow it."""
        number = _chance.randrange(1 << 13)
        net = f"10.213.{number >> 5}.{(number & 31) << 3}".rsplit(".", 1)
        cable = cls(f"mt{_chance.randrange(1 << 32):08x}", *(f"{net[0]}.{int(net[1]) + host}" for host in (1, 2)))
        made = subprocess.run([_program("ip"), "netns", "add", cable.name], capture_output=True, text=True, check=False)
        if made.returncode:
            raise NoNamespaces(made.stderr.strip())
        try:
            cable._do("link", "add", f"{cable.name}a", "type", "veth", "peer", "name", f"{cable.name}b")
            cable._do("link", "set", f"{cable.name}b", "netns", cable.name)
            cable._do("addr", "add", f"{cable.ours}/29", "dev", f"{cable.name}a")
            cable._do("link", "set", f"{cable.name}a", "up")
            cable._do("-n", cable.name, "addr", "add", f"{cable.theirs}/29", "dev", f"{cable.name}b")
            cable._do("-n", cable.name, "link", "set", "lo", "up")
            cable.mend()
            yield cable
        finally:
            with suppress(AssertionError):
                cable._do("link", "del", f"{cable.name}a")
            cable._do("netns", "del", cable.name)

    def cut(self) -> None:
        """From now on nothing arrives, and nobody is told."""
        self._do("-n", self.name, "link", "set", f"{self.name}b", "down")

    def mend(self) -> None:
        self._do("-n", self.name, "link", "set", f"{self.name}b", "up")

    def move(self) -> None:
        """Mend it, with another address for us: what was under way to the old one is never answered, nor refused."""
        network, _, number = self.ours.rpartition(".")
        before, self.ours = self.ours, f"{network}.{int(number) + 2}"
        self._do("addr", "del", f"{before}/29", "dev", f"{self.name}a")
        self._do("addr", "add", f"{self.ours}/29", "dev", f"{self.name}a")
        self.mend()

    @staticmethod
    def _do(*words: str) -> None:
        _do(_program("ip"), *words)


@dataclass(slots=True)
class SshHost:
    """One host. options: what the client's ssh needs to know it by `name`, and to leave ~/.ssh alone.

    uid: of a user that was made for this host and nothing else; None: the user is ours, and only the home is its own.
    """

    name: str
    directory: Path
    user: str
    uid: int | None
    home: Path
    address: str
    port: int
    cable: Cable | None = None
    settings: dict[str, str] = field(default_factory=dict[str, str])
    _process: subprocess.Popen[bytes] | None = None

    @property
    def options(self) -> tuple[str, ...]:
        return ("-F", str(self.directory / "ssh_config"))

    def start(self) -> None:
        """Listen; returns once it greets."""
        lines = {
            "Port": str(self.port),
            "ListenAddress": self.address,
            "HostKey": str(self.directory / "host_key"),
            "PidFile": "none",
            "AuthorizedKeysFile": str(self.directory / "authorized_keys"),
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "UseDNS": "no",
            **({} if os.geteuid() == 0 else {"SetEnv": f"HOME={self.home}"}),
            **self.settings,
        }
        config = self.directory / "sshd_config"
        config.write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
        there = [_program("ip"), "netns", "exec", self.cable.name] if self.cable else []
        with (self.directory / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*there, _program("sshd"), "-D", "-e", "-f", config],
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        self._wait()

    def stop(self) -> None:
        """Listen no more; sessions go on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def reboot(self) -> None:
        """End every process of this host, and its sshd, at once."""
        self.stop()
        deadline = time.monotonic() + _START_SECONDS
        while (pids := self.pids()) and time.monotonic() < deadline:
            for pid in pids:
                self._kill(pid)
            time.sleep(0.02)

    def pids(self) -> list[int]:
        """The processes that run on this host: those of the user made for it, or else those with its home."""
        entries = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
        return [pid for pid in entries if self._is_ours(pid)]

    def _kill(self, pid: int) -> None:
        """By a handle, looked at again: a number alone may be somebody else's by now."""
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                if self._is_ours(pid):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)

    def _is_ours(self, pid: int) -> bool:
        """Never decided by a uid that was not made for this host alone: ours is that of half the machine."""
        entry = Path(f"/proc/{pid}")
        try:
            if "State:\tZ" in (entry / "status").read_text():
                return False
            if self.uid is not None:
                return entry.stat().st_uid == self.uid
            return f"HOME={self.home}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def _wait(self) -> None:
        """In the namespace of the host when it has one: from here the way may be cut."""
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with suppress(OSError), socket.create_connection((self.address, self.port), 1) as probe:
                if probe.recv(4) == b"SSH-":
                    return
            time.sleep(0.02)
        raise AssertionError(f"sshd does not start: {(self.directory / 'sshd.log').read_text()}")


@contextmanager
def ssh_host(name: str, *, cable: Cable | None = None, **settings: str) -> Generator[SshHost]:
    """A started host, and at the end nothing of it. settings: further lines of its sshd_config."""
    _clear_killed_sessions()
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    directory.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.enter_context(directories.held(directory))
        home = directory / "home"
        user, uid = stack.enter_context(_user(directory, home))
        for key in ("host_key", "key"):
            _do(_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", directory / key)
        shutil.copy(directory / "key.pub", directory / "authorized_keys")
        port = free_port()
        address = cable.theirs if cable else "127.0.0.1"
        host_key = (directory / "host_key.pub").read_text()
        (directory / "known_hosts").write_text(f"[{address}]:{port} {host_key}")
        (directory / "ssh_config").write_text(
            f"Host {name}\n HostName {address}\n Port {port}\n User {user}\n IdentityFile {directory}/key\n"
            f" IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile {directory}/known_hosts\n"
            " GlobalKnownHostsFile /dev/null\n"
        )
        host = SshHost(name, directory, user, uid, home, address, port, cable, settings)
        stack.callback(host.reboot)
        host.start()
        yield host


@contextmanager
def _user(directory: Path, home: Path) -> Generator[tuple[str, int | None]]:
    """As root a user of its own, with its uid; else us, with another home, and no uid to go by."""
    if os.geteuid() != 0:
        home.mkdir()
        yield getuser(), None
        return
    Path("/run/sshd").mkdir(exist_ok=True)  # where sshd locks itself in while it does not know who calls
    user = f"{USER_PREFIX}{_chance.randrange(1 << 40):010x}"
    (directory / "user").write_text(user)
    # The password "*" fits nothing, but unlike "!" does not lock the account.
    _do(_program("useradd"), "--create-home", "--home-dir", home, "--shell", "/bin/sh", "--password", "*", user)
    try:
        uid = pwd.getpwnam(user).pw_uid
        assert uid not in (0, os.getuid(), os.geteuid()), f"{user} is no user of its own"
        assert [entry.pw_name for entry in pwd.getpwall() if entry.pw_uid == uid] == [user], f"{uid} is shared"
        yield user, uid
    finally:
        _remove_user(user)


def _remove_user(user: str) -> None:
    subprocess.run([_program("userdel"), "--force", user], capture_output=True, check=False)


def _clear_killed_sessions() -> None:
    for directory in directories.of_killed_sessions(PREFIX):
        with suppress(FileNotFoundError):
            user = (directory / "user").read_text()
            if user.startswith(USER_PREFIX):
                _remove_user(user)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def mini() -> Iterator[SshHost]:
    """A host named mini, on loopback."""
    with ssh_host("mini") as host:
        yield host


@pytest.fixture
def cable() -> Iterator[Cable]:
    """A network of two."""
    try:
        laid = Cable.laid()
        cable = laid.__enter__()
    except NoNamespaces as refusal:
        pytest.skip(f"the kernel refuses network namespaces: {refusal}")
    try:
        yield cable
    finally:
        laid.__exit__(None, None, None)
