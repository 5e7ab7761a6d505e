"""A server's settings: what does not fit together."""

from __future__ import annotations

import pytest

from minions.server.settings import ServerSettings


@pytest.mark.parametrize("proxy", ["10.0.0.5", "10.0.0.0/8", "fd00::/8"])
def test_a_proxy_is_an_address_or_a_network(proxy: str) -> None:
    assert ServerSettings("postgresql:///x", "objects", trusted_proxies=(proxy,)).problems() == []


@pytest.mark.parametrize("proxy", ["*", "proxy.example.org", "10.0.0.5/8", ""])
def test_a_proxy_that_is_neither_is_named(proxy: str) -> None:
    (problem,) = ServerSettings("postgresql:///x", "objects", trusted_proxies=("10.0.0.5", proxy)).problems()
    assert problem == f"the trusted proxy {proxy!r} is neither an address nor a network like 10.0.0.0/8"
