"""minions config show."""

from __future__ import annotations

from minions.commands import options


def command(json: options.Json = False, server: options.Server = None, token_file: options.TokenFile = None) -> None:
    """Show each setting and where it came from; the token is masked."""
    from minions.commands.output import Column, print_json, print_table

    found = options.settings(server, token_file)
    shown = {
        name: (mask(setting.value) if name == "token" else setting.value, setting.source, setting.note)
        for name, setting in found.origins.items()
    }
    if json:
        print_json({name: dict(zip(("value", "source", "note"), entry, strict=True)) for name, entry in shown.items()})
        return
    print_table(
        [Column("SETTING"), Column("VALUE"), Column("FROM", flexible=True), Column("NOTE", flexible=True)],
        [[name, (value or "–", "bold"), source, (note, "yellow")] for name, (value, source, note) in shown.items()],
    )


def mask(token: str) -> str:
    """Enough of a token to tell two apart; nothing of a short one."""
    if not token:
        return ""
    return f"{token[:4]}…{token[-2:]}" if len(token) >= 20 else "…"
