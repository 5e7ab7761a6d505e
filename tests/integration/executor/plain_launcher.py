"""A launcher on a system that gives nobody the orphans of others."""

from __future__ import annotations

from minions.executor.supervisor import launcher


def _cannot() -> bool:
    return False


def main() -> None:
    setattr(launcher, "become_subreaper", _cannot)  # noqa: B010 - the name is imported there, not declared
    launcher.main()
