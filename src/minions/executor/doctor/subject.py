"""The subject: the executor and the machine that are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from minions.domain.owner_policy import DEDICATED, OwnerPolicy
from minions.executor.owner_file import OwnerFileInvalid, read_owner_file
from minions.executor.settings import ExecutorSettings


@dataclass(frozen=True, slots=True)
class Subject:
    """token_file: where the token comes from, if from a file. service_file: where it would be installed; None on a
    system without services. system: sys.platform. memory_mb: of its flags. device: where engines are told to run."""

    server: str
    token: str = field(repr=False)
    state: Path
    cache: Path
    owner_file: Path
    token_file: Path | None = None
    service_file: Path | None = None
    system: str = "linux"
    memory_mb: int | None = None
    device: str | None = None

    @property
    def is_installed(self) -> bool:
        return self.service_file is not None and self.service_file.exists()

    @property
    def policy(self) -> OwnerPolicy:
        """What its owner's file says. Without one, an executor takes the machine for one that nobody sits at; one that
        is not valid is found by its own check."""
        try:
            return read_owner_file(self.owner_file)
        except FileNotFoundError:
            return DEDICATED
        except OwnerFileInvalid:
            return OwnerPolicy()

    def settings(self, ollama_url: str | None) -> ExecutorSettings:
        """As an executor would run with."""
        return ExecutorSettings(
            server=self.server,
            token=self.token,
            name="doctor",
            state=self.state,
            cache=self.cache,
            memory_mb=self.memory_mb,
            device=self.device,
            ollama_url=ollama_url,
        )
