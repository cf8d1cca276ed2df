"""Debian's chromium for tests of the web page. It reaches this machine only."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import pytest

from kajitori.api.web_page import BUILT

if TYPE_CHECKING:
    from playwright.async_api import Page

PROGRAMS = ("chromium-headless-shell", "chromium")
"""Names of the program, the cheapest first: the engine without the browser around it takes a fifth of the processor
time for a new page."""

ARGUMENTS = ["--no-sandbox", "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=127.0.0.1"]
"""The proxy does not exist, so that any request to another host fails."""

CALM: Literal["reduce"] = "reduce"
"""Setting of a context that asks the page for no animations: a mark that pulses takes a tenth of a core."""

NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
"""Chromium's error for a request that broke because the machine got a network interface."""
INTERRUPTED = (NETWORK_CHANGED, "chrome-error://chromewebdata")
"""Parts of Playwright's messages about a page that could not be opened for that reason: of the error itself, or that
chromium went to the page that shows it."""
PATIENCE_MS = 60_000
"""Time that a step of a test waits for what it looks for, on a busy machine."""
BEGIN_MS = 10_000
VISITS = 5


def require_chromium() -> str:
    """Return the browser's program. Skip the test, and say how to get it, if it or the built page is missing."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("there is no chromium: apt-get install chromium-headless-shell")
    if not (BUILT / "index.html").exists():
        pytest.skip("the web page is not built: make web (needs npm)")
    return program


@asynccontextmanager
async def new_page(**context: Any) -> AsyncIterator[Page]:
    """Start a browser, and yield its page; the options are those of a browser context. The test fails if a script of
    the page fails."""
    program = require_chromium()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        opened = await browser.new_context(reduced_motion=CALM, viewport={"width": 1440, "height": 900}, **context)
        opened.set_default_timeout(PATIENCE_MS)
        page = await opened.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        yield page
        await browser.close()
    assert not faults


async def visit(page: Page, address: str) -> None:
    """Open an address, and wait for the page. It is opened again if another test made a network interface at that
    moment, because the browser repeats neither the request for the page nor the requests for its first scripts."""
    from playwright.async_api import ConsoleMessage, Error
    from playwright.async_api import TimeoutError as Late

    def note(message: ConsoleMessage) -> None:
        if NETWORK_CHANGED in message.text:
            broken.append(message.text)

    broken: list[str] = []
    page.on("console", note)
    for _ in range(VISITS):
        try:
            await page.goto(address)
            await page.locator("#root > *").first.wait_for(state="attached", timeout=BEGIN_MS)
            break
        except Late:
            if not broken:
                break  # the page is slow, and the test waits for what it looks at
        except Error as error:
            if not any(words in error.message for words in INTERRUPTED):
                raise
    page.remove_listener("console", note)
