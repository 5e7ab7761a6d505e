"""Uploads, executors, tokens, and what the server says of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fastapi import APIRouter

from minions.domain.errors import FieldError, NotFound, ValidationFailed
from minions.domain.names import number_of, public_id
from minions.objects.keys import upload_key
from minions.runtime.version import VERSION
from minions.server.actions import manage_tokens
from minions.server.actions.explain_matching import explain_idle
from minions.server.actions.team_models import models_of
from minions.server.actions.view_task import view_executor
from minions.server.api.api_route import ApiRoute
from minions.server.api.callers import Administrator, Anybody, NeedsToken, Submitter
from minions.server.api.ids import AfterExecutor, ExecutorId, TokenId, place_after
from minions.server.api.paging import Limit, cut, ends
from minions.server.deployment import Deployment
from minions.store import access, executors
from minions.wire.tasks import (
    ExecutorPage,
    ExecutorView,
    ServerView,
    TokenPage,
    TokenRequest,
    TokenView,
    UploadAnswer,
    UploadRequest,
)


def _check_size(size_bytes: int, most_bytes: int | None) -> None:
    if most_bytes is not None and size_bytes > most_bytes:
        told = (
            f"{size_bytes:,} bytes; the object store takes {most_bytes:,} at once. Split the file, compress it, or put "
            "it there yourself and name it as s3://…; objects kept in files have no such limit"
        )
        raise ValidationFailed([FieldError("size_bytes", "too_large", told)])


def other_routes(deployment: Deployment) -> APIRouter:  # noqa: PLR0915 -- a router: one small function a route
    """Routes beside those of tasks and of executors themselves."""
    router = APIRouter(route_class=ApiRoute, dependencies=[NeedsToken])
    database = deployment.database

    @router.get("/api/v1/server", tags=["server"])
    async def server(token: Anybody) -> ServerView:
        """What the server says of itself."""
        settings = deployment.settings
        return ServerView(
            version=VERSION,
            label=settings.label,
            accepts_files=settings.accepts_files and token.teams is None,
            watchdog=deployment.watched.as_told,
        )

    @router.post("/api/v1/uploads", status_code=201, tags=["uploads"])
    async def upload(request: UploadRequest, token: Submitter) -> UploadAnswer:
        """Announce a file; PUT its bytes to the link."""
        _check_size(request.size_bytes, deployment.objects.most_link_bytes)
        seconds = deployment.settings.link_seconds
        sha256 = bytes.fromhex(request.sha256) if request.sha256 else None
        async with database.transaction() as connection:
            number = await access.insert_upload(
                connection,
                filename=request.filename,
                size_bytes=request.size_bytes,
                key="",
                token_id=token.token_id,
                sha256=sha256,
            )
            key = upload_key(public_id("upl", number), request.filename)
            await access.name_upload(connection, number, key)
        return UploadAnswer(
            upload=public_id("upl", number),
            link=await deployment.objects.sign_write(key, seconds),
            expires_at=datetime.now(UTC) + timedelta(seconds=seconds),
        )

    @router.get("/api/v1/executors", tags=["executors"])
    async def list_executors(token: Submitter, after: AfterExecutor = None, limit: Limit = 100) -> ExecutorPage:
        """Executors, those offline too."""
        async with database.connection() as connection:
            found = await executors.list_executors(connection, after=place_after("exe", after) or 0, limit=limit + 1)
            models = await models_of(connection, token.teams)
        page, more = cut([view_executor(each, token.teams, models) for each in found], limit)
        return ExecutorPage(data=page, **ends([each.id for each in page], more))

    @router.get("/api/v1/executors/{executor}", tags=["executors"])
    async def show_executor(token: Submitter, executor: ExecutorId) -> ExecutorView:
        """One executor, with why it is given nothing although something waits."""
        async with database.connection() as connection:
            found = await executors.list_executors(connection, executor_id=number_of("exe", executor), limit=1)
            if not found:
                raise NotFound(f"there is no executor {executor}", hint="`minions executors ls` lists them.")
            idle = await explain_idle(connection, found[0].executor_id, token.teams)
            models = await models_of(connection, token.teams)
        return view_executor(found[0], token.teams, models, idle)

    @router.post("/api/v1/tokens", status_code=201, tags=["tokens"])
    async def create_token(request: TokenRequest, token: Administrator) -> TokenView:
        """Make a token; its secret is shown in this answer and never again."""
        return await manage_tokens.create_token(deployment, token, request)

    @router.get("/api/v1/tokens", tags=["tokens"])
    async def list_tokens(token: Administrator) -> TokenPage:
        """Tokens, without their secrets."""
        data = await manage_tokens.list_tokens(deployment, token)
        return TokenPage(data=data, **ends([each.id for each in data], False))

    @router.delete("/api/v1/tokens/{token_id}", status_code=204, tags=["tokens"])
    async def revoke_token(token_id: TokenId, token: Administrator) -> None:
        """Revoke a token; it stops working within seconds."""
        await manage_tokens.revoke_token(deployment, token, token_id)

    return router
