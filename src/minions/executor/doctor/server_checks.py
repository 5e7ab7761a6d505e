"""The server's side: whether it is reached, the token, the clocks and the versions."""

from __future__ import annotations

import re

from minions.executor.doctor.contact import Contact, Fault, Scope
from minions.executor.doctor.findings import Judgement, unsure, well, wrong

MOST_SKEW_SECONDS = 30.0
VERSION_RULE = "an executor may be older than its server, not newer, and the first number must be the same"
LOCAL_NETWORK = (
    "macOS keeps this program from the local network: in System Settings, Privacy & Security, Local Network, switch on "
    "the program that starts it (minions, python or the terminal), then `minions executor stop` and `start`"
)
_NEEDS_SERVER = "it takes a server that answers"
_TOKEN = "`minions tokens create NAME --scope executor` makes one; `minions executor install --token-stdin` takes it"


def judge_server(server: str, contact: Contact) -> Judgement:
    """Whether a Minion Server answers there."""
    if contact.fault is None:
        if contact.status in (200, 401, 403) and ("version" in contact.document or "code" in contact.document):
            return well(f"{server} answers in {contact.round_trip_seconds * 1000:.0f} ms")
        if contact.status >= 500:
            return wrong(
                f"{server} answers {contact.status}: the server, or what it needs, is down",
                "executors wait for it by themselves; whoever runs it finds more at /readyz",
            )
        return wrong(f"something answers {contact.status} at {server}, and it is no Minion Server", _address(server))
    says, way_out = {
        Fault.NO_NAME: ("has a name that cannot be resolved", f"{_address(server)}, and the DNS or VPN"),
        Fault.REFUSED: ("refuses the connection: nothing listens there", f"start the server, or {_address(server)}"),
        Fault.LOCAL_NETWORK: ("cannot be reached (errno 65)", LOCAL_NETWORK),
        Fault.NO_ROUTE: ("cannot be reached: no network leads there", "look at this machine's network and its VPN"),
        Fault.TLS: (
            "fails at TLS",
            "its certificate must be valid for this name; SSL_CERT_FILE names the root of a private one",
        ),
        Fault.TIMEOUT: ("does not answer in time", f"a firewall may drop it on the way; {_address(server)}"),
        Fault.BROKEN_OFF: ("breaks the connection off", f"{_address(server)}, and a proxy on the way"),
    }[contact.fault]
    detail = f" ({contact.detail})" if contact.detail and contact.fault is not Fault.LOCAL_NETWORK else ""
    return wrong(f"{server} {says}{detail}", way_out)


def judge_token(contact: Contact, scope: Scope | None, *, is_given: bool) -> Judgement:
    """Whether the server takes the token, and whether it is one for executors. scope: None when it was not asked."""
    if not is_given:
        return wrong("there is none", _TOKEN)
    if contact.fault is not None or contact.status not in (200, 401, 403):
        return unsure(_NEEDS_SERVER)
    if contact.status != 200:
        return wrong(str(contact.document.get("detail") or "the server refuses it"), _TOKEN)
    if scope is None or scope.is_for_executors is None:
        return unsure(f"it is valid; its scope cannot be told{': ' if scope else ''}{scope.refusal if scope else ''}")
    if not scope.is_for_executors:
        return wrong(scope.refusal or "it is valid, and not for executors", _TOKEN)
    if scope.is_for_all:
        return unsure(
            "it is valid, but an administrator's: whoever reads it on this machine reaches everything",
            "`minions tokens create NAME --scope executor` makes one that can only work",
        )
    return well("it is valid, of the scope executor")


def judge_clock(contact: Contact) -> Judgement:
    """Whether this machine's clock agrees with the server's. Nothing is decided by it: the server's clock rules."""
    if contact.ahead_seconds is None:
        return unsure(_NEEDS_SERVER if contact.fault else "the server does not tell the time")
    seconds = abs(contact.ahead_seconds)
    if seconds <= MOST_SKEW_SECONDS:
        return well(f"agrees with the server's to {max(seconds, 1.0):.0f} s")
    way = "ahead of" if contact.ahead_seconds > 0 else "behind"
    return unsure(
        f"{seconds:,.0f} s {way} the server's; no work suffers, but times in logs do not match",
        "let the system set its clock by network time",
    )


def judge_versions(installed: str, contact: Contact) -> Judgement:
    """Whether this version and the server's speak the same language."""
    told = contact.document.get("version")
    if contact.status != 200 or not isinstance(told, str):
        return unsure("the server tells its version to a valid token only" if contact.status else _NEEDS_SERVER)
    ours, theirs = _numbers(installed), _numbers(told)
    if ours is None or theirs is None:
        return unsure(f"{installed} here, {told} on the server: they cannot be compared ({VERSION_RULE})")
    if ours[0] != theirs[0] or ours > theirs:
        older = "server" if ours > theirs else "executor"
        return wrong(f"{installed} here, {told} on the server: {VERSION_RULE}", f"upgrade the {older}")
    return well(f"{installed} here, {told} on the server ({VERSION_RULE})")


def _numbers(version: str) -> tuple[int, int] | None:
    """Major and minor; what is behind them changes no message."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def _address(server: str) -> str:
    return f"check the address ({server})"
