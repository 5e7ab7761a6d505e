"""What all messages share: unknown fields are refused, values are frozen."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Message(BaseModel):
    """A message, checked once at the door."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null", allow_inf_nan=False)


class Answer(BaseModel):
    """A message from the server: fields that a newer server adds are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=2**63)]
