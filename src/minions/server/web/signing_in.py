"""Sessions of browsers: a signed cookie that names a token and an end; pure.

The cookie holds no secret of the token. It is worth what the token is worth: every request looks the token up, so one
that is revoked or expires takes its sessions with it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

SESSION_SECONDS: Final = 7 * 86400
_COOKIE = re.compile(r"1\.([0-9]{1,19})\.([0-9]{1,12})\.([0-9a-f]{64})")
_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]{0,2000}")


def session_cookie(link_secret: bytes, token_id: int, ends_at: int) -> str:
    """The value of a session's cookie. ends_at: seconds since the epoch."""
    return f"1.{token_id}.{ends_at}.{_sign(link_secret, token_id, ends_at)}"


def token_of_session(link_secret: bytes, cookie: str, now: float) -> int | None:
    """The number of the token that a session's cookie names; None for one that is forged, damaged or over."""
    found = _COOKIE.fullmatch(cookie)
    if found is None:
        return None
    token_id, ends_at = int(found[1]), int(found[2])
    if not hmac.compare_digest(_sign(link_secret, token_id, ends_at), found[3]) or ends_at <= now:
        return None
    return token_id


def cookie_name(link_secret: bytes, secure: bool) -> str:
    """One for each deployment, because cookies do not tell ports of one host apart.

    secure: over TLS, where the prefix makes browsers refuse it from any other host or path.
    """
    mark = hmac.new(link_secret, b"minions cookie name", hashlib.sha256).hexdigest()[:8]
    return f"__Host-minions-{mark}" if secure else f"minions-{mark}"


def local_path(wanted: str | None) -> str:
    """Where to go after signing in: a path of ours, whatever was asked for."""
    return wanted if wanted and _PATH.fullmatch(wanted) and not wanted.startswith("/sign-in") else "/"


def _sign(link_secret: bytes, token_id: int, ends_at: int) -> str:
    key = hmac.new(link_secret, b"minions web session", hashlib.sha256).digest()
    return hmac.new(key, f"{token_id}.{ends_at}".encode(), hashlib.sha256).hexdigest()
