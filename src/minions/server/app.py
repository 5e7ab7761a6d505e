"""The application: routes, and the background loops that live as long as it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI

from minions.runtime.version import VERSION
from minions.server.api.executor_routes import executor_routes
from minions.server.api.object_routes import object_routes
from minions.server.api.other_routes import other_routes
from minions.server.api.problems import RequestIds, add_problem_handlers
from minions.server.api.task_routes import task_routes
from minions.server.background.finisher import Finisher
from minions.server.background.splitter import Splitter
from minions.server.background.upkeep import keep_up
from minions.server.deployment import Deployment


def build_app(deployment: Deployment) -> FastAPI:
    """The application for an open deployment."""
    splitter = Splitter(deployment)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with background(deployment, splitter):
            yield

    app = FastAPI(
        title="Minions", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url="/openapi.json"
    )
    app.state.deployment = deployment
    app.router.routes.extend(executor_routes(deployment))
    app.router.routes.extend(object_routes(deployment))
    app.include_router(other_routes(deployment))
    app.include_router(task_routes(deployment, splitter))
    app.add_middleware(RequestIds)
    add_problem_handlers(app)
    return app


@asynccontextmanager
async def background(deployment: Deployment, splitter: Splitter) -> AsyncGenerator[None]:
    """Run the background loops until the block ends."""
    finisher = Finisher(deployment)

    async def loops() -> None:
        async with asyncio.TaskGroup() as group:
            for name, loop in (
                ("doorbell", deployment.doorbell.run),
                ("acquiring", deployment.acquiring.run),
                ("committing", deployment.committing.run),
                ("splitter", splitter.run),
                ("finisher", finisher.run),
                ("upkeep", lambda: keep_up(deployment)),
            ):
                group.create_task(deployment.supervisor.keep(name, loop), name=name)

    running = asyncio.create_task(loops())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
