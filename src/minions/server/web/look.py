"""How a visitor wants pages: theme and time zone, kept in a cookie of the browser; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from zoneinfo import ZoneInfo

from minions.server.web.texts import zone_of

Theme = Literal["auto", "light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("auto", "light", "dark")
LOOK_COOKIE: Final = "minions-look"
BROWSER_ZONE_COOKIE: Final = "minions-browser-zone"
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True)
class Look:
    """zone: in which times are told. chosen_zone: what the visitor chose; None follows the browser."""

    theme: Theme = "auto"
    zone: ZoneInfo = _UTC
    chosen_zone: str | None = None

    def cookie(self) -> str:
        return f"{self.theme}:{self.chosen_zone or ''}"


def read_look(cookie: str | None, browser_zone: str | None) -> Look:
    """What the cookies say; whatever is not understood is as if it were not there."""
    theme_text, _, zone_text = (cookie or "").partition(":")
    chosen = zone_of(zone_text)
    return Look(theme_of(theme_text), chosen or zone_of(browser_zone) or _UTC, chosen.key if chosen else None)


def theme_of(text: str) -> Theme:
    """The theme of this name; auto for any other."""
    return text if text in ("light", "dark") else "auto"
