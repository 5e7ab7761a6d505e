"""Running a server process until it is told to stop."""

from __future__ import annotations

import gc
import logging
import socket
import sys

import uvicorn

from minions.server.app import build_app
from minions.server.deployment import Deployment, ensure_tokens, open_deployment
from minions.server.settings import ServerSettings

log = logging.getLogger(__name__)

_GRACE_SECONDS = 3
_COLLECT_AFTER = (10_000, 20, 20)


class _Server(uvicorn.Server):
    """A server whose long polls do not hold up its end."""

    def __init__(self, config: uvicorn.Config, deployment: Deployment) -> None:
        super().__init__(config)
        self._deployment = deployment

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._deployment.doorbell.close()
        await super().shutdown(sockets)


def _leave_the_lasting_alone() -> None:
    """Take what lives as long as the process (code, routes, schemas) out of the garbage collector's sight.

    Walking all of it held up every call for some 50 ms, several times a second under load.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


async def serve(settings: ServerSettings, listening: socket.socket | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises Unavailable when the database or the object store is not there.

    listening: a socket that is bound already; otherwise the settings' host and port are bound.
    """
    async with open_deployment(settings) as deployment:
        fresh = await ensure_tokens(deployment)
        if fresh is not None:
            sys.stderr.write(f"First start. The administrator's token, shown only now:\n\n    {fresh}\n\n")
        config = uvicorn.Config(
            build_app(deployment),
            host=settings.host,
            port=settings.port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            timeout_keep_alive=75,
            server_header=False,
        )
        server = _Server(config, deployment)
        _leave_the_lasting_alone()
        await server.serve(sockets=[listening] if listening is not None else None)
