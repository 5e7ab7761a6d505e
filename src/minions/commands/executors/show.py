"""minions executors show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from minions.commands import options

_MODELS_SHOWN = 20

if TYPE_CHECKING:
    from minions.wire.tasks import ExecutorView


def command(
    executor: options.ExecutorReference,
    json: options.Json = False,
    quiet: options.Quiet = False,
    server: options.Server = None,
    token_file: options.TokenFile = None,
) -> None:
    """Show one executor: its state with the reason and since when, what it holds, what it can run."""
    from minions.commands.executors.finding import find
    from minions.commands.output import print_facts, print_json, to_stdout
    from minions.commands.silence import say_if_unwatched

    client = options.client(server, token_file)
    view = find(client, executor)
    if json:
        print_json(view.model_dump(mode="json"))
    elif quiet:
        to_stdout(view.id)
    else:
        print_facts(_facts(view))
        say_if_unwatched(client, [view])


def _facts(view: ExecutorView) -> list[tuple[str, Any]]:
    from minions.commands.output import age, now, state_cell
    from minions.commands.silence import why

    moment = now()
    facts: list[tuple[str, Any]] = [
        ("executor", [(view.name, "bold"), f"  {view.id}"]),
        ("owner", view.owner or "–"),
        ("state", [state_cell(view.state), f"  for {age(view.since, moment).removesuffix(' ago')}"]),
        ("why", why(view, moment) or "–"),
        *[("not given", (reason, "yellow")) for reason in view.idle],
        ("holds", f"{view.holds} subtasks" + (f" of {', '.join(view.current)}" if view.current else "")),
        ("speed", f"{view.rows_last_minute:,} rows in the last minute, {view.parts:,} parts in all"),
        ("runs", f"{', '.join(view.kinds)} on {', '.join(view.engines)}"),
        ("teams", "all" if view.teams is None else ", ".join(view.teams) or "none of yours"),
        ("memory", f"{view.memory_mb:,} MB for a model" if view.memory_mb else "unknown"),
    ]
    return [
        *facts,
        *_device_facts(view.device),
        ("prefers", ", ".join(view.preferences) or "any task"),
        ("version", view.version),
        ("seen", f"{age(view.last_seen_at, moment)}; registered {age(view.registered_at, moment)}"),
    ]


def _device_facts(device: dict[str, Any]) -> list[tuple[str, Any]]:
    """What the machine says of itself: a line for each engine and model, one for all the rest."""
    from minions.commands.output import bytes_text

    plain = {name: value for name, value in device.items() if not isinstance(value, dict | list)}
    facts: list[tuple[str, Any]] = [("device", "  ".join(f"{name}={value}" for name, value in plain.items()) or "–")]
    engines, models = device.get("engines"), device.get("models")
    if isinstance(engines, dict):
        versions = cast("dict[str, object]", engines)
        facts += [("engine", f"{name}: {version}") for name, version in versions.items()]
    for model in cast("list[object]", models)[:_MODELS_SHOWN] if isinstance(models, list) else []:
        match model:
            case {"model": str(name), "size_bytes": int(size_bytes)}:
                facts.append(("model", f"{name}  {bytes_text(size_bytes)}"))
            case _:
                pass  # what an executor says of its machine is free in form
    return facts
