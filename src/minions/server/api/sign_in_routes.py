"""Links that sign a browser in once, made for whoever holds a token already."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import APIRouter

from minions.server.actions.sign_in import make_link
from minions.server.api.api_route import ApiRoute
from minions.server.api.callers import NeedsToken, Submitter
from minions.server.deployment import Deployment
from minions.wire.sign_in import SignInAnswer, SignInRequest


def sign_in_routes(deployment: Deployment) -> APIRouter:
    """Routes under /api/v1/sign-in-links."""
    router = APIRouter(prefix="/api/v1/sign-in-links", tags=["server"], route_class=ApiRoute, dependencies=[NeedsToken])

    @router.post("", status_code=201)
    async def create_sign_in_link(request: SignInRequest, token: Submitter) -> SignInAnswer:
        """Make a link that signs a browser in once, in the name of this token."""
        key, expires_at = await make_link(deployment, token)
        query = {"key": key} | ({"next": request.path} if request.path != "/" else {})
        return SignInAnswer(path=f"/sign-in/once?{urlencode(query)}", expires_at=expires_at)

    return router
