"""The pruner: removes uploads that no task names. It is the server's, since the watchdog reaches no object store."""

from __future__ import annotations

import asyncio
import logging

from minions.domain.errors import MinionsError
from minions.server.actions.prune_uploads import MOST_UPLOADS, prune_uploads
from minions.server.deployment import Deployment

log = logging.getLogger(__name__)

_POLL_SECONDS = 3600.0
_MORE_SECONDS = 60.0  # a pass reads every task: many uploads wait for several


async def prune_on(deployment: Deployment) -> None:
    """Until cancelled: a pass now, since a deployment of one machine may never run for an hour, and every hour.

    Several servers may do it at the same time: each lock is skipped, and each step may be done twice.
    """
    while True:
        removed = 0
        try:
            removed = await prune_uploads(deployment)
        except MinionsError as error:
            log.warning("pruning uploads: %s; it is tried again", error)
        if removed:
            log.info("removed %d uploads that no task named for %g days", removed, deployment.settings.upload_days)
        await asyncio.sleep(_MORE_SECONDS if removed == MOST_UPLOADS else _POLL_SECONDS)
