"""A private S3 server (SeaweedFS) for a test session, with generated keys."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import httpx
import obstore
import pytest
from obstore.store import S3Store

from tests.services.directories import held, of_killed_sessions
from tests.services.ports import free_ports

_PREFIX = "minions-test-s3-"
_START_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class S3Service:
    """Where the server is and how to get in; `bucket` exists, and `environment` is what a process needs."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)
    bucket: str
    region: str = "us-east-1"

    @property
    def environment(self) -> dict[str, str]:
        """The AWS_* variables for this server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
        }


def _command(directory: Path, configuration: Path, s3_port: int) -> list[str]:
    weed = Path(sysconfig.get_path("scripts")) / "weed"
    # Where there is a way to say so, a killed test session takes the server with it.
    setpriv = shutil.which("setpriv")
    dies_with_us = [setpriv, "--pdeathsig=KILL", "--"] if setpriv else []
    # Every port is named: those left out would be fixed numbers, which two sessions on one machine fight over.
    names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc"]
    ports = dict(zip([*names, "s3.port.grpc"], free_ports(len(names) + 1), strict=True))
    return [
        *dies_with_us,
        str(weed),
        "-logtostderr=true",
        "server",
        "-s3",
        "-filer",
        f"-dir={directory}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-s3.config={configuration}",
        f"-s3.port={s3_port}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.iam=false",
        "-s3.autoCreateBucket=false",
        "-volume.preStopSeconds=0",
        "-volume.max=50",
        "-master.volumeSizeLimitMB=64",
        "-master.telemetry=false",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]


def _configuration(access_key: str, secret_key: str) -> str:
    credentials = [{"accessKey": access_key, "secretKey": secret_key}]
    identity = {"name": "test", "credentials": credentials, "actions": ["Admin", "Read", "Write", "List", "Tagging"]}
    return json.dumps({"identities": [identity]})


def _wait_until_it_answers(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the S3 server ended while starting: {log.read_text(errors='replace')[-2000:]}")
        with suppress(httpx.TransportError):
            if httpx.get(f"{endpoint}/healthz", timeout=5).status_code == 200:
                return
        if time.monotonic() > deadline:
            raise RuntimeError(f"the S3 server does not answer: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def _create_bucket(service: S3Service) -> None:
    """A signed PUT on the bucket itself: obstore has no call for it, but signs any path of a store."""
    place = S3Store(
        endpoint=service.endpoint,
        bucket=service.bucket,
        access_key_id=service.access_key,
        secret_access_key=service.secret_key,
        region=service.region,
        client_options={"allow_http": True},
    )
    link = obstore.sign(place, "PUT", "", timedelta(minutes=1))
    answer = httpx.put(link, timeout=_START_SECONDS)
    assert answer.status_code == 200, answer.text


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Service]:
    """The session's S3 server. It keeps nothing worth a clean stop, which would take 15 s: it is killed by its pid."""
    for left in of_killed_sessions(_PREFIX):
        shutil.rmtree(left, ignore_errors=True)
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with held(directory):
            yield from _serving(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _serving(directory: Path) -> Iterator[S3Service]:
    (s3_port,) = free_ports(1)
    service = S3Service(
        f"http://127.0.0.1:{s3_port}", secrets.token_hex(10).upper(), secrets.token_urlsafe(30), "minions-test"
    )
    configuration = directory / "s3.json"
    configuration.write_text(_configuration(service.access_key, service.secret_key))
    log = directory / "weed.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(directory, configuration, s3_port), cwd=directory, stdout=output, stderr=output
        )
    try:
        _wait_until_it_answers(service.endpoint, process, log)
        _create_bucket(service)
        yield service
    finally:
        process.kill()
        process.wait()
