"""A server for each test, and a git repository whose commits are run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.integration.commands.project import CommandRig, Project
from tests.integration.executor.conftest import migrated_url
from tests.integration.executor.deployment import rig

__all__ = ["migrated_url"]


@pytest.fixture
async def project(tmp_path: Path) -> Project:
    """A repository with one commit."""
    return await asyncio.to_thread(Project, tmp_path / "project")


@pytest.fixture
async def commands(migrated_url: str, tmp_path: Path, project: Project) -> AsyncGenerator[CommandRig]:
    """A running server that knows the project."""
    async with rig(migrated_url, tmp_path, lease_seconds=2) as running:
        yield CommandRig(running, project, tmp_path)
