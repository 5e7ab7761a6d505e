"""Becoming the parent of orphans: what a job leaves behind comes to its launcher instead of to init (Linux)."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Whether the system can do it. Then leftovers are found without a look at all processes, also without a token."""
    if sys.platform != "linux":
        return False
    try:
        return ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False
