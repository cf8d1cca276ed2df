"""A browser (Debian's chromium) and a `kaji up` with real processes, for the tests of the web page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.harness.chromium import ARGUMENTS, BEGIN_MS, CALM, NETWORK_CHANGED, VISITS, require_chromium
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

PATIENCE_MS = 60_000
ABORTED = "net::ERR_FAILED"
"""What chromium says of a request that a test aborted."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser without windows.

    It ends with the module: Playwright's event loop runs in the worker's thread as long as the browser does, and
    asynchronous tests could not start theirs.
    """
    program = require_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KajiUp]:
    """A `kaji up` with two simulated nodes beside this machine."""
    up = KajiUp(tmp_path_factory.mktemp("browser"))
    up.start("--nodes", "2")
    yield up
    if names := up.kaji("ps", "-a", "-q").stdout.split():
        up.kaji("rm", "-f", *names)  # members run on without `kaji up`
    up.kill()


@pytest.fixture
def page(chromium: Browser, cluster: KajiUp) -> Iterator[Page]:
    """A page that is signed in by a link of the command line. A test fails if the page logs an error, except for those
    that the browser logs for a refused form (status 422), for code that is not on the server yet (404), for requests
    that the test aborts, and while tests beside this one make network interfaces: the page then repeats its requests.
    """
    context = chromium.new_context(reduced_motion=CALM, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if _is_fault(message) else None)
    visit(page, link(cluster))
    page.wait_for_url(lambda url: "#sign-in=" not in url)
    yield page
    page.unroute_all(behavior="ignoreErrors")  # a handler that still waits for an answer would fail in the next test
    context.close()
    assert not faults


def visit(page: Page, address: str) -> None:
    """Open an address, and wait for the page. If tests beside this one make network interfaces meanwhile, it is opened
    again: the browser does not repeat the request for the page itself, and for the scripts that it begins with."""
    from playwright.sync_api import Error
    from playwright.sync_api import TimeoutError as Late

    def note(message: ConsoleMessage) -> None:
        if NETWORK_CHANGED in message.text:
            broken.append(message.text)

    broken: list[str] = []
    page.on("console", note)
    go: Callable[[], object] = lambda: page.goto(address)  # noqa: E731 - another one after a script was lost
    for _ in range(VISITS):
        try:
            go()
            page.locator("#root > *").first.wait_for(state="attached", timeout=BEGIN_MS)
            break
        except Late:
            if not broken:
                break  # the page is slow, and the test waits for what it looks at
            go = page.reload
        except Error as error:
            if NETWORK_CHANGED not in error.message:
                raise
    page.remove_listener("console", note)


def _is_fault(message: ConsoleMessage) -> bool:
    is_question = "status of 404" in message.text and "/v1/code/" in message.location["url"]
    expected = ("status of 422", NETWORK_CHANGED, ABORTED)
    return message.type == "error" and not is_question and not any(words in message.text for words in expected)


def link(cluster: KajiUp, *run: str) -> str:
    """Return a link that signs a browser in, to the page of all runs or of one."""
    made = cluster.kaji("open", "--print", *run)
    assert made.returncode == 0, made
    return made.stdout.strip()
