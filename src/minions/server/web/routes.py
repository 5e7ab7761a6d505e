"""Routes of the web interface."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route

from minions.server.background.splitter import Splitter
from minions.server.deployment import Deployment
from minions.server.web.changes import Changes
from minions.server.web.errors import add_error_pages
from minions.server.web.events import events
from minions.server.web.headers import SafeHeaders
from minions.server.web.pages import executors, new_task, overview, settings, sign_in, task, tasks
from minions.server.web.visit import Web, page

_PAGES = (sign_in, overview, tasks, new_task, task, executors, settings)


def add_web(app: Starlette, deployment: Deployment, splitter: Splitter) -> Web:
    """Give the application its pages, its static files and its headers."""
    web = Web(deployment, splitter, Changes(deployment.database, deployment.doorbell, deployment.watched))
    app.state.web = web
    routes: list[BaseRoute] = [
        Route("/static/{version}/{path:path}", web.static.serve, methods=["GET"]),
        page("/events", events),
        *(route for each in _PAGES for route in each.routes()),
    ]
    app.router.routes.extend(routes)
    app.add_middleware(SafeHeaders)
    add_error_pages(app)
    return web
