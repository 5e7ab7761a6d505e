"""The process table of the system that this runs on."""

from __future__ import annotations

import sys

from minions.executor.supervisor.mac_processes import MacProcesses
from minions.executor.supervisor.processes import LinuxProcesses, ProcessTable


def process_table() -> ProcessTable:
    """Raises ProcessTableUnknown where there is none."""
    return LinuxProcesses() if sys.platform == "linux" else MacProcesses()
