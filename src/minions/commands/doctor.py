"""minions doctor: the same as `minions executor doctor`."""

from __future__ import annotations

from minions.commands.executor.doctor import command

__all__ = ["command"]
