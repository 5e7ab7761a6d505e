"""How long requests take, by the template of their route: a path for each task would be a series for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Scope

from minions.server.counters import Counters, Latencies

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE = "none"


class RequestTimes:
    """Adds the time of every answer to the counters."""

    def __init__(self, counters: Counters, router: Router) -> None:
        self._counters = counters
        self._router = router
        self._templates: dict[Any, str] = {}
        self._seen: dict[tuple[str, Any, int], Latencies] = {}

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """An answer began. Short ways find no endpoint: their paths hold no variable, and are looked up as they are."""
        key = (scope["method"], scope.get("endpoint") or scope["path"], status)
        (self._seen.get(key) or self._find(scope, status)).add(seconds)

    def _find(self, scope: Scope, status: int) -> Latencies:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = self._template(scope)
        found = self._counters.latencies(method, route, status)
        if route != _NO_ROUTE and method != "other":  # what anybody can make up is not remembered
            self._seen[scope["method"], scope.get("endpoint") or scope["path"], status] = found
        return found

    def _template(self, scope: Scope) -> str:
        if not self._templates:  # not when the application is built: routes may be added to it afterwards
            self._templates |= templates(self._router.routes)
        endpoint = scope.get("endpoint")
        known = self._templates.get(endpoint or scope["path"])
        if known is None and endpoint is not None and (path := getattr(scope.get("route"), "path", None)):
            # A route of an included router, whose own path lacks the router's prefix.
            pieces = scope["path"].split("/")
            known = "/".join(pieces[: len(pieces) - path.count("/")]) + path
        return known or _NO_ROUTE


def templates(routes: Sequence[BaseRoute], prefix: str = "") -> dict[Any, str]:
    """The template of each endpoint, and of each path without a variable."""
    found: dict[Any, str] = {}
    for route in routes:
        match route:
            case Mount():
                found[route.app] = prefix + route.path
                found |= templates(route.routes, prefix + route.path)
            case Route():
                found[route.endpoint] = found[prefix + route.path] = prefix + route.path
            case _:
                pass
    return found
