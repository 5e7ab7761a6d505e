"""`minions executors abandon`: who is meant, what is asked, what is said; and where people are told of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from minions.domain.stopping import ABANDON_EXECUTOR, ABANDON_HOST, held_back
from tests.unit.commands.conftest import Minions
from tests.unit.commands.test_commands import BY_NAME, EXECUTOR
from tests.unit.commands.test_terminal import Terminal
from tests.unit.scripted_server import Reply, ScriptedServer, problem, scripted_server, task_view

ONE: dict[str, Any] = EXECUTOR | {"state": "offline", "kinds": ["command"], "engines": ["command"], "holds": 2}
PATH = f"/api/v1/executors/{ONE['id']}"
NOT_ASKED = ("executors", "abandon", "anna-mbp-m3", "--yes")


def knows(script: ScriptedServer, answer: dict[str, int] | Reply, **fields: Any) -> None:
    script.on("GET", "/api/v1/executors", {"data": [ONE | fields], "has_more": False})
    script.on("GET", PATH, ONE | fields)
    script.on("POST", f"{PATH}/abandon", answer)


@pytest.mark.parametrize(
    ("fields", "given_back", "stopped", "said"),
    [
        ({}, 2, 0, "2 jobs of anna-mbp-m3 went back to the queue.\n"),
        ({}, 0, 0, "0 jobs of anna-mbp-m3 went back to the queue.\n"),
        ({}, 0, 1, "No job waits any more for 1 cancelled job of anna-mbp-m3.\n"),
        ({"kinds": ["embed"]}, 1, 0, "1 subtask of anna-mbp-m3 went back to the queue.\n"),
        (
            {},
            1,
            3,
            "1 job of anna-mbp-m3 went back to the queue.\n"
            "No job waits any more for 3 cancelled jobs of anna-mbp-m3.\n",
        ),
    ],
)
def test_it_says_what_became_of_its_work(
    minions: Minions, script: ScriptedServer, fields: dict[str, Any], given_back: int, stopped: int, said: str
) -> None:
    knows(script, {"given_back": given_back, "stopped": stopped}, **fields)
    done = minions(*NOT_ASKED)
    assert (done.code, done.out, done.err) == (0, "", said)


def test_programs_get_it_as_json_or_its_id(minions: Minions, script: ScriptedServer) -> None:
    knows(script, {"given_back": 2, "stopped": 1})
    named = {"executor": ONE["id"], "name": ONE["name"]}
    assert json.loads(minions(*NOT_ASKED, "--json").out) == named | {"given_back": 2, "stopped": 1}
    assert minions("executors", "abandon", ONE["id"], "-yq").out == f"{ONE['id']}\n"


def test_nothing_is_abandoned_that_is_not_named_for_certain(minions: Minions, script: ScriptedServer) -> None:
    twin = ONE | {"id": "exe_00000002"}
    script.on("GET", "/api/v1/executors", {"data": [ONE, twin], "has_more": False})
    two = minions(*NOT_ASKED)
    assert (two.code, "exe_00000001, exe_00000002" in two.err) == (2, True)
    assert minions("executors", "abandon", "nobody", "--yes").code == 4
    knows(script, {"given_back": 2, "stopped": 0})
    unasked = minions("executors", "abandon", ONE["name"])
    assert (unasked.code, "holds 2 jobs" in unasked.err, "give --yes" in unasked.err) == (2, True, True)
    assert not [request for request in script.requests if request.method == "POST"]


def test_who_may_not_is_told_so(minions: Minions, script: ScriptedServer) -> None:
    knows(script, problem(403, "access_denied", "the token 'ci' is limited to teams, and abandons no executor"))
    said = minions(*NOT_ASKED)
    assert (said.code, "abandons no executor" in said.err) == (3, True)


@pytest.mark.parametrize(("typed", "code", "times"), [("n\n", 1, 0), ("\n", 1, 0), ("y\n", 0, 1)])
def test_a_person_is_asked(tmp_path: Path, typed: str, code: int, times: int) -> None:
    with scripted_server() as script:
        knows(script, {"given_back": 2, "stopped": 0})
        terminal = Terminal(script, tmp_path, 100, "executors", "abandon", ONE["name"])
        terminal.read_until("Abandon it?")
        terminal.type(typed)
        assert terminal.end() == code
        assert len(script.asked("POST", f"{PATH}/abandon")) == times
    assert "runs twice" in " ".join(terminal.lines)


def test_the_way_out_is_one_that_can_be_typed() -> None:
    assert held_back(1, "mini", "14:02", ABANDON_HOST)[1].endswith("or after `minions hosts abandon mini`")
    told = held_back(2, "Anna's Mac", "14:02", ABANDON_EXECUTOR)[1]
    assert told.endswith("""or after `minions executors abandon 'Anna'"'"'s Mac'`""")


def test_a_task_of_a_server_names_the_verb_of_a_server(minions: Minions, script: ScriptedServer) -> None:
    waits = [{"executor": "mini", "last_seen_at": "2026-11-20T10:00:00Z", "jobs": 1}]
    script.on("GET", BY_NAME, task_view(held_back=waits))
    shown = minions("tasks", "show", "passages").out
    assert "it is handed out once mini has stopped it, or after `minions executors abandon mini`" in shown
