"""Who calls: the token of a request, by the scope that a route needs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from minions.server.access import require
from minions.server.deployment import Deployment
from minions.store.access import Token


def deployment_of(request: Request) -> Deployment:
    """The deployment that the application serves."""
    return request.app.state.deployment


async def _submitter(request: Request) -> Token:
    return require(await deployment_of(request).access.token(request.headers.get("authorization")), "submit")


async def _anybody(request: Request) -> Token:
    return await deployment_of(request).access.token(request.headers.get("authorization"))


async def _administrator(request: Request) -> Token:
    return require(await deployment_of(request).access.token(request.headers.get("authorization")))


Submitter = Annotated[Token, Depends(_submitter)]
Anybody = Annotated[Token, Depends(_anybody)]
Administrator = Annotated[Token, Depends(_administrator)]
