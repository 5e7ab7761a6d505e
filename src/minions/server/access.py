"""Access: who holds which token, and what it reaches."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from minions.domain.errors import AccessDenied, FieldError, NotFound, TokenRefused, Unavailable, ValidationFailed
from minions.domain.names import NAME, NAME_RULE
from minions.domain.phrases import quoted
from minions.domain.task import Task
from minions.store import access as table
from minions.store.access import Token
from minions.store.database import Connection, Database
from minions.wire.tasks import TokenRequest

_REMEMBERED_SECONDS = 10.0
_BRIEFLY_SECONDS = 1.0
_LATELY_SECONDS = 24 * 3600.0
SECRET_PREFIX = "mns_"


def new_secret() -> str:
    """A secret for a token: 256 random bits, with a prefix that secret scanners can look for."""
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def hash_of(secret: str) -> bytes:
    """What is stored in place of the secret; it is random, so a plain hash is enough."""
    return hashlib.sha256(secret.encode()).digest()


def _hash_in(authorization: str | None) -> bytes:
    """The hash of the secret in an Authorization header. Raises TokenRefused."""
    scheme, _, secret = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise TokenRefused("this needs a token, in the header Authorization: Bearer …")
    return hash_of(secret.strip())


class Access:
    """Checks tokens; one that was seen is remembered for a few seconds."""

    def __init__(self, database: Database, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._known: dict[bytes, tuple[Token, float]] = {}
        self._sessions: dict[int, tuple[Token, float]] = {}
        self._used: set[int] = set()

    async def token(self, authorization: str | None) -> Token:
        """The token of an Authorization header. Raises TokenRefused."""
        hashed = _hash_in(authorization)
        return self._remembered(hashed) or await self._look(hashed, self._database.connection())

    async def token_lately(self, authorization: str | None) -> Token:
        """The same for what must be told while the database is away: a token that it accepted within the last day.

        Once a token was accepted here, the database is not waited for. Raises TokenRefused.
        """
        hashed = _hash_in(authorization)
        known = self._known.get(hashed)
        if known is None:
            return await self._look(hashed, self._database.connection())
        try:
            return self._remembered(hashed) or await self._look(hashed, self._database.briefly(_BRIEFLY_SECONDS))
        except Unavailable:
            if known[1] - _REMEMBERED_SECONDS + _LATELY_SECONDS < self._monotonic():
                raise
            return known[0]

    def _remembered(self, hashed: bytes) -> Token | None:
        known = self._known.get(hashed)
        if known is None or known[1] < self._monotonic():
            return None
        self._used.add(known[0].token_id)
        return known[0]

    async def _look(self, hashed: bytes, connecting: AbstractAsyncContextManager[Connection]) -> Token:
        async with connecting as connection:
            token = await table.find_token(connection, hashed)
        if token is None:
            self._known.pop(hashed, None)
            raise TokenRefused("this token is unknown, expired or revoked")
        self._known[hashed] = (token, self._monotonic() + _REMEMBERED_SECONDS)
        self._used.add(token.token_id)
        return token

    async def token_of_number(self, token_id: int) -> Token | None:
        """The token that a browser's session names; None once it is revoked or has expired."""
        known = self._sessions.get(token_id)
        if known is None or known[1] < self._monotonic():
            async with self._database.connection() as connection:
                token = await table.read_token(connection, token_id)
            if token is None:
                self._sessions.pop(token_id, None)
                return None
            known = (token, self._monotonic() + _REMEMBERED_SECONDS)
            self._sessions[token_id] = known
        self._used.add(token_id)
        return known[0]

    def forget(self, token_id: int) -> None:
        """This token was revoked here: its sessions end at once, and not when the memory of it does."""
        self._sessions.pop(token_id, None)
        self._known = {hashed: known for hashed, known in self._known.items() if known[0].token_id != token_id}

    async def write_uses(self) -> None:
        """Note in the database which tokens were used since the last call."""
        if self._used:
            used, self._used = self._used, set()
            async with self._database.connection() as connection:
                await table.note_tokens_used(connection, sorted(used))


def require(token: Token, *scopes: str) -> Token:
    """Raises AccessDenied unless the token has one of the scopes; admin reaches everything."""
    if token.scope != "admin" and token.scope not in scopes:
        raise AccessDenied(
            f"the token {token.name!r} has the scope {token.scope}; this needs {' or '.join(scopes) or 'admin'}",
            hint="`minions tokens create --scope …` makes another.",
        )
    return token


def reaches_as_much(token: Token, other: Token) -> bool:
    """Whether whoever has this token gains nothing by the other."""
    if token.token_id == other.token_id:
        return True
    scope = token.scope in ("admin", other.scope)
    teams = token.teams is None or (other.teams is not None and set(other.teams) <= set(token.teams))
    return scope and teams


def require_all_teams(token: Token) -> None:
    """Tokens are for those who reach every team: else an administrator of one team could make a key to the others."""
    require_all_teams_of(token, "manages no tokens")


def require_all_teams_of(token: Token, refusal: str) -> None:
    """Raises AccessDenied for a token of some teams only. refusal: what it therefore does not do."""
    if token.teams is not None:
        raise AccessDenied(f"the token {token.name!r} is limited to teams, and {refusal}", hint="")


def check_teams(request: TokenRequest) -> None:
    """Raises ValidationFailed for teams that are no names, and for an executor's token with teams."""
    errors = [
        FieldError(f"teams[{index}]", "bad_name", f"{quoted(team)} is not a name: {NAME_RULE}")
        for index, team in enumerate(request.teams or ())
        if not NAME.fullmatch(team)
    ]
    if request.scope == "executor" and request.teams is not None:
        errors.append(
            FieldError("teams", "not_for_executors", "an executor works for every team; leave the teams away")
        )
    if request.scope == "metrics" and request.teams is not None:
        errors.append(FieldError("teams", "not_for_metrics", "metrics tell of every team; leave the teams away"))
    if errors:
        raise ValidationFailed(errors)


def reachable(token: Token, task: Task) -> Task:
    """The task, if the token reaches its team; otherwise it is as if it were not there."""
    if token.teams is not None and task.name.team not in token.teams:
        raise NotFound(f"there is no task {task.id}")
    return task
