"""How long `minions up` takes until it has accepted a task: on a fresh data directory, and on the one that it left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

_POLL_SECONDS = 0.01
_LONGEST_SECONDS = 120.0
_ROWS = 100


def main() -> None:
    """Print one line of JSON: seconds from the command to the 201 that accepts a task of 100 rows."""
    home = Path(tempfile.mkdtemp(prefix="minions-startup-"))
    try:
        rows = home / "rows.jsonl"
        rows.write_text("".join(f'{{"text": "row {number}"}}\n' for number in range(_ROWS)))
        figures = {name: round(_measure(home / "data", rows, name), 2) for name in ("first", "second")}
        print(json.dumps({f"{name}_seconds": seconds for name, seconds in figures.items()}))
    finally:
        shutil.rmtree(home)


def _measure(data: Path, rows: Path, name: str) -> float:
    argv = [sys.executable, "-m", "minions.commands.main", "up", "--data", str(data), "--port", "0"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MINIONS_")}
    (data / "connection.json").unlink(missing_ok=True)
    began = time.monotonic()
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, start_new_session=True) as up:
        try:
            _submit(_connection(data / "connection.json", up), rows, name)
            return time.monotonic() - began
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate()


def _connection(place: Path, up: subprocess.Popen[bytes]) -> Mapping[str, str]:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not place.exists():
        if up.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("minions up did not start")
        time.sleep(_POLL_SECONDS)
    return json.loads(place.read_text())


def _submit(connection: Mapping[str, str], rows: Path, name: str) -> None:
    """A request to a server that is still starting waits, because its port is open already."""
    task = {
        "task_name": name,
        "model": "hf:BAAI/bge-small-en-v1.5",
        "parameters": {"kind": "embed"},
        "inputs": [rows.as_uri()],
    }
    headers = {"Authorization": f"Bearer {connection['token']}"}
    answer = httpx.post(
        f"{connection['server']}/api/v1/tasks", json=task, headers=headers, timeout=_LONGEST_SECONDS, trust_env=False
    )
    if answer.status_code != 201:
        raise SystemExit(f"the task was not accepted: {answer.status_code} {answer.text}")


if __name__ == "__main__":
    main()
