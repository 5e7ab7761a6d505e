"""Where settings come from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minions.runtime.settings_files import DEFAULT_SERVER, SettingsUnreadable, read_settings


class Places:
    """Every place that a setting can come from, all in one temporary directory."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "work"
        self.data = root / "data"
        self.user = root / "config.toml"
        self.directory.mkdir()
        self.data.mkdir()
        self.environment = {"MINIONS_DATA": str(self.data), "MINIONS_CONFIG": str(self.user)}

    def connection(self, server: str, token: str) -> None:
        path = self.data / "connection.json"
        path.write_text(json.dumps({"server": server, "token": token}))
        path.chmod(0o600)

    def local(self, text: str) -> None:
        (self.directory / "minions.toml").write_text(text)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_nothing_set(places: Places) -> None:
    found = read_settings({}, places.environment, places.directory)
    assert (found.server, found.token, found.team, found.project) == (DEFAULT_SERVER, "", "default", "default")
    assert found.origins["server"].source == "default"


def test_the_nearest_place_wins(places: Places) -> None:
    order: list[tuple[str, str]] = []
    places.connection("http://embedded:1", "token-e")
    order.append(("http://embedded:1", str(places.data / "connection.json")))
    places.user.write_text('server = "http://user:1"')
    order.append(("http://user:1", str(places.user)))
    places.local('server = "http://local:1"\n[executor]\nanything = 1')
    order.append(("http://local:1", "./minions.toml"))
    environment = places.environment | {"MINIONS_SERVER": "http://environment:1/"}
    found = read_settings({"server": "http://flag:1"}, environment, places.directory)
    assert (found.server, found.origins["server"].source) == ("http://flag:1", "flag")
    found = read_settings({"server": None}, environment, places.directory)
    assert (found.server, found.origins["server"].source) == ("http://environment:1", "MINIONS_SERVER")
    for expected, remove in zip(
        reversed(order),
        (places.directory / "minions.toml", places.user, places.data / "connection.json"),
        strict=True,
    ):
        found = read_settings({}, places.environment, places.directory)
        assert (found.server, found.origins["server"].source) == expected
        remove.unlink()


def test_the_embedded_deployments_token_goes_to_it_alone(places: Places) -> None:
    places.connection("http://127.0.0.1:7878", "embedded-token")
    found = read_settings({}, places.environment, places.directory)
    assert found.token == "embedded-token"
    places.local('server = "https://elsewhere.example"')
    found = read_settings({}, places.environment, places.directory)
    assert found.token == ""
    assert "belongs to http://127.0.0.1:7878" in found.origins["token"].note


def test_a_token_from_the_environment_goes_where_the_server_is_named(places: Places) -> None:
    places.local('server = "https://elsewhere.example"')
    found = read_settings({}, places.environment | {"MINIONS_TOKEN": "t"}, places.directory)
    assert (found.token, found.origins["token"].source) == ("t", "MINIONS_TOKEN")


def test_a_readable_token_is_noticed(places: Places) -> None:
    places.connection("http://127.0.0.1:7878", "embedded-token")
    (places.data / "connection.json").chmod(0o644)
    assert "chmod 600" in read_settings({}, places.environment, places.directory).origins["token"].note


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sever = 'http://a'", "'sever' is no setting; known are server"),
        ("server = 7878", "server must be text"),
        ("server = ", "cannot be read"),
        ("server = 'ftp://a'", "no address"),
        ("server = '127.0.0.1:7878'", "no address"),
        ("server = 'http://a:x'", "no address"),
    ],
)
def test_mistakes_are_named(places: Places, text: str, said: str) -> None:
    places.local(text)
    with pytest.raises(SettingsUnreadable) as caught:
        read_settings({}, places.environment, places.directory)
    assert said in caught.value.message
    assert "minions.toml" in caught.value.message
