"""A browser (Debian's chromium) and a `kaji up` with real processes, for the tests of the web page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.harness.kaji_up import KajiUp

from kajitori.api.web_page import BUILT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser without windows. It is given a proxy that does not exist, so that any request elsewhere fails.

    It ends with the module: Playwright's event loop runs in the worker's thread as long as the browser does, and
    asynchronous tests could not start theirs.
    """
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    if not (BUILT / "index.html").exists():
        pytest.skip("the web page is not built: make web (needs npm)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
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
    that the browser logs for a refused form (status 422), for code that is not on the server yet (404), and while tests
    beside this one make network interfaces: the page then repeats its requests."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if _is_fault(message) else None)
    page.goto(link(cluster))
    yield page
    page.unroute_all(behavior="ignoreErrors")  # a handler that still waits for an answer would fail in the next test
    context.close()
    assert not faults


def _is_fault(message: ConsoleMessage) -> bool:
    is_question = "status of 404" in message.text and "/v1/code/" in message.location["url"]
    is_expected = is_question or "status of 422" in message.text or "ERR_NETWORK_CHANGED" in message.text
    return message.type == "error" and not is_expected


def link(cluster: KajiUp, *run: str) -> str:
    """Return a link that signs a browser in, to the page of all runs or of one."""
    made = cluster.kaji("open", "--print", *run)
    assert made.returncode == 0, made
    return made.stdout.strip()
