"""The secret of a token that was just made, on its way to the page that shows it once; pure.

Making a token ends in a redirect, so that loading the page again makes no second one, and the page that follows may
come from another server of the deployment. No secret lies in a cookie or in memory meanwhile: the cookie holds a random
nonce, from which only this deployment can tell the secret, and which the page that shows it takes away.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Final

from minions.server.access import SECRET_PREFIX

SHOWN_SECONDS: Final = 60
MADE_COOKIE: Final = "minions-made"
_NONCE = re.compile(r"([0-9]{1,12})\.[A-Za-z0-9_-]{43}")


def new_nonce(now: float) -> str:
    """A nonce that is good for a moment. now: seconds since the epoch."""
    return f"{int(now) + SHOWN_SECONDS}.{secrets.token_urlsafe(32)}"


def secret_of(link_secret: bytes, nonce: str) -> str:
    """The secret that belongs to a nonce: as random as one that is drawn, to whoever lacks the deployment's own."""
    key = hmac.new(link_secret, b"minions token that was made", hashlib.sha256).digest()
    drawn = hmac.new(key, nonce.encode(), hashlib.sha256).digest()
    return SECRET_PREFIX + base64.urlsafe_b64encode(drawn).decode().rstrip("=")


def good_nonce(cookie: str | None, now: float) -> str | None:
    """The nonce in a cookie; None for what is none, or too old. A changed end belongs to another secret."""
    found = _NONCE.fullmatch(cookie or "")
    return cookie if found is not None and int(found[1]) > now else None
