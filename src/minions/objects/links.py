"""Links that the server signs itself, for stores that cannot: one object, one method, until a moment. Pure."""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal
from urllib.parse import quote, urlencode

from minions.domain.errors import AccessDenied
from minions.objects.keys import check_key

Method = Literal["GET", "PUT"]

_DOMAIN = b"minions object link 1"  # a signature made for anything else with the same secret never fits here
_SECRET_BYTES = 16


def sign(secret: bytes, method: Method, key: str, expires_at: int) -> str:
    """The signature (hex) that lets its bearer do this to the object until `expires_at`, in seconds since 1970."""
    if len(secret) < _SECRET_BYTES:
        raise ValueError(f"the secret for links needs {_SECRET_BYTES} bytes at least")
    fields = (_DOMAIN, method.encode(), check_key(key).encode(), str(expires_at).encode())
    # Lengths before the fields: no two different requests have the same bytes to sign.
    message = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return hmac.new(secret, message, hashlib.sha256).hexdigest()


def verify(secret: bytes, method: str, key: str, expires_at: int, signature: str, now: float) -> None:
    """Raises AccessDenied unless the signature was made for exactly this and has not expired."""
    if method == "HEAD":
        method = "GET"  # who may read it may ask for its size
    if method not in ("GET", "PUT"):
        raise AccessDenied("A link to an object reads it or writes it; this method does neither", hint="")
    try:
        expected = sign(secret, method, key, expires_at)
    except ValueError:
        expected = ""
    if not expected or not hmac.compare_digest(expected.encode(), signature.encode(errors="replace")):
        raise AccessDenied(
            "This link was not made for this object and method, or it was changed",
            hint="Ask for a new link; do not edit one.",
        )
    if expires_at <= now:
        raise AccessDenied("This link has expired", hint="Ask for a new one.")


def link(base_url: str | None, secret: bytes, method: Method, key: str, expires_at: int) -> str:
    """The URL for a signature; without a base it is a path, for those who reach the server under another name."""
    query = urlencode({"method": method, "expires": expires_at, "signature": sign(secret, method, key, expires_at)})
    return f"{(base_url or '').rstrip('/')}/objects/{quote(key)}?{query}"
