"""A browser (Debian's chromium) and a `kaji up` with real processes, for the tests of the web page.

`make test-everywhere` runs them on a real API server, too.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.steps import link, visit
from tests.harness.binaries import require_binaries
from tests.harness.chromium import ARGUMENTS, CALM, NETWORK_CHANGED, PATIENCE_MS, require_chromium
from tests.harness.fixtures import REAL
from tests.harness.kaji_up import KajiUp, KajiUpOnRealServer
from tests.harness.servers.real_server import running_real_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, StorageState

SHARED = pytest.StashKey["Shared"]()
HAS_FAILED = pytest.StashKey[bool]()
MAY_BE_ABSENT = ("/v1/code/", "/why?attempt=", "/test?id=")
"""Parts of addresses at which the page asks whether there is anything: code that may have to be uploaded, stacks that
are not kept yet, and the outcome of a test message whose channel is removed meanwhile."""
ABORTED = "net::ERR_FAILED"
"""Error of chromium for a request that a test aborted."""


class Shared:
    """Keeps what all files of this folder use, until the worker goes on to tests of other folders.

    A browser may not last longer: Playwright's event loop runs in the worker's thread as long as the browser does, and
    asynchronous tests could not start theirs.
    """

    def __init__(self, ending: ExitStack) -> None:
        self.ending = ending
        self.browser: Browser | None = None
        self.clusters: dict[str, KajiUp] = {}
        self.sessions: dict[KajiUp, StorageState] = {}
        """Cookies of a page that is signed in, by cluster."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note for the fixtures whether the test has failed."""
    report = yield
    if report.when == "call":
        item.stash[HAS_FAILED] = report.failed
    return report


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Shared:
    folder = request.node.parent
    if SHARED not in folder.stash:
        ending = ExitStack()
        ending.callback(folder.stash.__delitem__, SHARED)
        folder.stash[SHARED] = Shared(ending)
        folder.addfinalizer(ending.close)
    found: Shared = folder.stash[SHARED]
    return found


@pytest.fixture(scope="module")
def chromium(shared: Shared) -> Browser:
    """A browser without windows."""
    if shared.browser is None:
        shared.browser = shared.ending.enter_context(_browser())
    return shared.browser


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=REAL)])
def cluster(request: pytest.FixtureRequest, shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> KajiUp:
    """A `kaji up` with two simulated nodes beside this machine, and without runs when a file begins."""
    server: str = request.param
    if server in shared.clusters:
        _remove_runs(shared.clusters[server])
    else:
        folder = tmp_path_factory.mktemp("browser")
        started = _cluster(folder) if server == "embedded" else _real_cluster(folder)
        shared.clusters[server] = shared.ending.enter_context(started)
    return shared.clusters[server]


@contextmanager
def _browser() -> Iterator[Browser]:
    program = require_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def _cluster(folder: Path) -> Iterator[KajiUp]:
    up = KajiUp(folder)
    up.start("--nodes", "2")
    yield up
    _remove_runs(up)  # members run on without `kaji up`
    up.kill()


@contextmanager
def _real_cluster(folder: Path) -> Iterator[KajiUp]:
    require_binaries("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager")
    with running_real_server() as server, server.scheduler(), server.controller_manager():
        up = KajiUpOnRealServer(folder, server.kubeconfig)
        try:
            up.start()
            yield up
            _remove_runs(up)
        finally:
            up.end()


def _remove_runs(up: KajiUp) -> None:
    if names := up.kaji("ps", "-a", "-q").stdout.split():
        up.kaji("rm", "-f", *names)


@pytest.fixture
def page(request: pytest.FixtureRequest, shared: Shared, chromium: Browser, cluster: KajiUp) -> Iterator[Page]:
    """A page that is signed in by a link of the command line, or by the cookies that an earlier page got so. It shows
    the list of runs.

    A test fails if the page logs an error, except for those that the browser logs for a refused form (status 422), for
    what MAY_BE_ABSENT on the server (404), for requests that the test aborts, and while tests beside this one make
    network interfaces: the page then repeats its requests. The report of a failed test has the page as screen readers
    see it.
    """
    session = shared.sessions.get(cluster)
    context = chromium.new_context(reduced_motion=CALM, viewport={"width": 1440, "height": 900}, storage_state=session)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "console",
        lambda message: faults.append(f"{message.text} {message.location['url']}") if _is_fault(message) else None,
    )
    if session:
        visit(page, cluster.url)
    else:
        visit(page, link(cluster))
        page.wait_for_url(lambda url: "#sign-in=" not in url)
        page.get_by_role("navigation").wait_for()
        shared.sessions[cluster] = context.storage_state()
    yield page
    if request.node.stash.get(HAS_FAILED, False):
        print(page.url, page.locator("body").aria_snapshot(), sep="\n")
    page.unroute_all(behavior="ignoreErrors")  # a handler that still waits for an answer would fail in the next test
    context.close()
    assert not faults


def _is_fault(message: ConsoleMessage) -> bool:
    asked = message.location["url"]
    is_question = "status of 404" in message.text and any(part in asked for part in MAY_BE_ABSENT)
    expected = ("status of 422", NETWORK_CHANGED, ABORTED)
    return message.type == "error" and not is_question and not any(words in message.text for words in expected)
