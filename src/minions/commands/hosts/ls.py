"""minions hosts ls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minions.commands import options

if TYPE_CHECKING:
    from minions.hosts.status import Status


def command(json: options.Json = False, quiet: options.Quiet = False) -> None:
    """List the hosts of minions.toml, with what was wished for them and, while a run goes on, how they are."""
    from minions.commands.output import Column, print_json, print_table, to_stdout
    from minions.commands.project import here
    from minions.hosts.project_file import read_hosts
    from minions.hosts.run_directory import HostWish
    from minions.hosts.status import read_status

    directory = here()
    wishes = directory.wishes()
    status = read_status(directory.status) if directory.coordinator() is not None else None
    rows: list[dict[str, Any]] = []
    for host in read_hosts(directory.root):
        wish = wishes.get(host.name, HostWish())
        rows.append(
            {
                "name": host.name,
                "ssh": host.ssh,
                "slots": host.slots if wish.slots is None else wish.slots,
                "slots_by_hand": wish.slots is not None,
                "paused": wish.paused,
                "draining": wish.draining,
                **_now(status, host.name),
            }
        )
    if json:
        print_json({"data": rows})
    elif quiet:
        for row in rows:
            to_stdout(row["name"])
    else:
        columns = [
            *(Column("NAME"), Column("WHERE"), Column("SLOTS", "right"), Column("RUNNING", "right")),
            *(Column("DONE", "right"), Column("STATE"), Column("WHY", flexible=True)),
        ]
        print_table(columns, [_cells(row) for row in rows])


def _now(status: Status | None, name: str) -> dict[str, Any]:
    found = next((host for host in status.hosts if host.name == name), None) if status is not None else None
    if found is None:
        return {"state": None, "reason": "", "running": 0, "done": 0}
    return {"state": found.state, "reason": found.reason, "running": found.running, "done": found.done}


def _cells(row: dict[str, Any]) -> list[str]:
    wished = "draining" if row["draining"] else "paused" if row["paused"] else "–"
    where = f"ssh {row['ssh']}" if row["ssh"] else "this machine"
    slots = f"{row['slots']} (by hand)" if row["slots_by_hand"] else str(row["slots"])
    numbers = [slots, str(row["running"]), str(row["done"])]
    return [row["name"], where, *numbers, row["state"] or wished, row["reason"] or "–"]
