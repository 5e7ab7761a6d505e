"""Checking a model before a task exists, as far as the server can know: never what an executor elsewhere may have."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from contextlib import aclosing, suppress
from pathlib import Path

from minions.domain.errors import AccessDenied, FieldError, MinionsError, ObjectMissing, Unavailable
from minions.domain.models import ModelReference
from minions.server.actions.preview_input import uploads_of
from minions.server.deployment import Deployment
from minions.server.settings import ServerSettings
from minions.store.access import Token


async def model_errors(deployment: Deployment, token: Token, model: ModelReference) -> list[FieldError]:
    """What is wrong with a model that lies where this server looks, too. What lies on its disk is for those only who
    reach all teams."""
    if model.source == "object":
        return await _object_errors(deployment, model)
    if model.source == "path" and is_one_machine(deployment.settings):
        path = Path(model.location)
        if token.teams is not None:
            message = f"{path} lies on the server's machine, and your token is limited to teams; name a model of a hub"
            return [FieldError("model", "access_denied", f"{message} (hf:…), or one in a bucket (s3://…)")]
        try:
            await asyncio.to_thread(deployment.inputs.closed.refuse, path)
        except AccessDenied as error:
            return [FieldError("model", error.code, error.message)]
        if not await asyncio.to_thread(os.path.exists, path):
            message = f"{path} does not exist on this machine, on which the executors run as well; correct the path"
            return [FieldError("model", "no_such_model", message)]
    return []


async def _object_errors(deployment: Deployment, model: ModelReference) -> list[FieldError]:
    """Executors get a model that is an object by links that this server signs, so what it does not find nobody does."""
    try:
        if deployment.inputs.is_own(model.location, uploads_of(deployment)):
            raise ValueError(f"{model.location} is an upload, which is not kept for a model; put the model elsewhere")
        store, key = deployment.inputs.place(model.location)
        if not key.endswith("/"):
            with suppress(ObjectMissing):
                await store.head(key)
                return []
        async with aclosing(deployment.inputs.expand(f"{model.location.rstrip('/')}/")) as listed:
            async for _ in listed:
                return []
        return []
    except ObjectMissing:
        message = f"no model lies at {model.location}; put its files there, or correct the address"
    except Unavailable:
        return []  # by the time that an executor needs it, it may answer
    except (MinionsError, ValueError) as error:
        message = error.message if isinstance(error, MinionsError) else str(error)
    return [FieldError("model", "no_such_model", message)]


def is_one_machine(settings: ServerSettings) -> bool:
    """Whether all executors run where the server does, as under `minions up`: it listens to this machine only, and
    takes files of this machine as inputs."""
    if not settings.accepts_files:
        return False
    if settings.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(settings.host).is_loopback
    except ValueError:
        return False
