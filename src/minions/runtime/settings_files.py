"""Where a client's settings come from: flag, environment, ./minions.toml, the user's file, the embedded deployment."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

import platformdirs

from minions.domain.errors import MinionsError

DEFAULT_SERVER = "http://127.0.0.1:7878"
KEYS: Final = ("server", "token", "team", "project")
_DEFAULTS: Final = {"server": DEFAULT_SERVER, "token": "", "team": "default", "project": "default"}


class SettingsUnreadable(MinionsError):
    """A settings file or value cannot be read."""

    code = "settings_unreadable"


@dataclass(frozen=True, slots=True)
class Setting:
    """One value and where it came from. note: what a person should know about it."""

    value: str
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a client needs to know. `token` empty: none is sent."""

    server: str
    token: str
    team: str
    project: str
    origins: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class _Layer:
    """The values of one place. bound: its token is meant for its own server, and goes to no other."""

    source: str
    values: Mapping[str, str]
    bound: bool = False
    note: str = ""


def data_directory(environment: Mapping[str, str]) -> Path:
    """Where the embedded deployment keeps its data: MINIONS_DATA, else the user's data directory."""
    given = environment.get("MINIONS_DATA")
    return Path(given).expanduser() if given else Path(platformdirs.user_data_dir("minions"))


def user_file(environment: Mapping[str, str]) -> Path:
    """The user's settings file; MINIONS_CONFIG names another."""
    given = environment.get("MINIONS_CONFIG")
    return Path(given).expanduser() if given else Path(platformdirs.user_config_dir("minions")) / "config.toml"


def read_settings(
    flags: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> ClientSettings:
    """Look every setting up, the nearest place first.

    flags: values given on the command line or to the constructor; None or absent means not given.
    Raises SettingsUnreadable, whose message names the file and the key.
    """
    environment = os.environ if environment is None else environment
    directory = directory or Path.cwd()
    layers = [
        _Layer("flag", {key: value for key, value in (flags or {}).items() if value}),
        *_environment_layers(environment),
        _toml_layer(directory / "minions.toml", "./minions.toml"),
        _toml_layer(user_file(environment), str(user_file(environment))),
        _connection_layer(data_directory(environment) / "connection.json"),
        _Layer("default", _DEFAULTS),
    ]
    return resolve(layers)


def resolve(layers: list[_Layer]) -> ClientSettings:
    """The first layer that has a value gives it; a token that stands beside a server goes only to that server."""
    origins: dict[str, Setting] = {}
    for key in ("server", "team", "project"):
        layer = next(layer for layer in layers if layer.values.get(key))
        origins[key] = Setting(layer.values[key], layer.source, layer.note)
    server = _checked_server(origins["server"])
    origins["server"] = Setting(server, origins["server"].source)
    origins["token"] = Setting("", "default", "none is sent")
    for layer in layers:
        token = layer.values.get("token")
        if not token:
            continue
        home = layer.values.get("server", "").rstrip("/")
        if layer.bound and home and home != server:
            origins["token"] = Setting("", "default", f"the one in {layer.source} belongs to {home} and is not sent")
            continue
        origins["token"] = Setting(token, layer.source, layer.note)
        break
    return ClientSettings(
        server=server,
        token=origins["token"].value,
        team=origins["team"].value,
        project=origins["project"].value,
        origins=origins,
    )


def _environment_layers(environment: Mapping[str, str]) -> list[_Layer]:
    return [
        _Layer(name, {key: environment[name]})
        for key, name in ((key, f"MINIONS_{key.upper()}") for key in KEYS)
        if environment.get(name)
    ]


def _toml_layer(path: Path, source: str) -> _Layer:
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return _Layer(source, {})
    except (OSError, ValueError) as error:
        raise SettingsUnreadable(f"{path} cannot be read: {error}") from None
    values: dict[str, str] = {}
    for key, value in document.items():
        if isinstance(value, dict):
            continue  # tables belong to the server, the executor and the watchdog
        if key not in KEYS:
            raise SettingsUnreadable(f"{path}: {key!r} is no setting; known are {', '.join(KEYS)}")
        if not isinstance(value, str):
            raise SettingsUnreadable(f"{path}: {key} must be text, in quotes")
        values[key] = value
    return _Layer(source, values, bound=True, note=_exposure(path) if "token" in values else "")


def _connection_layer(path: Path) -> _Layer:
    """connection.json of the embedded deployment: {"server": url, "token": secret}."""
    try:
        document: Any = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return _Layer(str(path), {})
    except (OSError, ValueError) as error:
        raise SettingsUnreadable(f"{path} cannot be read: {error}", hint="Start `minions up` again.") from None
    if not isinstance(document, dict):
        raise SettingsUnreadable(f"{path} holds no JSON object", hint="Start `minions up` again.")
    found = cast("dict[str, Any]", document)
    values = {key: str(found[key]) for key in ("server", "token") if found.get(key)}
    return _Layer(str(path), values, bound=True, note=_exposure(path))


def _exposure(path: Path) -> str:
    """What is wrong with the mode of a file that holds a token."""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"others can read it: chmod 600 {path}" if mode & 0o077 else ""


def _checked_server(setting: Setting) -> str:
    url = setting.value.rstrip("/")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise SettingsUnreadable(
            f"server (from {setting.source}): {setting.value!r} is no address; write one like {DEFAULT_SERVER}"
        )
    return url
