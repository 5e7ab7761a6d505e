"""Between the command line and the server: links that sign a browser in once."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from minions.wire.base import Answer, Message


class SignInRequest(Message):
    """path: of the page to show then."""

    path: str = Field("/", min_length=1, max_length=2000, pattern=r"^/")


class SignInAnswer(Answer):
    """path: of the server; whoever opens it first, before `expires_at`, is signed in with the token that asked."""

    path: str
    expires_at: datetime
