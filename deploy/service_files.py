"""Writes the services of an executor as `minions executor install` makes them: `python -m deploy.service_files`.

They are here to be read, and for those who roll executors out by their own means: put the paths of your machines in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from minions.executor.service_files import LABEL, UNIT, Service, launch_agent, systemd_unit


def service(home: str, state: str, cache: str, configuration: str) -> Service:
    """An executor of NAME, who installed Minions with `uv tool install` or `pipx install`."""
    flags = (
        ("--server", "https://minions.example.org"),
        ("--token-file", f"{home}/{state}/executor/token"),
        ("--name", "mac-mini"),
        ("--owner", "NAME"),
        ("--owner-file", f"{home}/{configuration}/owner.toml"),
        ("--state", f"{home}/{state}/executor"),
        ("--cache", f"{home}/{cache}"),
    )
    return Service((f"{home}/.local/bin/minions",), flags, Path(f"{home}/{state}/executor/service.log"))


def rendered() -> dict[str, str]:
    """Every file, by its place below deploy/."""
    support = "Library/Application Support/minions"
    mac = service("/Users/NAME", support, "Library/Caches/minions", support)
    linux = service("/home/NAME", ".local/state/minions", ".cache/minions", ".config/minions")
    return {f"launchd/{LABEL}.plist": launch_agent(mac), f"systemd/{UNIT}": systemd_unit(linux)}


def main(folder: Path) -> None:
    for name, text in rendered().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
