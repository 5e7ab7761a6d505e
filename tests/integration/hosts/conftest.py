"""A host on loopback, and connections to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from minions.hosts.connection import Connection
from minions.hosts.inventory import Host
from tests.services.sshd import SshHost, cable, mini

__all__ = ["cable", "mini"]


@pytest.fixture
def host(mini: SshHost) -> Host:
    return Host("mini", ssh="mini", slots=2)


@pytest.fixture
async def connection(host: Host, mini: SshHost) -> AsyncGenerator[Connection]:
    async with Connection.open(host, options=mini.options) as connection:
        yield connection


@pytest.fixture
def place(mini: SshHost, request: pytest.FixtureRequest) -> Path:
    """A directory on the host for one test, which the host makes when it is used."""
    return mini.home / request.node.name
