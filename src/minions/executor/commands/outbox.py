"""The outbox: outputs that are finished and that the server does not have yet. It outlives the executor."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from minions.executor.commands.messages import Json, Session


@dataclass(frozen=True, slots=True)
class Kept:
    """A finished job. commit: what is said to the server once the output is uploaded."""

    acquirement: str
    commit: Json
    session: Session


class Outbox:
    """One directory: for each finished job its output, and what is to be said of it. Nothing is synced: a process that
    dies loses nothing, and a machine that does computes its last outputs again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def output(self, acquirement: str) -> Path:
        """Where the output lies, or is to be put."""
        return self._directory / f"{acquirement}.output"

    def keep(self, session: Session, commit: Json) -> Kept:
        """The output lies there: from now on it is finished. Blocks."""
        kept = Kept(commit["acquirement"], commit, session)
        said = {"commit": commit, "executor": session.executor, "session": session.session}
        unfinished = self._directory / f"{kept.acquirement}.new"
        unfinished.write_text(json.dumps(said), "utf-8")
        os.replace(unfinished, self._said(kept.acquirement))
        return kept

    def drop(self, acquirement: str) -> None:
        """It was delivered, or nobody wants it any more. Blocks."""
        self._said(acquirement).unlink(missing_ok=True)
        self.output(acquirement).unlink(missing_ok=True)

    def found(self) -> list[Kept]:
        """What an earlier executor finished and did not deliver; what it did not finish is removed. Blocks."""
        found: list[Kept] = []
        for path in sorted(self._directory.iterdir()):
            if path.suffix == ".json":
                try:
                    said = cast("dict[str, Any]", json.loads(path.read_text("utf-8")))
                    found.append(Kept(path.stem, said["commit"], Session(said["executor"], said["session"])))
                except (ValueError, KeyError, TypeError):
                    path.unlink()
        whole = {each.acquirement for each in found}
        for path in self._directory.iterdir():
            if path.stem not in whole:
                path.unlink()
        return found

    def _said(self, acquirement: str) -> Path:
        return self._directory / f"{acquirement}.json"
