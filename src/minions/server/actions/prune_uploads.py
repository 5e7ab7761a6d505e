"""Pruning uploads that no task names: handed in for a task that never came to be, or never sent at all."""

from __future__ import annotations

from typing import Final

from minions.domain.names import public_id
from minions.objects.keys import upload_key
from minions.server.deployment import Deployment
from minions.store import access

MOST_UPLOADS: Final = 500
_DAY_SECONDS: Final = 86400.0


async def prune_uploads(deployment: Deployment) -> int:
    """Remove such uploads that are old, and go on with what an earlier pass began; how many, MOST_UPLOADS at most.

    First an upload is withdrawn, so that no task can name it; then its object is deleted, and its row last. Whoever
    dies in between leaves a row that says what is to be done still. With the object deleted first, a task could name
    what is gone; with the row deleted first, nobody would know of the object. Raises MinionsError.
    """
    database = deployment.database
    older_seconds = deployment.settings.upload_days * _DAY_SECONDS
    async with database.connection() as connection:
        left = len(await access.withdrawn_uploads(connection, MOST_UPLOADS))
        if left < MOST_UPLOADS:
            async with connection.transaction(isolation="read_committed"):
                await access.withdraw_uploads(connection, older_seconds, MOST_UPLOADS - left)
        gone = await access.withdrawn_uploads(connection, MOST_UPLOADS)
    if gone:
        await deployment.objects.delete([upload_key(public_id("upl", number), name) for number, name in gone])
        async with database.connection() as connection:
            await access.delete_uploads(connection, [number for number, _ in gone])
    return len(gone)
