"""Running a server process until it is told to stop."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI

from minions.server.app import build_app
from minions.server.deployment import Deployment, open_deployment
from minions.server.first_tokens import ensure_tokens
from minions.server.settings import ServerSettings

log = logging.getLogger(__name__)

_GRACE_SECONDS = 3
_COLLECT_AFTER = (10_000, 20, 20)


class _Server(uvicorn.Server):
    """A server whose long polls do not hold up its end."""

    def __init__(self, config: uvicorn.Config, deployment: Deployment) -> None:
        super().__init__(config)
        self._deployment = deployment

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            names = [_address(each.getsockname()) for server in self.servers for each in server.sockets]
            log.info("ready: it listens on %s", " and ".join(names))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._deployment.doorbell.close()
        await super().shutdown(sockets)


def _address(name: Any) -> str:
    """What a socket is bound to, as one would open it."""
    host, port = name[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _leave_the_lasting_alone() -> None:
    """Take what lives as long as the process (code, routes, schemas) out of the garbage collector's sight.

    Walking all of it held up every call for some 50 ms, several times a second under load.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def listening_config(app: FastAPI, settings: ServerSettings) -> uvicorn.Config:
    """How the application is served."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_keep_alive=75,
        server_header=False,
        # Without being told, uvicorn would believe whoever connects from this machine, tunnels of executors included.
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
    )


async def serve(settings: ServerSettings, listening: socket.socket | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises Unavailable when the database or the object store is not there.

    listening: a socket that is bound already; otherwise the settings' host and port are bound.
    """
    async with open_deployment(settings) as deployment:
        fresh = await ensure_tokens(deployment)
        if fresh is not None:
            said = "There was no administrator's token. This one was made, and is shown only now:"
            sys.stderr.write(f"{said}\n\n    {fresh}\n\n")
        server = _Server(listening_config(build_app(deployment), settings), deployment)
        _leave_the_lasting_alone()
        await server.serve(sockets=[listening] if listening is not None else None)
