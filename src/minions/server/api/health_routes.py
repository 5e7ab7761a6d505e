"""What supervisors, load balancers and Prometheus ask: is it alive, is it ready, what has it done."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from minions.domain.silence import NO_WATCHDOG, NO_WATCHDOG_ADVICE
from minions.server.access import require, require_all_teams_of
from minions.server.api.callers import NeedsToken
from minions.server.api.document import refusals
from minions.server.deployment import Deployment
from minions.server.metrics import CONTENT_TYPE, Metrics
from minions.server.readiness import Readiness
from minions.wire.problems import MEDIA_TYPE, Problem, ProblemField

_RETRY_AFTER_SECONDS = 1


def health_routes(deployment: Deployment) -> APIRouter:
    """/healthz, /readyz and /metrics."""
    router = APIRouter(tags=["server"])
    readiness = Readiness(deployment)
    metrics = Metrics(deployment.database, deployment.counters, deployment.supervisor, deployment.watched, readiness)

    @router.get("/healthz", response_class=PlainTextResponse)
    async def healthz() -> str:
        """Whether the process answers: `ok`; a second line says that no watchdog runs, which no restart here mends."""
        return f"ok\n{NO_WATCHDOG}. {NO_WATCHDOG_ADVICE}\n" if deployment.watched.is_missing else "ok"

    @router.get(
        "/readyz",
        response_class=PlainTextResponse,
        responses=refusals(503, description="What is missing."),
    )
    async def readyz(request: Request) -> Response:
        """Whether the database answers and is of this version, the object store takes objects, and all loops run.
        A load balancer asks /healthz: much works without the object store, and all servers lack it together."""
        missing = await readiness.missing()
        if not missing:
            return PlainTextResponse("ok")
        problem = Problem(
            title="This server is not ready",
            status=503,
            detail="; ".join(each.message for each in missing),
            code="unavailable",
            hint="Each entry of errors names a part that is missing; executors and clients try again by themselves.",
            request_id=request.scope.get("request_id", ""),
            errors=[ProblemField(field=each.field, code=each.code, message=each.message) for each in missing],
        )
        headers = {"Retry-After": str(_RETRY_AFTER_SECONDS)}
        return Response(problem.model_dump_json(), problem.status, headers, MEDIA_TYPE)

    @router.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses={200: {"description": "Metrics in Prometheus' text format."}},
        dependencies=[] if deployment.settings.metrics_open else [NeedsToken],
    )
    async def scrape(request: Request) -> Response:
        """Metrics for Prometheus, for tokens of the scope metrics; also while the database is away."""
        if not deployment.settings.metrics_open:
            token = await deployment.access.token_lately(request.headers.get("authorization"))
            require_all_teams_of(require(token, "metrics"), "reads no metrics, which tell of all teams")
        return Response(await metrics.text(), media_type=CONTENT_TYPE)

    return router
