"""The logs of a run in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import link, open_address, run, visit
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.xdist_group("browser-2")


PRINTS = """
import sys, time
for number in range(3000):
    print(f"step {number}", flush=number % 100 == 0)
try:
    raise ValueError("loss is nan")
except ValueError:
    import traceback
    traceback.print_exc(file=sys.stdout)  # lines of two streams may be mixed
print("javascript:alert(1) https://a@b.example")
print("\\x1b[31mred\\x1b[0m (https://a.example/\\x1b[1mloss\\x1b[0m?step=1)", flush=True)
while True:
    print("tick", flush=True)
    time.sleep(0.1)
"""


def test_a_long_log_is_searched_and_scrolled(cluster: KajiUp, page: Page) -> None:
    """The page loads only a part of the log. While the user reads an earlier part, it counts the new lines."""
    run(cluster, "long", "python3", "-c", PRINTS)
    open_address(page, "/runs/default/long?logs=0")
    log = page.get_by_role("log")
    log.get_by_text("tick", exact=True).first.wait_for()
    field = page.get_by_label("Search", exact=True)
    field.fill("STEP 25")
    field.press("Enter")
    page.get_by_role("status").get_by_text("111 lines").wait_for()
    log.focus()
    page.keyboard.press("n")
    for number in range(2599, 2592, -1):  # the page holds these lines while the log grows
        log.locator(".hit").get_by_text(f"step {number}").wait_for()
        page.get_by_role("button", name=re.compile("new line|To the end")).click()
        log.get_by_text("tick", exact=True).first.wait_for()
        log.press("N")
    field.fill("STEP 12")
    field.press("Enter")
    page.get_by_role("status").get_by_text("111 lines").wait_for()
    log.focus()
    page.keyboard.press("n")
    log.locator(".hit").get_by_text("step 1299").wait_for()
    page.keyboard.press("n")
    log.locator(".hit").get_by_text("step 12", exact=True).wait_for()
    assert log.locator("mark").first.inner_text() == "step 12"
    field.fill("^step 12(00|99)$")
    page.get_by_role("button", name="Regular expression").click()
    page.get_by_role("status").get_by_text("2 lines").wait_for()
    field.press("Enter")
    log.locator(".hit").get_by_text("step 1299").wait_for()
    page.get_by_role("button", name="Match case").click()
    field.fill("STEP (")
    field.press("Enter")
    page.get_by_role("status").get_by_text("missing ): STEP (").wait_for()
    assert_accessible(page, "main")
    page.get_by_label("Go to").fill("1500")
    page.get_by_label("Go to").press("Enter")
    log.get_by_text("step 1499", exact=True).wait_for()
    page.get_by_role("button", name=re.compile("new line|To the end")).click()
    log.get_by_text("tick", exact=True).first.wait_for()
    page.get_by_label("Ranks").fill("0, 1")
    page.get_by_label("Ranks").press("Enter")
    page.wait_for_url(re.compile("logs=0%2C1|logs=0-1"))
    log.locator(".rank", has_text="[1]").first.wait_for()
    page.get_by_role("button", name="Side by side").click()
    page.get_by_role("log", name="Log of rank 1").get_by_text("tick", exact=True).first.wait_for()
    page.get_by_role("tab", name="Members").click()
    page.get_by_role("button", name="Map").click()
    page.get_by_role("img", name="Map of 2 members").focus()
    sizes = page.evaluate(
        "[...document.querySelectorAll('main [aria-live]')].filter(each => getComputedStyle(each).clipPath !== 'none')"
        ".map(each => each.offsetWidth * each.offsetHeight)"
    )
    assert set(sizes) == {1}, "words for screen readers alone take room below the map"
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    member = page.get_by_role("region", name="Chosen member")
    member.get_by_text(re.compile("^Running; on ")).wait_for()
    member.get_by_role("button", name="Log").click()
    page.wait_for_url(re.compile(r"\?rank=1$"))
    page.goto("about:blank")
    assert cluster.kaji("rm", "-f", "long").returncode == 0


def test_a_link_to_a_line_of_a_log_opens_there(cluster: KajiUp, page: Page) -> None:
    """Also once the run is removed, and another one has its name. A search stands in the address, too."""
    small = (
        "--name",
        "linked",
        "--cpus",
        "0.1",
        "-m",
        "64m",
        "python:3",
        "python3",
        "-c",
        "for i in range(3000): print(f'step {i}')",
    )
    assert cluster.kaji("run", "-q", *small).returncode == 0
    open_address(page, "/runs/default/linked")
    log = page.get_by_role("log")
    field = page.get_by_label("Search", exact=True)
    field.fill("step 1700")
    field.press("Enter")
    page.get_by_role("status").get_by_text("1 line").wait_for()
    field.press("Enter")
    log.locator(".hit").get_by_text("step 1700").wait_for()
    page.wait_for_url(re.compile(r"line=0%401%2C20.*search=step\+1700|search=step\+1700&line=0%401%2C20"))
    line = log.locator(".line", has_text="step 1702")
    line.hover()
    line.locator(".place").click()
    page.get_by_role("status").get_by_text(re.compile("^Link to the line copied|^The address of the page")).wait_for()
    log.locator(".hit").get_by_text("step 1702").wait_for()
    address = line.locator(".place").get_attribute("href")
    assert address is not None
    page.get_by_role("button", name="Copy link to the marked line").wait_for()
    assert_accessible(page, "main")
    page.goto("about:blank")
    assert cluster.kaji("rm", "linked").returncode == 0
    run(cluster, "linked", "sleep", "1000")
    visit(page, urljoin(link(cluster), address))
    page.get_by_text("Removed from the cluster").wait_for()
    log.locator(".hit").get_by_text("step 1702").wait_for()
    log.locator("mark").get_by_text("step 1700").wait_for()
    assert field.input_value() == "step 1700"
    page.get_by_role("tab", name="Attempts").click()
    page.get_by_role("table", name="Attempts").wait_for()
    page.goto("about:blank")
    assert cluster.kaji("rm", "-f", "linked").returncode == 0


def test_a_traceback_is_folded_and_an_address_is_a_link(cluster: KajiUp, page: Page) -> None:
    """To its message and its last frame, until the person opens it. Colours and matches go on within the link."""
    run(cluster, "broken", "python3", "-c", PRINTS.partition("while True")[0] + "time.sleep(1000)")
    open_address(page, "/runs/default/broken")
    log = page.get_by_role("log")
    fold = log.get_by_role("button", name="ValueError: loss is nan")
    fold.wait_for()
    assert not log.get_by_text("Traceback (most recent call last)").count()
    fold.click()
    log.get_by_text("Traceback (most recent call last)").wait_for()
    assert log.get_by_text("red", exact=True).evaluate("found => found.style.color") != ""
    (address,) = log.get_by_role("link").all()
    assert address.get_attribute("href") == address.inner_text() == "https://a.example/loss?step=1"
    assert (address.get_attribute("target"), address.get_attribute("rel")) == ("_blank", "noopener noreferrer nofollow")
    page.get_by_label("Search", exact=True).fill("EXAMPLE/LOSS")
    page.get_by_label("Search", exact=True).press("Enter")
    log.get_by_role("link").locator("mark").first.wait_for()
    assert "".join(address.locator("mark").all_inner_texts()) == "example/loss"
    assert_accessible(page, "main")
    page.goto("about:blank")
    assert cluster.kaji("rm", "-f", "broken").returncode == 0
