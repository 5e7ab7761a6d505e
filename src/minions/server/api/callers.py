"""Who calls: the token of a request, by the scope that a route needs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from minions.server.access import require
from minions.server.deployment import Deployment
from minions.store.access import Token

# For the OpenAPI document only: that a route needs a token. Access reads the header, and says what is wrong with it.
_documented = HTTPBearer(
    scheme_name="token", description="A token that `minions tokens create` made.", auto_error=False
)


def deployment_of(request: Request) -> Deployment:
    """The deployment that the application serves."""
    return request.app.state.deployment


async def _submitter(request: Request) -> Token:
    return require(await deployment_of(request).access.token(request.headers.get("authorization")), "submit")


async def _anybody(request: Request) -> Token:
    return await deployment_of(request).access.token(request.headers.get("authorization"))


async def _administrator(request: Request) -> Token:
    return require(await deployment_of(request).access.token(request.headers.get("authorization")))


NeedsToken = Security(_documented)
"""A dependency of routers: all their routes need a token."""

Submitter = Annotated[Token, Depends(_submitter)]
Anybody = Annotated[Token, Depends(_anybody)]
Administrator = Annotated[Token, Depends(_administrator)]
