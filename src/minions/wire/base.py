"""What all messages share: unknown fields are refused, values are frozen."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from minions.domain.names import NAME


class Message(BaseModel):
    """A message, checked once at the door."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null", allow_inf_nan=False)


class Answer(BaseModel):
    """A message from the server: fields that a newer server adds are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
"""Up to the largest number that every reader of JSON takes exactly (RFC 8259, section 6)."""

Name = Annotated[str, Field(json_schema_extra={"pattern": f"^{NAME.pattern}$"})]
"""A team, a project or a task. The form is told in the document; whoever acts on a name checks it, and says more."""
