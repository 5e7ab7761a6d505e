"""What a client raises besides the errors of the server."""

from __future__ import annotations

from minions.domain.errors import MinionsError


class WaitTimedOut(MinionsError, TimeoutError):
    """The task has not ended within the time that was given."""

    code = "wait_timed_out"
    hint = "It goes on running; wait again, or give it longer."


class ResultsIncomplete(MinionsError):
    """The task has no complete results."""

    code = "results_incomplete"
    hint = "Take what there is with partial=True (--partial on the command line)."


class NotAMinionServer(MinionsError):
    """What answers there is no Minion Server."""

    code = "not_a_minion_server"
    hint = "Check the address given by --server or MINIONS_SERVER; `minions config show` says where it came from."


class InputChanged(MinionsError):
    """The file changed while it was uploaded."""

    code = "input_changed"
    hint = "Hand it in again once nothing writes to it."


class NotInstalled(MinionsError, ImportError):
    """A library that this needs is not installed."""

    code = "not_installed"
