"""What a browser must never see: errors on its console, failed requests, and violations of the pages' policy."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, Response, WebError

# Told on the console, like any error; scripts that a test puts in are no part of the page, and pass its policy.
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`violates the policy: ${event.violatedDirective} by ${event.blockedURI} in ${event.sourceFile}`);
});
"""
_REFUSED = re.compile(r"the server responded with a status of (\d+)")


class Watch:
    """Listens to all pages of one browser context, and collects what they must not do."""

    def __init__(self, context: BrowserContext) -> None:
        self.faults: list[str] = []
        self._refusals: set[tuple[str, int]] = set()
        self._no_stream: str | None = None
        self._downloads = False
        self._server_is_away = False
        context.add_init_script(_TELL_VIOLATIONS)
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("requestfailed", self._on_failed_request)
        context.on("response", self._on_response)

    def expect(self, path: str, status: int) -> None:
        """From now on, this path may answer with this error."""
        self._refusals.add((path, status))

    def expect_no_stream(self, path: str) -> None:
        """From now on, this path may answer with a page in place of a stream: with the way in."""
        self._no_stream = path

    def expect_download(self) -> None:
        """From now on, a page that is asked for may turn out to be a file."""
        self._downloads = True

    @contextmanager
    def server_away(self) -> Generator[None]:
        """A block in which requests may fail, because the server is stopped and started again."""
        self._server_is_away = True
        yield
        self._server_is_away = False

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if self._server_is_away and "Failed to load resource" in message.text:
            return
        if "text/event-stream" in message.text and urlsplit(message.location["url"]).path == self._no_stream:
            return
        refused = _REFUSED.search(message.text)
        if refused and self._is_expected(message.location["url"], int(refused[1])):
            return
        self.faults.append(f"console: {message.text} ({message.location['url']})")

    def _on_error(self, error: WebError) -> None:
        self.faults.append(f"script: {error.error}")

    def _on_failed_request(self, request: Request) -> None:
        # A page that is left takes with it what it was still fetching.
        left = request.failure == "net::ERR_ABORTED" and (request.resource_type != "document" or self._downloads)
        if not (left or self._server_is_away):
            self.faults.append(f"request: {request.method} {request.url} {request.failure}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400 and not (
            self._is_expected(response.url, response.status) or (self._server_is_away and response.status == 503)
        ):
            self.faults.append(f"answer: {response.status} to {response.request.method} {response.url}")

    def _is_expected(self, url: str, status: int) -> bool:
        return (urlsplit(url).path, status) in self._refusals
