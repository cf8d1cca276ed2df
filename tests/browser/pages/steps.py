"""Steps that the tests of the pages share: opening addresses and starting runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from tests.harness.chromium import BEGIN_MS, INTERRUPTED, NETWORK_CHANGED, VISITS
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Page

MINUTES = ("2026-11-23T10:00:00Z", "2026-11-23T10:01:00Z", "2026-11-23T10:02:00Z")


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
            if not any(words in error.message for words in INTERRUPTED):
                raise
    page.remove_listener("console", note)


def link(cluster: KajiUp, *run: str) -> str:
    """Return a link that signs a browser in, to the page of all runs or of one."""
    made = cluster.kaji("open", "--print", *run)
    assert made.returncode == 0, made
    return made.stdout.strip()


def open_address(page: Page, address: str) -> None:
    """Open another address of the page, once it is signed in."""
    page.get_by_role("navigation").wait_for()
    visit(page, urljoin(page.url, address))


def run(cluster: KajiUp, name: str, *command: str, options: Sequence[str] = ("--grace", "1s")) -> None:
    """Start a run of two small members on this machine."""
    here = ("-n", "2", "--cpus", "0.1", "-m", "64m")
    done = cluster.kaji("run", "-d", "-q", "--name", name, *here, *options, "python:3", *command)
    assert done.returncode == 0, done
