"""A host that has uv, which may fetch nothing: neither from a registry, nor a Python."""

from __future__ import annotations

import shutil
from dataclasses import replace

from uv import find_uv_bin

from minions.hosts.inventory import Host
from tests.services.sshd import SshHost

ALONE = {"UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never"}


def with_uv(host: Host, mini: SshHost) -> Host:
    place = mini.directory / "tools"
    place.mkdir(exist_ok=True)
    shutil.copy2(find_uv_bin(), place / "uv")
    return replace(host, path=(str(place),), environment=tuple(ALONE.items()))
