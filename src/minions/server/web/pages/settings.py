"""Settings: how this browser shows pages, and access tokens."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final
from zoneinfo import available_timezones

from pydantic import ValidationError
from starlette.responses import Response
from starlette.routing import Route

from minions.domain.errors import FieldError, ValidationFailed
from minions.domain.names import public_id
from minions.server.actions.manage_tokens import create_token, list_tokens, name_of_secret, revoke_token
from minions.server.web.look import BROWSER_ZONE_COOKIE, LOOK_COOKIE, THEMES, Look, theme_of
from minions.server.web.made_token import MADE_COOKIE, SHOWN_SECONDS, good_nonce, new_nonce, secret_of
from minions.server.web.texts import zone_of
from minions.server.web.visit import Visit, act, is_secure, page
from minions.wire.tasks import TokenRequest

SCOPES: Final = {
    # Short: a select shows one line, and its field is narrow.
    "submit": "tasks and results",
    "executor": "lend a machine",
    "metrics": "read /metrics",
    "admin": "all, and tokens",
}
_REGIONS: Final = tuple(
    f"{region}/" for region in ("Africa", "America", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific")
)
_LOOK_SECONDS: Final = 365 * 86400
_MOST_TOKENS: Final = 200
_NEW: Final[dict[str, str]] = {"name": "", "scope": "submit", "teams": "", "expires_days": ""}


def routes() -> list[Route]:
    """The page, and what its forms do."""
    return [
        page("/settings", show),
        act("/settings/look", change_look),
        page("/settings/tokens", show_tokens),
        act("/settings/tokens", make_token, "admin"),
        act("/settings/tokens/{token}/revoke", revoke, "admin"),
    ]


async def show(visit: Visit) -> Response:
    """The page, this once with the secret of a token that was just made."""
    if (cookie := visit.request.cookies.get(MADE_COOKIE)) is None:
        return await _page(visit)
    response = await _page(visit, made=await _made(visit, cookie))
    response.delete_cookie(MADE_COOKIE, path="/settings")
    return response


async def show_tokens(visit: Visit) -> Response:
    """The address of a form that had to be corrected, opened again."""
    return visit.redirect("/settings#tokens")


async def _made(visit: Visit, cookie: str) -> tuple[str, str] | None:
    """(name, secret) of the token that was just made by this visitor."""
    nonce = good_nonce(cookie, visit.now.timestamp())
    if nonce is None or not _manages(visit):
        return None
    secret = secret_of(visit.deployment.link_secret, nonce)
    name = await name_of_secret(visit.deployment, visit.token, secret)
    return None if name is None else (name, secret)


def _manages(visit: Visit) -> bool:
    return visit.token.scope == "admin" and visit.token.teams is None


async def _page(
    visit: Visit,
    *,
    made: tuple[str, str] | None = None,
    given: Mapping[str, str] = _NEW,
    errors: Mapping[str, str] | None = None,
) -> Response:
    """made: name and secret of a token, shown this once. given, errors: of a form that has to be corrected."""
    manages = _manages(visit)
    tokens = await list_tokens(visit.deployment, visit.token) if manages else []
    return visit.page(
        "settings/page.html",
        422 if errors else 200,
        manages=manages,
        tokens=tokens[::-1][:_MOST_TOKENS],
        token_count=len(tokens),
        made=made,
        given=given,
        errors=errors or {},
        scopes=SCOPES,
        themes=THEMES,
        zones=zones(),
        browser_zone=zone_name(visit.request.cookies.get(BROWSER_ZONE_COOKIE)),
        own=public_id("tok", visit.token.token_id),
        label=visit.deployment.settings.label,
    )


async def change_look(visit: Visit) -> Response:
    """Keep theme and time zone in a cookie of this browser."""
    form = await visit.form()
    zone = zone_of(str(form.get("zone") or ""))
    look = Look(theme_of(str(form.get("theme"))), visit.look.zone, zone.key if zone else None)
    response = visit.redirect("/settings", "Saved for this browser.")
    response.set_cookie(LOOK_COOKIE, look.cookie(), max_age=_LOOK_SECONDS, path="/", samesite="lax", httponly=True)
    return response


async def make_token(visit: Visit) -> Response:
    """Make a token. The page that follows shows its secret."""
    form = await visit.form()
    given = {name: str(form.get(name) or "").strip() for name in _NEW}
    nonce = new_nonce(visit.now.timestamp())
    secret = secret_of(visit.deployment.link_secret, nonce)
    try:
        await create_token(visit.deployment, visit.token, token_request(given), secret)
    except ValidationFailed as failed:
        return await _page(visit, given=given, errors=by_field(failed.errors))
    response = visit.redirect("/settings#tokens")
    response.set_cookie(
        MADE_COOKIE,
        nonce,
        max_age=SHOWN_SECONDS,
        path="/settings",
        secure=is_secure(visit.request),
        httponly=True,
        samesite="strict",
    )
    return response


async def revoke(visit: Visit) -> Response:
    """Revoke a token."""
    await revoke_token(visit.deployment, visit.token, visit.request.path_params["token"])
    return visit.redirect("/settings", "The token is revoked, and the sessions that it signed in have ended.")


def token_request(given: Mapping[str, str]) -> TokenRequest:
    """What the form asks for; pure. Raises ValidationFailed."""
    teams = [team.strip() for team in given["teams"].replace(",", " ").split()]
    wanted: dict[str, Any] = {
        "name": given["name"],
        "scope": given["scope"],
        "teams": teams or None,
        "expires_days": given["expires_days"] or None,
    }
    try:
        return TokenRequest.model_validate(wanted)
    except ValidationError as error:
        fields = [(str(each["loc"][0]), each["type"], each["msg"]) for each in error.errors()]
        raise ValidationFailed(
            [FieldError(field, code, _MESSAGES.get(field, message)) for field, code, message in fields]
        ) from None


_MESSAGES: Final = {
    "name": "say who or what uses it, in 1 to 63 characters",
    "expires_days": "a number of days, at most 3,650; empty for never",
}


def by_field(errors: list[FieldError]) -> dict[str, str]:
    """The first error of each field of the form; pure."""
    found: dict[str, str] = {}
    for each in errors:
        found.setdefault(each.field.partition("[")[0], each.message)
    return found


@cache
def zones() -> list[str]:
    """Time zones that people choose from: those named after places, and UTC."""
    return ["UTC", *sorted(zone for zone in available_timezones() if zone.startswith(_REGIONS))]


def zone_name(text: str | None) -> str | None:
    """The name of a zone that exists."""
    zone = zone_of(text)
    return zone.key if zone else None
