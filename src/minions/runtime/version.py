"""The version of this installation."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("minions-cloud")
