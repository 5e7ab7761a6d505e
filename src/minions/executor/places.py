"""The files of an executor's state directory."""

from __future__ import annotations

CONTROL_FILE = "control.json"  # how its owner's commands reach it while it runs
HISTORY_FILE = "history.jsonl"
ORDER_FILE = "order.json"
CIRCUIT_FILE = "circuit.json"  # a broken machine that took itself out of work stays so over a restart
PREFERENCES_FILE = "preferences.json"
LOG_FILE = "executor.log"
ENGINE_LOG_FILE = "engine.log"
TOKEN_FILE = "token"  # of an executor that is installed as a service
SERVICE_LOG_FILE = "service.log"  # what launchd is told to keep of what it prints
INSTANCE_FILE = "instance"
LOCK_FILE = "lock"
