"""Giving subtasks back: released, failed, or left behind by an executor that says goodbye."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from minions.domain.discretion import without_work
from minions.domain.errors import AcquirementLost, ModelUnavailable, NotFound, SessionReplaced
from minions.domain.hopeless import hopeless
from minions.domain.lifecycle import OPEN_TASK_STATES, OTHERS_FIRST_SECONDS, TaskState, retry_delay_seconds
from minions.domain.matching import Lane
from minions.domain.names import number_of, public_id
from minions.domain.subtask import GiveBack
from minions.domain.task import Task
from minions.server.access import require_all_teams_of
from minions.server.actions.change_task import end_early
from minions.server.deployment import Deployment, read_task
from minions.server.sessions import as_offered
from minions.store import acquirements, executors, stopping, tasks
from minions.store.access import Token
from minions.store.acquirements import Held
from minions.store.database import Connection
from minions.store.executors import Session
from minions.wire.executor import (
    BeatAnswer,
    FailRequest,
    GoodbyeRequest,
    HeartbeatRequest,
    ProgressRequest,
    ReleaseRequest,
)

log = logging.getLogger(__name__)


async def release_subtask(deployment: Deployment, session: Session, request: ReleaseRequest) -> None:
    """The owner came, or the executor stops: back to the queue at once, and no attempt.

    Releasing what is not owned any more is no error: the executor only wanted to be rid of it.
    """
    acquirement_id = number_of("acq", request.acquirement)
    reason = without_work(request.reason)
    await _give_back(deployment, [GiveBack(acquirement_id, session.executor_id, "released", reason)])
    if _runs_commands(session):
        await note_stopped(deployment, session.executor_id, [acquirement_id])


async def fail_subtask(deployment: Deployment, session: Session, request: FailRequest) -> None:
    """The subtask could not be done: an attempt, and the next comes later each time. Raises AcquirementLost.

    A model that nobody could load ends the task, since every other subtask would end the same way; so do other faults
    that meet whatever is tried of it (domain/hopeless). Where others have loaded the model, it is this executor that
    lacks it, and that is no attempt. The next attempt is another executor's, where there is one that could make it.
    """
    acquirement_id = number_of("acq", request.acquirement)
    no_model = request.code == ModelUnavailable.code
    async with deployment.database.transaction() as connection:
        owned = await acquirements.owned_subtask(connection, acquirement_id, session.executor_id)
        if owned is None:
            raise AcquirementLost
        task = await read_task(connection, owned.task_id)
        elsewhere = no_model and task.pin is not None
        others = await executors.others_able(connection, session.executor_id, Lane.parse(task.lane), task.name.team)
        given = GiveBack(
            acquirement_id,
            session.executor_id,
            "released" if elsewhere else "fault",
            request.code,
            request.message,
            0.0 if elsewhere else retry_delay_seconds(owned.attempt + 1, task.kind),
            OTHERS_FIRST_SECONDS if others else 0.0,
            None if request.job is None else {"job": request.job.model_dump(exclude_none=True)},
        )
        done = await acquirements.give_back(connection, [given])
        if not done:
            raise AcquirementLost
    deployment.counters.add_given_back([given], done)
    deployment.acquiring.note_fault(session.executor_id)
    if elsewhere:
        deployment.doorbell.ring()
    if no_model and not done[0].queued:
        await _end_task(deployment, owned.task_id, f"{request.message} ({request.code})")
    elif task.pin is None and task.kind != "command":
        await _end_if_hopeless(deployment, task)
    deployment.subtask_ended.set()


async def _end_if_hopeless(deployment: Deployment, task: Task) -> None:
    """End a task of which nothing was ever done, and of which all else would end the same way."""
    async with deployment.database.connection() as connection:
        faults = await tasks.task_faults(connection, task.task_id)
        able = await executors.able_executors(connection, Lane.parse(task.lane), task.name.team)
    if reason := hopeless(faults, able):
        log.info("task %s was given up: %s", task.name, reason)
        await _end_task(deployment, task.task_id, reason)


async def _end_task(deployment: Deployment, task_id: int, reason: str) -> None:
    """In a transaction of its own: the lock on the task comes before those on its subtasks."""
    async with deployment.database.transaction() as connection:
        await tasks.lock_task(connection, task_id)
        task = await read_task(connection, task_id)
        if task.state in OPEN_TASK_STATES and task.pin is None:  # a first part may have come meanwhile
            await end_early(connection, task_id, TaskState.FAILED, reason)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """given_back: how many subtasks went back. stopped: cancelled jobs that count as run no more."""

    given_back: int
    stopped: int


async def abandon_executor(deployment: Deployment, token: Token, executor_id: int) -> Abandoned:
    """Give back all that an executor holds, because somebody says that it will not come back, or may be run twice.

    What it sends of them later comes too late. Raises NotFound.
    """
    require_all_teams_of(token, "abandons no executor")
    async with deployment.database.transaction() as connection:
        if not await executors.executor_names(connection, [executor_id]):
            raise NotFound(
                f"there is no executor {public_id('exe', executor_id)}", hint="`minions executors ls` lists them."
            )
        held = await acquirements.held_in_any_session(connection, executor_id)
        given = [GiveBack(each, executor_id, "released", "abandoned", f"by {token.name}") for each in held]
        done = await acquirements.give_back(connection, given)
    deployment.counters.add_given_back(given, done)
    if done:
        deployment.doorbell.ring()
    return Abandoned(len(done), await note_stopped(deployment, executor_id))


async def note_stopped(deployment: Deployment, executor_id: int, acquirements: Sequence[int] | None = None) -> int:
    """These cancelled jobs (None: all) do not run on an executor any more; how many there were. What waited for them is
    made ready by the upkeep."""
    async with deployment.database.transaction() as connection:
        return (await stopping.note_stopped(connection, executor_id, acquirements)).jobs


def _runs_commands(session: Session) -> bool:
    """Only those leave behind what may still run; the others do not pay for a look."""
    return "command" in session.capabilities.kinds


async def say_goodbye(deployment: Deployment, session: Session, request: GoodbyeRequest) -> None:
    """The executor ends; what it still holds is released."""
    async with deployment.database.transaction() as connection:
        if not await executors.say_goodbye(connection, session.executor_id, session.session, request.reason):
            raise SessionReplaced
        held = await acquirements.held_in_any_session(connection, session.executor_id)
        reason = without_work(request.reason)  # other tasks' people read it, too
        given = [GiveBack(each, session.executor_id, "released", reason) for each in held]
        done = await acquirements.give_back(connection, given)
    deployment.counters.add_given_back(given, done)
    deployment.sessions.forget(session.executor_id)
    if held:
        deployment.doorbell.ring()
    if _runs_commands(session):
        await note_stopped(deployment, session.executor_id)


async def beat(deployment: Deployment, session: Session, request: HeartbeatRequest) -> BeatAnswer:
    """Note how the executor is, and settle what it holds."""
    offered = as_offered(session, request.offer)
    async with deployment.database.connection() as connection:
        known = await executors.heartbeat(
            connection,
            session.executor_id,
            session.session,
            state=request.state,
            reason=request.reason,
            preferences=request.preferences if request.offer is None else request.offer.preferences,
            sample=request.sample,
            takes=offered.capabilities if request.offer is not None else None,
            leaves=request.leaves,
            device=request.device,
        )
    if not known:
        raise SessionReplaced
    if offered != session or (request.preferences is not None and tuple(request.preferences) != session.preferences):
        deployment.sessions.forget(session.executor_id)
    return BeatAnswer(**await settle(deployment, session, request.holds, request.heard_until))


async def report_progress(deployment: Deployment, session: Session, request: ProgressRequest) -> BeatAnswer:
    """A sign of life; tells the executor what it has lost meanwhile."""
    return BeatAnswer(**await settle(deployment, session, list(request.rows), request.heard_until))


class Settled(TypedDict):
    """lost: what the executor lists and does not own. stopping: of those, what was cancelled and is to be listed until
    it does not run any more. newest: the newest acquirement of all, when it was compared."""

    lost: list[str]
    stopping: list[str]
    newest: str


async def settle(deployment: Deployment, session: Session, holds: Sequence[str], heard_until: str | None) -> Settled:
    """Compare what the executor lists with what it owns.

    What it owns and does not list, it never heard of when it says so itself, or when that is older than a minute: the
    answer to its call was lost. Acquirements are numbered in the order in which they are made, so `heard_until` needs
    no clock, and is right however late it arrives.
    """
    listed = {number_of("acq", each) for each in holds}
    heard = 0 if heard_until is None else number_of("acq", heard_until)
    async with deployment.database.connection() as connection:
        newest, held = await acquirements.held_by(connection, session.executor_id, session.session)
        cancelled = await _cancelled(connection, session)
    unheard = [
        each.acquirement_id
        for each in held
        if each.acquirement_id not in listed and (each.settled or each.acquirement_id <= heard)
    ]
    if unheard:
        await _give_back(
            deployment, [GiveBack(each, session.executor_id, "released", "answer_lost") for each in unheard]
        )
    # By time only where the executor cannot say it: what runs twice is worse than what waits a little longer.
    stopped = [
        each.acquirement_id
        for each in cancelled
        if each.acquirement_id not in listed and (each.settled if heard_until is None else each.acquirement_id <= heard)
    ]
    if stopped:
        await note_stopped(deployment, session.executor_id, stopped)
    owned = {each.acquirement_id for each in held}
    awaited = listed & {each.acquirement_id for each in cancelled}
    return {
        "lost": [public_id("acq", each) for each in sorted(listed - owned)],
        "stopping": [public_id("acq", each) for each in sorted(awaited)],
        "newest": public_id("acq", newest),
    }


async def _cancelled(connection: Connection, session: Session) -> list[Held]:
    if not _runs_commands(session):
        return []
    return await stopping.stopping_of_executor(connection, session.executor_id, session.session)


async def _give_back(deployment: Deployment, given: list[GiveBack]) -> None:
    async with deployment.database.connection() as connection:
        done = await acquirements.give_back(connection, given)
    deployment.counters.add_given_back(given, done)
    if any(each.queued for each in done):
        deployment.doorbell.ring()
    deployment.subtask_ended.set()
