"""The executor as a service of the user: a LaunchAgent on macOS, a systemd user unit on Linux."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from minions.executor.service_files import LABEL, UNIT, session_of


def service_file(system: str, home: Path) -> Path | None:
    """Where the service is described; None on a system that has neither."""
    if system == "darwin":
        return home / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    if system == "linux":
        configured = os.environ.get("XDG_CONFIG_HOME")
        return (Path(configured) if configured else home / ".config") / "systemd" / "user" / UNIT
    return None


def start_command(system: str) -> list[str] | None:
    """What starts the service that is installed; None when none is."""
    file = service_file(system, Path.home())
    if file is None or not file.exists():
        return None
    if system == "darwin":
        session = "gui" if session_of(file.read_text("utf-8")) == "Aqua" else "user"
        return ["/bin/launchctl", "kickstart", f"{session}/{os.getuid()}/{LABEL}"]
    return [shutil.which("systemctl") or "systemctl", "--user", "start", UNIT]
