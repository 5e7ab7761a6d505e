"""Settings of a server, read once at the edge."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server runs.

    objects: where objects lie, `s3://bucket/prefix` or a folder. lease_seconds: an executor that holds subtasks and is
    silent for so long loses them. progress_seconds, heartbeat_seconds: how often a busy one reports, and any one.
    accepts_files: whether tasks may name files of this machine (only where server and users are the same person).
    closed: folders of this machine in which tasks may name nothing but objects: where tokens and the database lie.
    watchdog_patience_seconds: for how long no watchdog may be there until people are told; a start takes a moment, and
    a standby waits for its turn.
    upload_days: an upload that no task names is removed after so long, which is longer than a link to it can be used.
    metrics_open: whether /metrics answers without a token. trusted_proxies: addresses and networks of proxies whose
    X-Forwarded-For is believed, to tell clients apart.
    admin_token, executor_token: secrets that shall exist; None makes none.
    """

    database_url: str = field(repr=False)
    objects: str
    host: str = "127.0.0.1"
    port: int = 7878
    label: str = "production"
    s3_endpoint: str | None = None
    s3_region: str | None = None
    lease_seconds: float = 90.0
    progress_seconds: float = 15.0
    heartbeat_seconds: float = 300.0
    watchdog_patience_seconds: float = 30.0
    link_seconds: int = 6 * 3600
    upload_days: float = 7.0
    accepts_files: bool = False
    closed: tuple[str, ...] = ()
    metrics_open: bool = False
    trusted_proxies: tuple[str, ...] = ()
    admin_token: str | None = field(default=None, repr=False)
    executor_token: str | None = field(default=None, repr=False)
    connections: int = 8

    def problems(self) -> list[str]:
        """What does not fit together; empty when all is well."""
        found: list[str] = []
        if self.lease_seconds < 3 * self.progress_seconds:
            found.append(
                f"the lease ({self.lease_seconds:g} s) must be at least three progress reports "
                f"({self.progress_seconds:g} s each) long, or a single lost report takes work away"
            )
        if self.label not in ("production", "development"):
            found.append(f"the label is {self.label!r}; it must be production or development")
        found += [
            f"the trusted proxy {each!r} is neither an address nor a network like 10.0.0.0/8"
            for each in self.trusted_proxies
            if not _is_network(each)
        ]
        return found


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True
