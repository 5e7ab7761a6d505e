"""The application: routes, and the background loops that live as long as it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from minions.runtime.version import VERSION
from minions.server.api.body_limits import BodyLimit
from minions.server.api.document import DESCRIPTION, complete
from minions.server.api.event_routes import event_routes
from minions.server.api.executor_routes import executor_routes
from minions.server.api.health_routes import health_routes
from minions.server.api.job_routes import job_routes
from minions.server.api.object_routes import object_routes
from minions.server.api.other_routes import other_routes
from minions.server.api.problems import Answered, RequestIds, add_problem_handlers
from minions.server.api.request_times import RequestTimes
from minions.server.api.sign_in_routes import sign_in_routes
from minions.server.api.task_routes import task_routes
from minions.server.background.finisher import Finisher
from minions.server.background.pruner import prune_on
from minions.server.background.splitter import Splitter
from minions.server.background.upkeep import keep_up
from minions.server.deployment import Deployment
from minions.server.web.changes import Changes
from minions.server.web.routes import add_web
from minions.store.pulse import feel_pulse

Endpoint = Callable[[Request], Awaitable[Response]]
_Handler = Callable[[Request, Exception], Awaitable[Response]]


class App(FastAPI):
    """FastAPI, with a short way for the calls of executors, of which its layers took a fifth of the time.

    short_ways: POST endpoints by path. They answer the same as by the long way, errors included.
    """

    short_ways: Mapping[str, Endpoint]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in self.short_ways:
            await self._with_id(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The document, with what all routes have in common."""
        if self.openapi_schema is None:
            complete(super().openapi())
        return super().openapi()

    def shorten(self, ways: Mapping[str, Endpoint], answered: Answered) -> None:
        self.short_ways = ways
        self._with_id = RequestIds(BodyLimit(self._answer, self.refuse), answered)

    async def refuse(self, request: Request, error: Exception) -> Response:
        """The answer to an error that a request met, wherever that was."""
        handlers = cast("Mapping[type, _Handler]", self.exception_handlers)
        return await next(handlers[kind] for kind in type(error).__mro__ if kind in handlers)(request, error)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            response = await self.short_ways[scope["path"]](request)
        except Exception as error:
            response = await self.refuse(request, error)
        await response(scope, receive, send)


def build_app(deployment: Deployment) -> FastAPI:
    """The application for an open deployment."""
    splitter = Splitter(deployment)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with background(deployment, splitter, web.changes):
            yield

    app = App(
        title="Minions",
        description=DESCRIPTION,
        version=VERSION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.deployment = deployment
    routes = executor_routes(deployment)
    app.router.routes.extend(routes)
    answered = RequestTimes(deployment.counters, app.router).note
    app.shorten({route.path: route.endpoint for route in routes}, answered)
    app.router.routes.extend(object_routes(deployment))
    app.include_router(health_routes(deployment))
    app.include_router(other_routes(deployment))
    app.include_router(task_routes(deployment, splitter))
    app.include_router(job_routes(deployment))
    app.include_router(sign_in_routes(deployment))
    app.add_middleware(BodyLimit, refuse=app.refuse)
    app.add_middleware(RequestIds, answered=answered)
    add_problem_handlers(app)
    web = add_web(app, deployment, splitter)
    app.include_router(event_routes(deployment, web.changes))
    return app


@asynccontextmanager
async def background(deployment: Deployment, splitter: Splitter, changes: Changes) -> AsyncGenerator[None]:
    """Run the background loops until the block ends."""
    finisher = Finisher(deployment)

    async def loops() -> None:
        async with asyncio.TaskGroup() as group:
            for name, loop in (
                ("pulse", lambda: feel_pulse(deployment.database)),
                ("doorbell", deployment.doorbell.run),
                ("acquiring", deployment.acquiring.run),
                ("committing", deployment.committing.run),
                ("splitter", splitter.run),
                ("finisher", finisher.run),
                ("upkeep", lambda: keep_up(deployment)),
                ("pruner", lambda: prune_on(deployment)),
                ("changes", changes.run),
            ):
                group.create_task(deployment.supervisor.keep(name, loop), name=name)

    running = asyncio.create_task(loops())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
