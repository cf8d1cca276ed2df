"""The page goes on if the browser's clock is wrong, a run goes away, a log is large, and texts are in any script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.steps import link, open_address, run, visit
from tests.harness.chromium import CALM
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("browser-2")

WRONG_CLOCK = """
(ahead => {
    const Real = Date;
    window.Date = class extends Real {
        constructor(...given) { given.length ? super(...given) : super(Real.now() + ahead); }
        static now() { return Real.now() + ahead; }
    };
})"""

LARGE = """
import sys, time
line = "x" * 999
for number in range(100_000):
    sys.stdout.write(f"{number:06} {line[7:]}\\n")
print("the end", flush=True)
time.sleep(1000)
"""
"""100 MB in lines of 1,000 bytes."""
HELD_BYTES = 60_000_000
"""Memory of scripts that the page may take with a large log open; the log would take at least 100 MB."""

SCRIPTS = (
    "学習は順調です",
    "التدريب يسير على ما يرام",
    "האימון מתקדם היטב",
    "обучение идёт",
    "훈련이 잘 진행됩니다",
    "प्रशिक्षण 🚀",
)
"""Japanese, Arabic, Hebrew, Russian, Korean, Hindi."""


@pytest.mark.parametrize("hours", [-30, 30])
def test_ages_are_right_if_the_clock_of_the_browser_is_wrong(cluster: KajiUp, chromium: Browser, hours: int) -> None:
    """The page takes the time from the server's answers: a run that began just now is seconds old."""
    run(cluster, "timed", "sleep", "1000")
    context = chromium.new_context(reduced_motion=CALM, viewport={"width": 1440, "height": 900})
    context.add_init_script(f"{WRONG_CLOCK}({hours * 3_600_000})")
    page = context.new_page()
    visit(page, link(cluster))
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="timed"))
    row.get_by_text(re.compile(r"^\d+ (s|min) ago$")).first.wait_for()
    assert not row.get_by_text(re.compile(r"^\d+ (h|d) ago$|^in \d")).count()
    row.get_by_role("link", name="timed").click()
    created = page.get_by_text("Created", exact=True).locator("xpath=..")
    created.get_by_text(re.compile(r"^\d+ (s|min) ago$")).wait_for()
    context.close()
    assert cluster.kaji("rm", "-f", "timed").returncode == 0


def test_the_page_of_a_run_that_is_deleted_elsewhere_keeps_its_log(cluster: KajiUp, chromium: Browser) -> None:
    """It says that the run was removed, has no buttons that change it, and shows no later run of that name."""
    run(cluster, "doomed", "sh", "-c", "echo first words; sleep 1000")
    context = chromium.new_context(reduced_motion=CALM, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    visit(page, link(cluster, "doomed"))
    log = page.get_by_role("log")
    log.get_by_text("first words", exact=True).wait_for()
    assert cluster.kaji("rm", "-f", "doomed").returncode == 0
    page.get_by_text("Removed from the cluster").wait_for()
    page.get_by_role("button", name="Stop").wait_for(state="detached")
    run(cluster, "doomed", "sh", "-c", "echo second words; sleep 1000")
    log.get_by_text("first words", exact=True).wait_for()
    assert page.get_by_text("Removed from the cluster").is_visible()
    assert not log.get_by_text("second words").count()
    visit(page, page.url)
    log.get_by_text("second words", exact=True).wait_for()
    context.close()


def test_a_log_of_100_mb_is_shown_from_its_end_and_its_beginning(cluster: KajiUp, page: Page) -> None:
    """The browser holds a small part of it. Once the node has dropped all but the newest 50 MB, the log says so."""
    done = cluster.kaji(
        *("run", "-d", "-q", "--name", "large", "--grace", "1s", "--cpus", "1", "-m", "256m"),
        *("python:3", "python3", "-c", LARGE),
    )
    assert done.returncode == 0, done
    open_address(page, "/runs/default/large")
    log = page.get_by_role("log")
    log.get_by_text("the end", exact=True).wait_for()
    place = page.get_by_role("textbox", name="Go to")
    place.fill("1")
    place.press("Enter")
    log.get_by_text(re.compile("MB printed before this line were dropped|^000000 x")).first.wait_for()
    log.get_by_text(re.compile(r"^0\d{5} x+$")).first.wait_for()
    page.get_by_role("button", name=re.compile("new line|To the end")).click()
    log.get_by_text("the end", exact=True).wait_for()
    tools = page.context.new_cdp_session(page)
    tools.send("HeapProfiler.collectGarbage")
    assert tools.send("Runtime.getHeapUsage")["usedSize"] < HELD_BYTES
    page.goto("about:blank")
    assert cluster.kaji("rm", "-f", "large").returncode == 0


def test_texts_in_any_script_are_shown_and_found(cluster: KajiUp, page: Page) -> None:
    """In the command, the log, the note and the search of the list. The page is not wider than a telephone."""
    run(cluster, "scripts", "sh", "-c", 'printf "%s\\n" "$@"; sleep 1000', "sh", *SCRIPTS)
    assert cluster.kaji("note", "scripts", " / ".join(SCRIPTS)).returncode == 0
    page.get_by_label("Filter").fill(SCRIPTS[1])
    page.get_by_role("link", name="scripts").click()
    log = page.get_by_role("log")
    for text in SCRIPTS:
        log.get_by_text(text, exact=True).wait_for()
        page.locator("code, pre").filter(has_text=text).first.wait_for()
    page.get_by_text(" / ".join(SCRIPTS)).first.wait_for()
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_function("document.documentElement.scrollWidth <= 360")
    page.get_by_label("Search", exact=True).fill(SCRIPTS[3].upper())
    page.get_by_label("Search", exact=True).press("Enter")
    page.get_by_role("status").get_by_text("1 line").wait_for()
