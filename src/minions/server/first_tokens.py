"""The tokens that a start makes, and what it says of those that it cannot make again or that it left behind."""

from __future__ import annotations

import logging

from minions.domain.names import public_id
from minions.server.access import hash_of, new_secret
from minions.server.deployment import Deployment
from minions.store import access as table
from minions.store.database import Connection

log = logging.getLogger(__name__)


async def ensure_tokens(deployment: Deployment) -> str | None:
    """Make the tokens that the settings name, and warn of what whoever set them may not expect.

    Where nobody could administer otherwise, an administrator's is made; its secret is returned, to be shown once.
    """
    admin, executor = deployment.settings.admin_token, deployment.settings.executor_token
    async with deployment.database.connection() as connection:
        for scope, secret in (("admin", admin), ("executor", executor)):
            if secret is not None:
                await _ensure(connection, scope, secret)
        if await table.list_administrators(connection):
            return None
        if admin is not None:
            log.error(
                "no administrator's token is valid: set MINIONS_ADMIN_TOKEN to a secret that was never used, "
                "or to none, and start again"
            )
            return None
        fresh = new_secret()
        await _insert(connection, "admin", fresh)
        return fresh


async def _ensure(connection: Connection, scope: str, secret: str) -> None:
    variable = f"MINIONS_{scope.upper()}_TOKEN"
    if not await _insert(connection, scope, secret):
        token = await table.find_token(connection, hash_of(secret))
        if token is None:
            log.warning(
                "the token in %s was revoked, or has expired: it is refused, and not made again. "
                "Set another secret there",
                variable,
            )
        elif token.scope != scope or token.teams is not None:
            log.warning(
                "the token in %s exists as %s, and reaches less than its name says. Set another secret there",
                variable,
                public_id("tok", token.token_id),
            )
    for left in await table.other_tokens_named(connection, _name(scope), hash_of(secret)):
        number = public_id("tok", left)
        log.warning(
            "%s, which an earlier %s made, is still valid; if it should not be: minions tokens revoke %s",
            number,
            variable,
            number,
        )


async def _insert(connection: Connection, scope: str, secret: str) -> bool:
    """Whether it was made now."""
    made = await table.insert_token(
        connection, name=_name(scope), scope=scope, teams=None, secret_sha256=hash_of(secret), expires_seconds=None
    )
    return made is not None


def _name(scope: str) -> str:
    return f"first {scope}"
