"""Asking the server: what goes wrong on the way is told apart, with real connections where they can be had."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Generator
from contextlib import suppress

import httpx
import pytest

from minions.executor.doctor.contact import Fault, ahead_seconds, fault_of, read_contact, read_scope
from tests.unit.scripted_server import Reply, ScriptedServer, problem, scripted_server

DATE = "Fri, 20 Nov 2026 10:00:00 GMT"
AT = 1795168800.0


def _raised(inner: BaseException) -> httpx.ConnectError:
    """As httpx wraps what the system says."""
    error = httpx.ConnectError("All connection attempts failed")
    error.__cause__ = ConnectionError("wrapped")
    error.__cause__.__context__ = inner
    return error


@pytest.mark.parametrize(
    ("error", "system", "fault"),
    [
        (_raised(OSError(65, "No route to host")), "darwin", Fault.LOCAL_NETWORK),
        (_raised(OSError(65, "Package not installed")), "linux", Fault.BROKEN_OFF),
        (_raised(OSError(errno.EHOSTUNREACH, "No route to host")), "linux", Fault.NO_ROUTE),
        (_raised(OSError(errno.ENETUNREACH, "Network is unreachable")), "darwin", Fault.NO_ROUTE),
        (_raised(socket.gaierror(8, "nodename nor servname provided")), "darwin", Fault.NO_NAME),
        (httpx.ReadTimeout("slow"), "linux", Fault.TIMEOUT),
        (httpx.RemoteProtocolError("closed"), "linux", Fault.BROKEN_OFF),
    ],
)
def test_faults_are_told_by_what_the_system_said(error: Exception, system: str, fault: Fault) -> None:
    assert fault_of(error, system) is fault


def test_errors_that_were_raised_from_each_other_in_a_ring_end() -> None:
    first, second = ConnectionError("a"), ConnectionError("b")
    first.__context__, second.__context__ = second, first
    assert fault_of(first, "linux") is Fault.BROKEN_OFF


def test_the_clock_is_compared_in_the_middle_of_the_call() -> None:
    assert ahead_seconds(DATE, AT, AT + 1) == pytest.approx(0)
    assert ahead_seconds(DATE, AT + 100, AT + 101) == pytest.approx(100)
    assert ahead_seconds(DATE, AT - 61, AT - 60) == pytest.approx(-61)
    assert ahead_seconds("yesterday", AT, AT) is None


@pytest.fixture
def server() -> Generator[ScriptedServer]:
    with scripted_server() as running:
        yield running


def test_an_answer_is_kept(server: ScriptedServer) -> None:
    told = {"version": "0.1.0", "label": "x", "accepts_files": True}
    server.on("GET", "/api/v1/server", Reply(200, told), problem(403, "access_denied", "unknown"))
    found = read_contact(server.url, "secret", "linux")
    assert (found.fault, found.status, found.document["version"]) == (None, 200, "0.1.0")
    assert found.ahead_seconds is not None
    assert abs(found.ahead_seconds) < 60
    assert server.requests[0].headers["authorization"] == "Bearer secret"
    assert read_contact(server.url, "", "linux").document["detail"] == "unknown"
    assert "authorization" not in server.requests[1].headers


@pytest.mark.parametrize(
    ("register", "tokens", "found"),
    [
        (problem(422, "validation_failed", "7 errors"), problem(403, "access_denied", "no"), (True, False)),
        (problem(422, "validation_failed", "7 errors"), Reply(200, {"data": []}), (True, True)),
        (problem(403, "access_denied", "it has the scope submit"), Reply(500, b""), (False, False)),
        (problem(503, "unavailable", "away"), Reply(500, b""), (None, False)),
    ],
)
def test_the_scope_is_what_the_token_may_do(
    server: ScriptedServer, register: Reply, tokens: Reply, found: tuple[bool | None, bool]
) -> None:
    server.on("POST", "/api/v1/executor/register", register)
    server.on("GET", "/api/v1/tokens", tokens)
    scope = read_scope(server.url, "secret")
    assert (scope.is_for_executors, scope.is_for_all) == found
    assert ("scope submit" in scope.refusal) == (found[0] is False)


def test_real_faults() -> None:
    assert read_contact("http://127.0.0.1:9", "", "linux").fault is Fault.REFUSED
    assert read_contact("http://no-such-host.invalid", "", "linux").fault is Fault.NO_NAME
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def answer_in_plain() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                with suppress(ConnectionError):
                    while connection.recv(4096):  # what is closed unread is reset, and the answer is lost with it
                        pass

        thread = threading.Thread(target=answer_in_plain)
        thread.start()
        assert read_contact(f"https://127.0.0.1:{port}", "", "linux").fault is Fault.TLS
        thread.join()
