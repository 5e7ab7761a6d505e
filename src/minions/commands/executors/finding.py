"""Which executor is meant: by its id, or by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minions.domain.errors import FieldError, NotFound, ValidationFailed
from minions.domain.names import number_of

if TYPE_CHECKING:
    from minions.client.client import Client
    from minions.wire.tasks import ExecutorView


def find(client: Client, reference: str) -> ExecutorView:
    """By its id, or a name that only it bears. Raises NotFound, ValidationFailed."""
    try:
        number_of("exe", reference)
    except NotFound:
        named = [view for view in client.executors() if reference in (view.name, view.id)]
    else:
        return client.executor(reference)
    if not named:
        raise NotFound(f"There is no executor {reference!r}", hint="Those there are: minions executors ls")
    if len(named) > 1:
        raise ValidationFailed(
            [FieldError("EXECUTOR", "ambiguous", f"{len(named)} executors are called {reference!r}")],
            hint=f"Name one by its id: {', '.join(view.id for view in named[:5])}",
        )
    return client.executor(named[0].id)
