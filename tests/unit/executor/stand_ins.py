"""Programs that stand on the PATH in place of launchctl and systemctl.

Neither a Mac nor a systemd user session can be had where the tests run. These write down how they were called, and
behave as public documentation and reports say that the real ones do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

# `print DOMAIN` knows the background session, and the screen's where $SCREEN is set. A service that was booted out is
# still there for one more look.
_LAUNCHCTL = """#!/bin/sh
echo "$*" >> "$CALLS/calls"
loaded="$CALLS/$(echo "$2" | tr / _)"
case "$1 $2" in
  "print gui/"*/*|"print user/"*/*)
    if [ -e "$loaded.ending" ]; then rm "$loaded.ending"; echo "\tstate = running"; exit 0; fi
    [ -e "$loaded" ] || { echo 'Could not find service' >&2; exit 113; }
    printf '%s = {\\n\\tstate = running\\n\\tlast exit code = (never exited)\\n}\\n' "$2" ;;
  "print gui/"*) [ -n "$SCREEN" ] || { echo "Domain does not support specified action" >&2; exit 125; } ;;
  "bootstrap "*)
    [ -z "$REFUSAL" ] || { echo "$REFUSAL" >&2; exit 5; }
    touch "${loaded}_org.minions.executor" ;;
  "bootout "*) rm "$loaded"; touch "$loaded.ending" ;;
esac
"""
_SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$CALLS/calls"
[ -z "$REFUSAL" ] || { echo "$REFUSAL" >&2; exit 1; }
case "$*" in *show*) printf 'Result=success\\nExecMainStatus=0\\nActiveState=active\\n' ;; esac
"""


class StandIns:
    """launchctl or systemctl on the PATH. calls: what they were asked since the last look."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._calls = folder / "calls"
        self._monkeypatch = monkeypatch
        programs = folder / "programs"
        programs.mkdir(parents=True)
        for name, text in (("launchctl", _LAUNCHCTL), ("systemctl", _SYSTEMCTL)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        monkeypatch.setenv("CALLS", str(folder))
        self.set(SCREEN="1", REFUSAL="")

    def set(self, **environment: str) -> None:
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value)

    def calls(self) -> list[str]:
        found = self._calls.read_text().splitlines() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return found
