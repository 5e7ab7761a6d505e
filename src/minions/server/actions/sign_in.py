"""Signing a browser in: by a token, or by a link that works once."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Final

from minions.domain.errors import AccessDenied
from minions.server.access import hash_of, require
from minions.server.deployment import Deployment
from minions.store import access
from minions.store.access import Token

LINK_SECONDS: Final = 15 * 60


async def make_link(deployment: Deployment, token: Token) -> tuple[str, datetime]:
    """The key of a link that signs in once in the name of this token, and until when. Raises AccessDenied."""
    require(token, "submit")
    key = secrets.token_urlsafe(32)
    async with deployment.database.connection() as connection:
        return key, await access.insert_sign_in(connection, hash_of(key), token.token_id, LINK_SECONDS)


async def by_link(deployment: Deployment, key: str) -> Token:
    """Use such a link up. Raises AccessDenied."""
    async with deployment.database.connection() as connection:
        token_id = await access.use_sign_in(connection, hash_of(key))
    token = None if token_id is None else await deployment.access.token_of_number(token_id)
    if token is None:
        raise AccessDenied(
            "this link was used already, or is too old", hint="`minions open` makes a new one, and opens it."
        )
    return require(token, "submit")


async def by_token(deployment: Deployment, secret: str) -> Token:
    """The token with this secret, if it may use the web interface. Raises AccessDenied."""
    token = await deployment.access.token(f"Bearer {secret.strip()}")
    return require(token, "submit")
