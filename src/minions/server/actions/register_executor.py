"""Registering: an executor starts, and what its former run still held goes back."""

from __future__ import annotations

import uuid

from minions.domain.errors import AccessDenied, FieldError, ValidationFailed
from minions.domain.matching import Capabilities
from minions.domain.names import Preference, public_id
from minions.domain.subtask import GiveBack
from minions.runtime.version import VERSION
from minions.server.actions.end_subtask import note_stopped
from minions.server.deployment import Deployment
from minions.store import acquirements, executors
from minions.store.access import Token
from minions.wire.executor import Offer, RegisterAnswer, RegisterRequest


async def register_executor(deployment: Deployment, token: Token, request: RegisterRequest) -> RegisterAnswer:
    """Begin a session. A run that ended without a goodbye counts as a lost owner of what it held."""
    check_preferences(request.preferences)
    session = str(uuid.uuid4())
    new = executors.NewExecutor(
        instance=request.instance,
        session=session,
        name=request.name,
        owner=request.owner,
        version=request.version,
        token_id=token.token_id,
        device=request.device,
        capabilities=Capabilities(frozenset(request.kinds), frozenset(request.engines), request.memory_mb),
        preferences=tuple(request.preferences),
    )
    async with deployment.database.transaction() as connection:
        executor_id = await executors.register_executor(connection, new)
        if executor_id is None:
            raise AccessDenied(
                "this executor was registered with another token",
                hint="Use the same token, or a new --state directory, which makes it another executor.",
            )
        left = [
            GiveBack(acquirement_id, executor_id, "lost", "executor_restarted", "the executor started again")
            for acquirement_id in await acquirements.held_in_any_session(connection, executor_id)
        ]
        done = await acquirements.give_back(connection, left)
    deployment.counters.add_given_back(left, done)
    deployment.sessions.forget(executor_id)
    if left:
        deployment.doorbell.ring()
    await note_stopped(deployment, executor_id)  # an executor of commands stops all that is left before it registers
    settings = deployment.settings
    return RegisterAnswer(
        executor=public_id("exe", executor_id),
        session=session,
        lease_seconds=settings.lease_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
        progress_seconds=settings.progress_seconds,
        server_version=VERSION,
    )


def check_offer(offer: Offer | None) -> None:
    """Raises ValidationFailed, naming each preference that is none."""
    if offer is not None:
        check_preferences(offer.preferences)


def check_preferences(preferences: list[str]) -> None:
    """Raises ValidationFailed, naming each preference that is none."""
    errors: list[FieldError] = []
    for index, text in enumerate(preferences):
        try:
            Preference.parse(text)
        except ValueError as error:
            errors.append(FieldError(f"preferences[{index}]", "bad_preference", str(error)))
    if errors:
        raise ValidationFailed(errors)
