"""The way of a secret to the page that shows it."""

from __future__ import annotations

from minions.server.access import new_secret
from minions.server.web.made_token import SHOWN_SECONDS, good_nonce, new_nonce, secret_of

NOW = 1_700_000_000.0


def test_a_nonce_leads_to_one_secret_of_one_deployment() -> None:
    nonce = new_nonce(NOW)
    secret = secret_of(b"deployment", nonce)
    assert secret == secret_of(b"deployment", nonce)
    assert (secret[:4], len(secret)) == ("mns_", len(new_secret()))
    assert len({secret, secret_of(b"another", nonce), secret_of(b"deployment", new_nonce(NOW))}) == 3
    assert nonce not in secret


def test_a_nonce_is_good_for_a_minute() -> None:
    nonce = new_nonce(NOW)
    assert good_nonce(nonce, NOW + SHOWN_SECONDS - 1) == nonce
    assert good_nonce(nonce, NOW + SHOWN_SECONDS) is None
    for wrong in (None, "", "x", nonce + "x", nonce.replace(".", "-"), "9" * 13 + nonce[10:]):
        assert good_nonce(wrong, NOW) is None
