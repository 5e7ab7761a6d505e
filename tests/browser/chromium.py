"""The browser of the tests: the system's Chromium, which asks nothing of the network by itself."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, Playwright

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def launch(playwright: Playwright) -> Browser:
    """Raises FileNotFoundError with the way out when there is none."""
    program = shutil.which("chromium")
    if program is None:
        raise FileNotFoundError(
            "Chromium is not on the PATH; tests/services/system_packages.sh installs it, as does `make test`"
        )
    return playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
