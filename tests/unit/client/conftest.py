"""A scripted server, and clients of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minions.client import Client
from tests.unit.scripted_server import ScriptedServer, scripted_server


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with scripted_server() as server:
        yield server


@pytest.fixture
def client(script: ScriptedServer) -> Iterator[Client]:
    with Client(script.url, "secret") as client:
        yield client
