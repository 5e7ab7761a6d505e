"""minions executor doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from minions.commands import options, services
from minions.commands.executor import speaking

if TYPE_CHECKING:
    from minions.executor.doctor.findings import Finding
    from minions.executor.doctor.subject import Subject

_STYLES = {"ok": "green", "wrong": "red", "unsure": "yellow"}


def command(
    server: options.Server = None,
    token_file: options.TokenFile = None,
    owner_file: speaking.OwnerFile = None,
    state: speaking.State = None,
    cache: speaking.Cache = None,
    json: speaking.Json = False,
) -> None:
    """Look at everything that an executor needs on this machine, and say what is wrong and the way out.

    Looks at the executor that is installed here, or as the flags say. Exit code 1 when something is wrong.
    """
    from minions.commands.output import print_json

    with services.needing("executor"):
        from minions.executor.doctor.examine import examine
        from minions.executor.doctor.findings import Verdict

    subject = _subject(server, token_file, owner_file, state, cache)
    found: list[Finding] = []
    for finding in examine(subject):
        found.append(finding)
        if not json:
            _print(finding)
    is_well = all(finding.verdict is not Verdict.WRONG for finding in found)
    if json:
        checks = [
            {"check": each.check, "verdict": each.verdict.value, "says": each.says, "way_out": each.way_out}
            for each in found
        ]
        print_json({"ok": is_well, "checks": checks})
    if not is_well:
        raise typer.Exit(1)


def _subject(
    server: str | None, token_file: Path | None, owner_file: Path | None, state: Path | None, cache: Path | None
) -> Subject:
    """What is looked at: the installed executor, with the flags and the environment on top."""
    import os
    import sys

    from minions.executor.doctor.subject import Subject
    from minions.executor.service import service_file

    installed = speaking.installed_flags()
    known = dict(installed)
    places = speaking.places(installed, state, cache, speaking.owner_file_here(owner_file, state))
    is_named = bool(server or token_file or os.environ.get("MINIONS_SERVER") or os.environ.get("MINIONS_TOKEN"))
    kept = Path(known["--token-file"]) if "--token-file" in known and not is_named else None
    try:
        contact = options.settings(server or (known.get("--server") if not is_named else None), token_file or kept)
    except services.ValidationFailed:
        if kept is None:
            raise
        contact = options.settings(known.get("--server"), None)  # that its file cannot be read is found by its check
    return Subject(
        server=contact.server,
        token=contact.token,
        state=places.state,
        cache=places.cache,
        owner_file=places.owner_file,
        token_file=token_file or kept,
        service_file=service_file(sys.platform, Path.home()),
        system=sys.platform,
        memory_mb=int(known["--memory-mb"]) if known.get("--memory-mb", "").isdecimal() else None,
    )


def _print(finding: Finding) -> None:
    from minions.commands.output import print_sentence

    mark = (finding.verdict.mark, _STYLES[finding.verdict.value])
    print_sentence(mark, f" {finding.check:<10}", finding.says, indent=12)
    if finding.way_out:
        print_sentence(" " * 12 + "→ ", finding.way_out, style="dim", indent=14)
