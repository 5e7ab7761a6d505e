"""Offering: what an executor takes, as the command line and the owner's file have it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from minions.domain.choices import ModelKind
from minions.domain.policy import OwnerPolicy, preferred
from minions.wire.executor import Offer

_MOST_PREFERENCES = 64


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line said, which is stronger than the owner's file; None or empty where it said nothing.

    default_memory_mb: when neither says how much a model may use.
    """

    kinds: tuple[str, ...] | None = None
    preferences: tuple[str, ...] = ()
    memory_mb: int | None = None
    default_memory_mb: int | None = None


def offer_of(flags: Flags, policy: OwnerPolicy, now: datetime) -> Offer:
    """What is taken now. What is preferred by hand or in the owner's file comes before what a flag prefers."""
    allowed = flags.kinds if flags.kinds is not None else policy.kinds
    ordered = [*(str(each) for each in preferred(policy.preferences, now)), *flags.preferences]
    return Offer.model_validate(
        {
            "kinds": [kind for kind in get_args(ModelKind) if kind in allowed],
            "memory_mb": flags.memory_mb or policy.memory_mb or flags.default_memory_mb,
            "teams": list(policy.teams) or None,
            "preferences": list(dict.fromkeys(ordered))[:_MOST_PREFERENCES],
        }
    )
