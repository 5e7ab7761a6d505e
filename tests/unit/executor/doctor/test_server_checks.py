"""What is made of the server's answers."""

from __future__ import annotations

import pytest

from minions.executor.doctor.contact import Contact, Fault, Scope
from minions.executor.doctor.findings import Verdict
from minions.executor.doctor.server_checks import judge_clock, judge_server, judge_token, judge_versions

SERVER = "https://minions.example.org"
WELL = Contact(status=200, document={"version": "1.4.2", "label": "x"}, ahead_seconds=0.3, round_trip_seconds=0.02)
AWAY = Contact(Fault.REFUSED, "connection refused")


@pytest.mark.parametrize(
    ("contact", "verdict", "says", "way_out"),
    [
        (WELL, Verdict.OK, "answers in 20 ms", ""),
        (Contact(status=403, document={"code": "access_denied"}), Verdict.OK, "answers", ""),
        (Contact(status=200, document={}), Verdict.WRONG, "no Minion Server", SERVER),
        (Contact(status=404, document={"detail": "Not Found"}), Verdict.WRONG, "answers 404", SERVER),
        (Contact(status=502), Verdict.WRONG, "answers 502", "/readyz"),
        (AWAY, Verdict.WRONG, "nothing listens there (connection refused)", "start the server"),
        (Contact(Fault.NO_NAME, "unknown"), Verdict.WRONG, "cannot be resolved", "DNS"),
        (Contact(Fault.TLS, "self-signed certificate"), Verdict.WRONG, "self-signed", "SSL_CERT_FILE"),
        (Contact(Fault.TIMEOUT), Verdict.WRONG, "does not answer in time", "firewall"),
        (Contact(Fault.NO_ROUTE), Verdict.WRONG, "no network leads there", "VPN"),
        (Contact(Fault.BROKEN_OFF), Verdict.WRONG, "breaks the connection off", "proxy"),
        (Contact(Fault.LOCAL_NETWORK), Verdict.WRONG, "errno 65", "Privacy & Security, Local Network"),
    ],
)
def test_each_way_in_which_a_server_is_not_there_has_its_way_out(
    contact: Contact, verdict: Verdict, says: str, way_out: str
) -> None:
    found = judge_server(SERVER, contact)
    assert found.verdict is verdict
    assert SERVER in found.says
    assert says in found.says
    assert way_out in found.way_out
    assert bool(found.way_out) == (verdict is Verdict.WRONG)


def test_every_fault_is_told() -> None:
    assert len({judge_server(SERVER, Contact(fault)).says for fault in Fault}) == len(Fault)


@pytest.mark.parametrize(
    ("contact", "scope", "is_given", "verdict", "says"),
    [
        (WELL, Scope(True), True, Verdict.OK, "scope executor"),
        (WELL, Scope(True, is_for_all=True), True, Verdict.UNSURE, "administrator"),
        (WELL, Scope(False, refusal="it has the scope submit"), True, Verdict.WRONG, "scope submit"),
        (WELL, Scope(None, refusal="the server answers 503"), True, Verdict.UNSURE, "answers 503"),
        (Contact(status=403, document={"detail": "it is revoked"}), None, True, Verdict.WRONG, "it is revoked"),
        (AWAY, None, True, Verdict.UNSURE, "server"),
        (Contact(status=502), None, True, Verdict.UNSURE, "server"),
        (WELL, None, False, Verdict.WRONG, "none"),
    ],
)
def test_a_token_is_judged_by_what_it_reaches(
    contact: Contact, scope: Scope | None, is_given: bool, verdict: Verdict, says: str
) -> None:
    found = judge_token(contact, scope, is_given=is_given)
    assert found.verdict is verdict
    assert says in found.says


@pytest.mark.parametrize(
    ("ahead", "verdict", "says"),
    [
        (0.2, Verdict.OK, "to 1 s"),
        (-29.0, Verdict.OK, "to 29 s"),
        (31.0, Verdict.UNSURE, "31 s ahead of"),
        (-7200.0, Verdict.UNSURE, "7,200 s behind"),
        (None, Verdict.UNSURE, "does not tell the time"),
    ],
)
def test_a_clock_that_is_off_is_told_and_is_no_fault(ahead: float | None, verdict: Verdict, says: str) -> None:
    found = judge_clock(Contact(status=200, ahead_seconds=ahead))
    assert found.verdict is verdict
    assert says in found.says


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "way_out"),
    [
        ("1.4.2", "1.4.2", Verdict.OK, ""),
        ("1.3.0", "1.4.0", Verdict.OK, ""),
        ("1.4.9", "1.4.0", Verdict.OK, ""),
        ("1.5.0", "1.4.9", Verdict.WRONG, "upgrade the server"),
        ("1.10.0", "1.9.0", Verdict.WRONG, "upgrade the server"),
        ("2.0.0", "1.9.0", Verdict.WRONG, "upgrade the server"),
        ("0.9.0", "1.0.0", Verdict.WRONG, "upgrade the executor"),
        ("1.0.0", "main", Verdict.UNSURE, ""),
    ],
)
def test_versions_follow_the_rule_that_is_told(ours: str, theirs: str, verdict: Verdict, way_out: str) -> None:
    found = judge_versions(ours, Contact(status=200, document={"version": theirs}))
    assert (found.verdict, found.way_out) == (verdict, way_out)
    assert "may be older than its server" in found.says


def test_without_a_server_nothing_is_claimed_of_its_clock_and_version() -> None:
    for found in (judge_clock(AWAY), judge_versions("1.0.0", AWAY), judge_versions("1.0.0", Contact(status=403))):
        assert found.verdict is Verdict.UNSURE
