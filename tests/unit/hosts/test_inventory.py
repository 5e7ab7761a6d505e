"""`[hosts.NAME]` of minions.toml: what is read, and how each error names its key and line."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minions.hosts.inventory import Host, parse_hosts

GOOD = """
[run]
command = ["true"]

[hosts.local]
slots = 4

[hosts.mini]
ssh = "me@compute-mini"
slots = 8
python = "~/py/bin/python3"
path = ["/opt/tools/bin"]
setup = ["make", "deps"]
state = "/data/minions/"
environment = { B = "2", A = "1" }
silence = "20s"
keep = 3
"""


def parsed(text: str) -> tuple[list[Host], list[str]]:
    hosts, errors = parse_hosts(tomllib.loads(text).get("hosts"), text)
    return hosts, [error.message for error in errors]


def test_what_a_file_says() -> None:
    hosts, errors = parsed(GOOD)
    assert errors == []
    assert hosts == [
        Host("local", slots=4),
        Host(
            "mini",
            ssh="me@compute-mini",
            slots=8,
            python="~/py/bin/python3",
            path=("/opt/tools/bin",),
            setup=("make", "deps"),
            state="/data/minions",
            environment=(("A", "1"), ("B", "2")),
            silence_seconds=20.0,
            keep=3,
        ),
    ]
    assert [host.is_local for host in hosts] == [True, False]


def test_without_hosts_it_is_this_machine() -> None:
    assert parsed("") == ([Host("local")], [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[hosts.mini]\nssh = "mini"\nslots = 0\n', "line 3: hosts.mini.slots: must be a whole number from 1 to 1024"),
        ('[hosts.mini]\nssh = "mini"\nslots = true\n', "line 3: hosts.mini.slots: must be a whole number"),
        ('[hosts.mini]\nssh = "-oProxyCommand=x"\n', "line 2: hosts.mini.ssh: '-oProxyCommand=x' is no destination"),
        ('[hosts.mini]\nssh = "a b"\n', "line 2: hosts.mini.ssh: 'a b' is no destination"),
        ("[hosts.mini]\nslots = 2\n", 'line 1: hosts.mini needs ssh = "NAME"'),
        ('[hosts.mini]\nssh = "mini"\nslot = 1\n', "line 3: hosts.mini.slot is no key; known are ssh, slots, python"),
        ('[hosts.local]\nsetup = "make"\n', "line 2: hosts.local.setup: must be a command as a list of words"),
        ("[hosts.local]\nsetup = []\n", "line 2: hosts.local.setup: must be a command"),
        ('[hosts.local]\npython = "python3"\n', "line 2: hosts.local.python: must be a path on the host"),
        ('[hosts.local]\nenvironment = { "A-B" = "1" }\n', "line 2: hosts.local.environment: 'A-B' is no name"),
        ("[hosts.local]\nenvironment = { A = 1 }\n", "line 2: hosts.local.environment: A must be text"),
        ('[hosts.mini]\nssh = "mini"\nkeep = 0\n', "line 3: hosts.mini.keep: must be a whole number from 1 to 1000"),
        ('[hosts.mini]\nssh = "mini"\nsilence = 1\n', "line 3: hosts.mini.silence: must be from 3s to 120s"),
        ('[hosts."Mini Mac"]\nssh = "mini"\n', "line 1: hosts.Mini Mac: a host is named by 1 to 63 characters"),
        ('[hosts]\nmini = "compute-mini"\n', "hosts.mini must be a table [hosts.mini]"),
        ("hosts = 3\n", "line 1: hosts must be tables [hosts.NAME]"),
        ("[hosts]\n", "hosts: name at least one"),
    ],
)
def test_each_error_names_its_line_and_key(text: str, said: str) -> None:
    _, errors = parsed(text)
    assert any(error.startswith(said) for error in errors), errors


def test_the_line_is_of_the_right_table() -> None:
    text = '[hosts.a]\nssh = "a"\nslots = 1\n\n[ hosts . b ] # another\nssh = "b"\n"slots" = -1\n'
    assert parsed(text)[1] == ["line 7: hosts.b.slots: must be a whole number from 1 to 1024"]


def test_all_errors_are_told_at_once() -> None:
    assert len(parsed('[hosts.a]\nslots = 0\n[hosts.b]\nssh = ""\ncolour = "red"\n')[1]) == 4


@given(
    st.dictionaries(
        st.sampled_from(["ssh", "slots", "python", "path", "setup", "state", "environment", "silence", "keep", "x"]),
        st.none() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.integers()),
    )
)
def test_no_value_is_met_with_a_crash(table: dict[str, object]) -> None:
    hosts, errors = parse_hosts({"mini": table})
    if not errors:
        assert hosts[0].ssh
        assert not hosts[0].ssh.startswith("-")
