"""The files that describe the executor's service, for launchd and for systemd: pure text, and the flags read back."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast
from xml.parsers.expat import ExpatError

LABEL: Final = "org.minions.executor"
UNIT: Final = "minions-executor.service"
Flags = tuple[tuple[str, str], ...]
"""Flags of `minions executor` and their values, in order; one that may be repeated stands there more than once."""

Session = Literal["Aqua", "Background"]
_VERB = "executor"
# launchd's locale is ASCII.
_ENVIRONMENT: Final = {"PYTHONUTF8": "1"}
_RETRY_SECONDS = 30
_STOP_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Service:
    """What is run. program: what stands before `executor`. log: for what it prints itself."""

    program: tuple[str, ...]
    flags: Flags
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def arguments(self) -> list[str]:
        return [*self.program, _VERB, *(word for flag in self.flags for word in flag)]


def launch_agent(service: Service, session: Session = "Aqua") -> str:
    """A LaunchAgent. session: Background for a Mac that nobody is logged in to; launchd loads it nowhere else."""
    document: dict[str, Any] = {
        "Label": LABEL,
        "ProgramArguments": service.arguments,
        "EnvironmentVariables": {**service.environment, **_ENVIRONMENT},
        # Background, like the default, throttles Metal several times over.
        "ProcessType": "Interactive",
        "LowPriorityIO": True,
        "RunAtLoad": True,
        # `minions executor stop` ends it with 0, and it stays ended; after anything else it is started again.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _RETRY_SECONDS,
        "ExitTimeOut": _STOP_SECONDS,
        "LimitLoadToSessionType": session,
        "StandardOutPath": str(service.log),
        "StandardErrorPath": str(service.log),
        "Umask": 0o077,
    }
    return plistlib.dumps(document, sort_keys=False).decode()


def systemd_unit(service: Service) -> str:
    """A user unit; what it prints goes to the journal."""
    environment = "".join(
        f"Environment={_quoted(f'{name}={value}', dollar=False)}\n"
        for name, value in {**service.environment, **_ENVIRONMENT}.items()
    )
    return f"""[Unit]
Description=Minion Executor: lends this machine while its owner does not need it
StartLimitIntervalSec=0

[Service]
ExecStart={" ".join(_quoted(word) for word in service.arguments)}
{environment}Restart=on-failure
RestartSec={_RETRY_SECONDS}
TimeoutStopSec={_STOP_SECONDS}
KillMode=mixed
OOMPolicy=continue
IOSchedulingPriority=7
UMask=0077

[Install]
WantedBy=default.target
"""


def flags_of(text: str) -> Flags:
    """The flags in a service's file of either kind. Empty for one that is not of this form."""
    words = _launchd_arguments(text) if text.lstrip().startswith("<") else _systemd_arguments(text)
    if _VERB not in words:
        return ()
    rest = words[words.index(_VERB) + 1 :]
    return tuple(zip(rest[::2], rest[1::2], strict=False))


def program_of(text: str) -> str:
    """The program that a service's file starts; empty for one that is not of this form."""
    words = _launchd_arguments(text) if text.lstrip().startswith("<") else _systemd_arguments(text)
    return words[0] if words else ""


def session_of(text: str) -> Session:
    """The session that a LaunchAgent is for."""
    return "Background" if _agent(text).get("LimitLoadToSessionType") == "Background" else "Aqua"


def _agent(text: str) -> dict[str, Any]:
    try:
        document: Any = plistlib.loads(text.encode())
    except (ExpatError, ValueError):
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _launchd_arguments(text: str) -> list[str]:
    words = _agent(text).get("ProgramArguments")
    return [str(word) for word in cast("list[Any]", words)] if isinstance(words, list) else []


def _systemd_arguments(text: str) -> list[str]:
    line = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)
    found = re.findall(r'"((?:[^"\\]|\\.)*)"', line[1]) if line else []
    return [re.sub(r"\\(.)", r"\1", word).replace("%%", "%").replace("$$", "$") for word in found]


def _quoted(word: str, *, dollar: bool = True) -> str:
    """A word as systemd reads it back; in an environment variable a dollar sign stands for itself."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped.replace("$", "$$") if dollar else escaped}"'
