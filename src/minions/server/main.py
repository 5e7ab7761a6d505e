"""Running a server process until it is told to stop."""

from __future__ import annotations

import logging
import socket
import sys

import uvicorn

from minions.server.app import build_app
from minions.server.deployment import Deployment, ensure_tokens, open_deployment
from minions.server.settings import ServerSettings

log = logging.getLogger(__name__)

_GRACE_SECONDS = 3


class _Server(uvicorn.Server):
    """A server whose long polls do not hold up its end."""

    def __init__(self, config: uvicorn.Config, deployment: Deployment) -> None:
        super().__init__(config)
        self._deployment = deployment

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._deployment.doorbell.close()
        await super().shutdown(sockets)


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
        await server.serve(sockets=[listening] if listening is not None else None)
