"""The executor as it is set up here: files and who reads them, the service, the one that runs, the owner's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minions.domain.owner_policy import Mode, OwnerPolicy
from minions.executor.circuit import RESUME
from minions.executor.control.messages import Status
from minions.executor.doctor.findings import Judgement, unsure, well, wrong
from minions.executor.doctor.server_checks import LOCAL_NETWORK
from minions.executor.service_manager import Running


@dataclass(frozen=True, slots=True)
class Access:
    """A file or directory. mode: its permissions; None: it is not there. is_usable: readable, a directory writable.
    is_secret: nobody else may read it."""

    path: Path
    mode: int | None
    is_usable: bool = True
    is_secret: bool = False


def judge_files(found: Sequence[Access]) -> Judgement:
    """Whether this user reads and writes what an executor needs, and nobody else reads what is secret."""
    for access in found:
        if access.mode is None:
            if access.is_secret:
                return wrong(f"{access.path} is missing, and it should hold the token", "minions executor install")
            continue
        if not access.is_usable:
            return wrong(f"{access.path} cannot be used by this user", f"sudo chown -R $(id -un) {access.path}")
        if access.is_secret and access.mode & 0o077:
            return wrong(f"others can read the secret in {access.path}", f"chmod 600 {access.path}")
        if not access.is_secret and access.mode & 0o002:
            return wrong(f"everybody can change what is in {access.path}", f"chmod o-w {access.path}")
    there = [access for access in found if access.mode is not None]
    if not there:
        return unsure("nothing is there yet: no executor has run here")
    secrets = sum(access.is_secret for access in there)
    return well(
        f"{len(there)} place{'' if len(there) == 1 else 's'} can be used" + (", secrets by you only" if secrets else "")
    )


def judge_service(file: Path | None, program: str, is_program_there: bool, running: Running | None) -> Judgement:
    """file: None when none is installed. running: None when the service manager cannot be asked."""
    if file is None:
        return unsure("none is installed: the executor runs only while somebody runs it", "minions executor install")
    if not is_program_there:
        return wrong(
            f"{file} starts {program or 'nothing that is known'}, which is not there", "minions executor install"
        )
    if running is None:
        return unsure(f"{file} is there; whether it runs cannot be told")
    if running.is_running:
        return well(f"it is installed and runs ({file})")
    ended = f"; it ended with {running.last_exit}" if running.last_exit not in ("", "0") else ""
    return wrong(f"it is installed, and does not run{ended}", "minions executor start; then `minions executor logs`")


def judge_executor(
    status: Status | None, problem: str, *, installed: str, is_service: bool, is_reached: bool, system: str
) -> Judgement:
    """What the executor that runs here says of itself. status: None when none answers, and problem says how.
    installed: the version of this program. is_reached: this program itself reaches the server."""
    if status is None:
        if is_service:
            return wrong(problem, "minions executor start")
        return unsure(problem, "minions executor, or minions executor install")
    if status.problem:
        if is_reached and system == "darwin" and "does not answer" in status.problem:
            return wrong(
                f"{status.sentence}: this program reaches the server, and the executor does not", LOCAL_NETWORK
            )
        return wrong(f"{status.sentence}; {status.problem}", "see the line about that; then minions executor logs")
    if status.version != installed:
        says = f"{status.sentence}; it runs version {status.version}, and {installed} is installed"
        return wrong(says, "minions executor stop, then minions executor start")
    if any(RESUME in reason.text for reason in status.reasons):
        return wrong(status.sentence, "minions executor logs says what failed; minions executor resume tries again")
    return well(status.sentence)


def judge_owner_file(path: Path, policy: OwnerPolicy | None, problem: str) -> Judgement:
    """policy: None when there is no file; problem: what is wrong with one that is there."""
    if problem:
        return wrong(problem, "minions executor config edit")
    if policy is None:
        return unsure(f"there is no {path}: it works at any time", "minions executor config edit writes one")
    if policy.mode is Mode.NEVER:
        return unsure(f"{path} says that this machine is not lent", "minions executor config set mode auto")
    return well(f"{path} is valid (mode {policy.mode.value})")
