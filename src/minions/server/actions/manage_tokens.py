"""Making, listing and revoking access tokens."""

from __future__ import annotations

from minions.domain.errors import NotFound
from minions.domain.names import number_of, public_id
from minions.server.access import check_teams, hash_of, new_secret, require, require_all_teams
from minions.server.deployment import Deployment
from minions.store import access
from minions.store.access import Token, TokenStanding
from minions.wire.tasks import TokenRequest, TokenView

_DAY_SECONDS = 86400.0


async def create_token(
    deployment: Deployment, token: Token, request: TokenRequest, secret: str | None = None
) -> TokenView:
    """Make a token; its secret is in this answer and never told again. Raises AccessDenied, ValidationFailed.

    secret: to be used instead of one that is drawn here.
    """
    require_all_teams(require(token))
    check_teams(request)
    secret = secret or new_secret()
    async with deployment.database.connection() as connection:
        made = await access.insert_token(
            connection,
            name=request.name,
            scope=request.scope,
            teams=request.teams,
            secret_sha256=hash_of(secret),
            expires_seconds=None if request.expires_days is None else request.expires_days * _DAY_SECONDS,
        )
    assert made is not None  # 256 random bits do not repeat
    return view_token(made).model_copy(update={"secret": secret})


async def name_of_secret(deployment: Deployment, token: Token, secret: str) -> str | None:
    """The name of the token with this secret, None where there is none; using it is not what this is. Raises
    AccessDenied."""
    require_all_teams(require(token))
    async with deployment.database.connection() as connection:
        found = await access.find_token(connection, hash_of(secret))
    return None if found is None else found.name


async def list_tokens(deployment: Deployment, token: Token) -> list[TokenView]:
    """Tokens that are not revoked, without their secrets. Raises AccessDenied."""
    require_all_teams(require(token))
    async with deployment.database.connection() as connection:
        return [view_token(each) for each in await access.list_tokens(connection)]


async def revoke_token(deployment: Deployment, token: Token, token_id: str) -> None:
    """Revoke a token; it stops working here at once, and within seconds elsewhere. Raises AccessDenied, NotFound."""
    require_all_teams(require(token))
    number = number_of("tok", token_id)
    async with deployment.database.connection() as connection:
        if not await access.revoke_token(connection, number):
            raise NotFound(f"there is no token {token_id}", hint="`minions tokens ls` lists them.")
    deployment.access.forget(number)


def view_token(standing: TokenStanding) -> TokenView:
    """A token as people and programs see it."""
    return TokenView.model_validate(
        {
            "id": public_id("tok", standing.token.token_id),
            "name": standing.token.name,
            "scope": standing.token.scope,
            "teams": None if standing.token.teams is None else list(standing.token.teams),
            "created_at": standing.created_at,
            "expires_at": standing.expires_at,
            "last_used_at": standing.last_used_at,
        }
    )
