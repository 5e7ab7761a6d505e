"""Where a request comes from: what a browser says of it, against other sites that use a visitor's cookie."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit


def comes_from_here(headers: Mapping[str, str]) -> bool:
    """Whether an unsafe request was made by one of our own pages.

    By Sec-Fetch-Site, which every current browser sends and no page can forge, else by Origin. A request with neither
    is refused: it is no browser's, and programs have the REST interface. Only the host is compared, because a proxy in
    front of us may have taken the TLS off.
    """
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site == "same-origin"
    return origin != "null" and urlsplit(origin).netloc == headers.get("host")
