"""Takes pictures of the web page, light and dark, for docs/figures and the README. They are to be looked at.

    python docs/screenshots.py                              what docs/figures has
    python docs/screenshots.py runs/list run/log            these pages only, in all of these kinds
    python docs/screenshots.py --kind full --to /tmp/seen   another kind, as PNG, into another folder

Kinds: usual, wide (1,920 pixels), laptop (1,280), phone (360), empty; full (10,000 runs on 7,500 nodes); long, japanese
and arabic (names and texts of users), with -phone for the page that compares runs; away (the server is gone),
signed-out (its session ended).

The first five share a `kaji up` with simulated nodes in a temporary folder; it takes minutes until the figures of its
runs show something. The others show written objects. Traffic, and what takes weeks to record, are written answers
(screens/answers.py). Japanese needs a font, such as Debian's fonts-vlgothic.

run/tensorboard needs TensorBoard on the PATH. All is done in a mount namespace (unshare), where the home of the
scene is /mnt/ada and the host is called laptop: pictures show no paths of the machine on which they are taken.

Pictures in docs/figures are WebP, which takes half of the space of PNG.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import logging
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urljoin

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx2
from bench.parts.processes import answer, helper
from playwright.sync_api import Browser, Page, Route, StorageState, sync_playwright
from playwright.sync_api import Error as BrowserError
from screens.answers import written_answers
from screens.home import enter, leave_home, show_as_home
from screens.pages import CLICKS, KEPT, KINDS, LATE, PRESSES, SHOWS, TYPES, WHOLE, Kind
from screens.up import kaji, running_up, start_runs

log = logging.getLogger(__name__)

FIGURES = Path(__file__).resolve().parent / "figures"
FIGURES_SECONDS = 240.0
"""Time until the figures of a run have a few points."""
STARTED_SECONDS = 30.0
"""Time until all runs have started."""
SETTLED_MILLISECONDS = 1500.0
LOADED_MILLISECONDS = 60_000.0
LOST_MILLISECONDS = 75_000.0
"""A page asks once a minute who is signed in."""
QUALITY = 88


@dataclass(frozen=True)
class Camera:
    """Takes pictures of the pages of a server in a browser that is signed in."""

    browser: Browser
    server: str
    session: StorageState
    folder: Path

    def take(self, kind: str, wanted: Sequence[str], names: Mapping[str, str]) -> int:
        """Take the pictures of a kind; return the number of pages that did not show what they should."""
        missing, asked = 0, KINDS[kind]
        for name in wanted:
            try:
                with self.opened(asked, name, asked.pages[name].format_map(names)) as page:
                    self.picture(page, name if kind == "usual" else f"{name}-{kind}")
            except BrowserError as error:
                log.error("%s: %s", name, error)
                missing += 1
        return missing

    def take_away(self, kind: str, wanted: Sequence[str], names: Mapping[str, str], leave: Callable[[], None]) -> int:
        """Open all pages of a kind, then let the server go away, or the session end, and take their pictures."""
        asked = KINDS[kind]
        with contextlib.ExitStack() as stack:
            pages = {
                name: stack.enter_context(self.opened(asked, name, address.format_map(names)))
                for name, address in asked.pages.items()
                if name in wanted
            }
            leave()
            for name, page in pages.items():
                if asked.state == "signed-out":
                    page.context.clear_cookies()
                    page.get_by_text("Sign in").first.wait_for(timeout=LOST_MILLISECONDS)
                page.wait_for_timeout(SETTLED_MILLISECONDS)
                self.picture(page, f"{name}-{kind}")
        return 0

    @contextlib.contextmanager
    def opened(self, kind: Kind, name: str, address: str) -> Iterator[Page]:
        """Yield a page that shows what it should."""
        width, height = kind.size
        viewport = {"width": width, "height": height}
        context = self.browser.new_context(viewport=viewport, color_scheme="light", storage_state=self.session)
        page = context.new_page()
        if kind.server == "up" and kind.state == "usual":
            for pattern, content in written_answers(datetime.now(UTC)).items():
                page.route(pattern, answering(content))
        page.goto(urljoin(self.server, address))
        page.locator("h1").first.wait_for(timeout=LOADED_MILLISECONDS)
        for selector in CLICKS.get(name, ()):
            page.locator(selector).first.click()
        if name in PRESSES:
            page.keyboard.press(PRESSES[name])
            page.get_by_role("dialog").wait_for()
        shows = SHOWS.get(name, "h1")
        if name == "run/terminal":
            page.locator(shows).first.wait_for(timeout=LOADED_MILLISECONDS)
        page.keyboard.type(TYPES.get(name, ""))
        page.locator(shows).first.wait_for(timeout=LOADED_MILLISECONDS)
        page.locator(".MuiSkeleton-root").first.wait_for(state="detached", timeout=LOADED_MILLISECONDS)
        page.wait_for_timeout(SETTLED_MILLISECONDS)
        yield page
        context.close()

    def picture(self, page: Page, name: str) -> None:
        """Take the picture of a page as it is, in light and in dark colours. Log if it is wider than the window."""
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.wait_for_timeout(SETTLED_MILLISECONDS / 3)
            path = self.folder / f"{name}-{scheme}.{'webp' if self.folder == FIGURES else 'png'}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._shot(page, path.suffix[1:], whole=name in WHOLE))
        is_wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
        log.info("%s%s", name, " IS WIDER THAN THE WINDOW" if is_wide else "")

    def _shot(self, page: Page, suffix: str, *, whole: bool) -> bytes:
        """Playwright's own function writes no WebP."""
        tools = page.context.new_cdp_session(page)
        asked = {"format": suffix, "captureBeyondViewport": whole}
        asked |= {"quality": QUALITY} if suffix == "webp" else {}
        if whole:
            asked["clip"] = {**tools.send("Page.getLayoutMetrics")["cssContentSize"], "scale": 1}
        return base64.b64decode(tools.send("Page.captureScreenshot", asked)["data"])


def take_of_up(browser: Browser, wanted: Mapping[str, Sequence[str]], to: Path) -> int:
    """Take pictures of a `kaji up`, by their kind, first without runs. Returns the number of pages that failed."""
    with _home() as folder, running_up(folder):
        link = kaji(folder, "open", "--print").strip()
        camera = Camera(browser, link, signed_in(browser, link), to)
        missing = camera.take("empty", wanted["empty"], {}) if "empty" in wanted else 0
        later = {kind: pages for kind, pages in wanted.items() if kind != "empty"}
        if not later:
            return missing
        start_runs(folder)
        began = time.monotonic()
        time.sleep(STARTED_SECONDS)
        for is_patient in (False, True):
            for kind, pages in later.items():
                chosen = [name for name in pages if (name in LATE) == is_patient]
                if chosen and is_patient:
                    time.sleep(max(0.0, began + FIGURES_SECONDS - time.monotonic()))
                missing += camera.take(kind, chosen, {})
        return missing


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """Yield a temporary folder by a path that is the same on every machine."""
    with tempfile.TemporaryDirectory(prefix="kajitori-") as name:
        yield show_as_home(Path(name))
        leave_home()


def take_of_written(browser: Browser, kind: str, wanted: Sequence[str], to: Path) -> int:
    """Take pictures of a server with written objects. Returns the number of pages that failed."""
    with tempfile.TemporaryDirectory(prefix="kajitori-") as folder:
        server = helper("docs.screens.written", KINDS[kind].server, folder)
        try:
            names = {**answer(server), **answer(server)}
            headers = {"Authorization": f"Bearer {names['user']}"}
            code = httpx2.post(f"{names['url']}/v1/sign-in-links", headers=headers, timeout=60).json()["code"]
            camera = Camera(browser, names["url"], signed_in(browser, f"{names['url']}/start#sign-in={code}"), to)
            if KINDS[kind].state == "usual":
                return camera.take(kind, wanted, names)
            leave = _ended(server) if KINDS[kind].state == "away" else lambda: None
            return camera.take_away(kind, wanted, names, leave)
        finally:
            _ended(server)()


def _ended(server: subprocess.Popen[str]) -> Callable[[], None]:
    def end() -> None:
        server.terminate()
        server.wait()

    return end


def answering(content: object) -> Callable[[Route], None]:
    """Return a handler that answers a request of a page with a written answer."""
    return lambda route: route.fulfill(json=content)


def signed_in(browser: Browser, link: str) -> StorageState:
    """Return the session that a link of the command line begins."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.get_by_role("navigation").wait_for(timeout=LOADED_MILLISECONDS)
    session = context.storage_state()
    context.close()
    return session


def main() -> int:
    """Take all pictures. Returns the exit code: 1 if a page did not show what it should; the others are taken."""
    parser = argparse.ArgumentParser(prog="docs/screenshots.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", nargs="*", help="such as runs/list; else all")
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be repeated; else what docs/figures has")
    parser.add_argument("--to", type=Path, default=FIGURES, metavar="FOLDER", help="PNG; else docs/figures")
    options = parser.parse_args()
    enter()
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    chromium = shutil.which("chromium")
    if chromium is None:
        log.error("there is no chromium: apt-get install chromium")
        return 2
    chosen = {kind: set(KINDS[kind].pages) for kind in options.kind} if options.kind else KEPT
    wanted = {kind: [name for name in pages if name in (options.page or pages)] for kind, pages in chosen.items()}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        missing = 0
        if of_up := {kind: pages for kind, pages in wanted.items() if pages and KINDS[kind].server == "up"}:
            missing += take_of_up(browser, of_up, options.to)
        for kind, pages in wanted.items():
            if pages and KINDS[kind].server != "up":
                missing += take_of_written(browser, kind, pages, options.to)
        browser.close()
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
