"""minions server."""

from __future__ import annotations

import errno
import logging
import os
import socket
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from minions.commands import services

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from minions.server.settings import ServerSettings


def command(
    database_url: services.DatabaseUrl,
    objects: Annotated[
        str,
        typer.Option(
            "--objects",
            metavar="PLACE",
            envvar="MINIONS_OBJECTS",
            help="Where objects lie: s3://BUCKET/PREFIX, or a folder for a deployment on one machine.",
            show_default=False,
        ),
    ],
    host: Annotated[
        str, typer.Option("--host", envvar="MINIONS_HOST", help="Listen on this address. 0.0.0.0 is all of them.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", envvar="MINIONS_PORT", min=0, max=65535)] = 7878,
    label: Annotated[
        Literal["production", "development"],
        typer.Option("--label", envvar="MINIONS_LABEL", help="What the database is for; it keeps the first answer."),
    ] = "production",
    s3_endpoint: Annotated[
        str | None,
        typer.Option(
            "--s3-endpoint", metavar="URL", envvar="MINIONS_S3_ENDPOINT", help="An S3 server that is not Amazon's."
        ),
    ] = None,
    s3_region: Annotated[str | None, typer.Option("--s3-region", metavar="NAME", envvar="MINIONS_S3_REGION")] = None,
    lease: Annotated[float, services.lease_option("An executor that is silent for so long loses its subtasks.")] = 90.0,
    progress: Annotated[
        float,
        typer.Option(
            "--progress",
            metavar="SECONDS",
            envvar="MINIONS_PROGRESS",
            min=0.1,
            help="A busy executor reports so often.",
        ),
    ] = 15.0,
    heartbeat: Annotated[float, services.heartbeat_option("Every executor does, too.")] = 300.0,
    upload_days: Annotated[
        float,
        typer.Option(
            "--upload-days",
            metavar="DAYS",
            envvar="MINIONS_UPLOAD_DAYS",
            min=1,
            help="How long an uploaded file is kept that no task names.",
        ),
    ] = 7.0,
    accept_files: Annotated[
        bool,
        typer.Option(
            "--accept-files",
            envvar="MINIONS_ACCEPT_FILES",
            help="Tasks may name files of this machine: only where users may read all that the server can.",
        ),
    ] = False,
    closed: Annotated[
        list[str] | None,
        typer.Option("--closed", hidden=True, help="No task may name a file in this folder, but for objects."),
    ] = None,
    metrics_open: Annotated[
        bool,
        typer.Option(
            "--metrics-open",
            envvar="MINIONS_METRICS_OPEN",
            help="/metrics answers without a token: only where nobody else reaches this server.",
        ),
    ] = False,
    trusted_proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            envvar="MINIONS_TRUSTED_PROXIES",
            help="Believe the X-Forwarded-For of this address or network, like 10.0.0.0/8, to tell clients apart. "
            "Repeatable.",
            show_default=False,
        ),
    ] = None,
    admin_token: Annotated[str | None, typer.Option(envvar="MINIONS_ADMIN_TOKEN", hidden=True)] = None,
    executor_token: Annotated[str | None, typer.Option(envvar="MINIONS_EXECUTOR_TOKEN", hidden=True)] = None,
    log_json: services.LogJson = False,
    listen_fd: Annotated[
        int | None, typer.Option("--listen-fd", hidden=True, help="Serve this inherited socket.")
    ] = None,
    parent_fd: services.ParentFd = None,
) -> None:
    """Run a Minion Server.

    SIGTERM or Ctrl-C ends it. S3 credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or
    the machine's role.
    MINIONS_ADMIN_TOKEN and MINIONS_EXECUTOR_TOKEN, if set, make these tokens exist; one that was revoked is not made
    again. A start that finds no administrator's token, and is given none, makes one and shows it.
    """
    services.begin(parent_fd, log_json)
    # While these load, a supervisor that passes the database's address by stdin starts the database.
    with services.needing("server"):
        from minions.server.main import serve
        from minions.server.settings import ServerSettings

    settings = ServerSettings(
        database_url=services.given_database_url(database_url),
        objects=objects,
        host=host,
        port=port,
        label=label,
        s3_endpoint=s3_endpoint,
        s3_region=s3_region,
        lease_seconds=lease,
        progress_seconds=progress,
        heartbeat_seconds=heartbeat,
        upload_days=upload_days,
        accepts_files=accept_files,
        closed=tuple(closed or ()),
        metrics_open=metrics_open,
        trusted_proxies=tuple(trusted_proxies or ()),
        admin_token=admin_token,
        executor_token=executor_token,
    )
    _check(settings)
    log.info("starts with the database %s and objects in %s", services.place_of(settings.database_url), objects)
    with socket.socket(fileno=listen_fd) if listen_fd is not None else listen(host, port) as listening:
        services.run_service(lambda: serve(settings, listening), database_url=settings.database_url, uvloop=True)


def listen(host: str, port: int) -> socket.socket:
    """Bind before anything else happens: a port that is taken must not cost a migration. Raises MinionsError."""
    from minions.domain.errors import MinionsError

    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        family, address = found[0], found[4]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        reason = str(error.strerror) if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        raise MinionsError(
            f"{host}:{port} cannot be listened on: {reason.lower()}",
            hint="Pass another --port, or stop what uses this one." if taken else "Pass another --host.",
        ) from None


def _check(settings: ServerSettings) -> None:
    from minions.objects.open import open_objects

    if problems := settings.problems():
        named = next(each for each in ("lease", "label", "trusted-proxy") if each.replace("-", " ") in problems[0])
        raise services.invalid(f"--{named}", problems[0])
    try:
        open_objects(settings.objects)
    except ValueError as error:
        raise services.invalid("--objects", str(error)) from None
