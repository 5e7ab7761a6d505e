"""What can go wrong between the coordinator and a host; each says the host, what happened, and the way out."""

from __future__ import annotations

from minions.domain.errors import MinionsError, Unavailable


class HostUnreachable(Unavailable):
    """The host does not answer."""

    code = "host_unreachable"
    hint = "It is tried again by itself; `minions hosts check` tells more."

    def __init__(self, message: str, *, mend: str = "") -> None:
        """mend: what a person can do about it."""
        self.mend = mend
        super().__init__(message)


class HostRefuses(MinionsError):
    """The host lets us in only after something is changed by hand."""

    code = "host_refuses"


class HostNotReady(MinionsError):
    """The host lacks something that Minions needs."""

    code = "host_not_ready"


class RequestFailed(MinionsError):
    """The host answered that it could not do it. `kind`: for programs, such as ENOSPC or no_program."""

    code = "host_request_failed"

    def __init__(self, host: str, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(f"{host}: {message}")


class TransferDamaged(MinionsError):
    """What arrived has another hash than what was sent, three times in a row."""

    code = "transfer_damaged"
    hint = "Nothing was put in its place. Check the host's disk and memory, then run it again."


class CheckoutRefused(MinionsError):
    """The project's commit cannot be brought to a host."""

    code = "checkout_refused"


class SetupFailed(MinionsError):
    """The dependencies of the project could not be installed on a host."""

    code = "setup_failed"
