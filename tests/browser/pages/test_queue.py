"""The queue in a browser, and runs that wait for others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import open_address, run
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.xdist_group("browser-2")


def test_the_queue_tells_what_a_waiting_run_waits_for(cluster: KajiUp, page: Page) -> None:
    """The steps name the run that has to end; the map of the cluster shows where."""
    both = ("-d", "-q", "-n", "2", "--gpus", "8", "--time-limit", "2h", "image", "sleep", "1000")
    for name in ("holds", "waits"):
        assert cluster.kaji("run", "--name", name, *both).returncode == 0
    page.get_by_role("link", name="Queue").click()
    page.get_by_text("1 run waits, 1 run has nodes.").wait_for()
    yours = page.get_by_role("list", name="Your waiting runs").get_by_role("listitem")
    yours.filter(has_text=re.compile("^default/waits, 2 members, .*: expected to start in .*, place 1 of 1")).wait_for()
    page.get_by_role("img", name="Timeline of 2 runs").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile("/queue/default/waits$"))
    panel = page.get_by_role("region", name="Run default/waits")
    panel.get_by_text("Expected to start in").wait_for()
    panel.get_by_text(re.compile("^default/holds ends on ")).wait_for()
    page.get_by_role("link", name="Runs", exact=True).click()
    row = page.get_by_role("row").filter(has_text="waits")
    row.get_by_text(re.compile("^expected in (1 h 5|2 h).*: needs 16 ")).wait_for()
    row.get_by_role("link").click()
    page.get_by_text(re.compile(r"^Expected to start in .*Place 1 of 1 in the queue\.")).wait_for()
    page.get_by_role("tab", name="Why it waits", selected=True).wait_for()
    page.get_by_text(re.compile("^default/holds ends on ")).wait_for()
    page.get_by_role("link", name=re.compile("^On the timeline of the queue")).click()
    page.wait_for_url(re.compile("/queue/default/waits$"))
    panel.get_by_role("button", name="What if it asked for something else?").click()
    panel.get_by_role("slider", name="What if it had 2 members?").press("ArrowLeft")
    panel.get_by_text("What if it had 1 member?").wait_for()
    panel.get_by_text(re.compile("^waits until ")).first.wait_for()
    page.get_by_role("img", name="Timeline of 3 runs").wait_for()  # one of them is the what-if
    assert_accessible(page, "main")
    page.get_by_role("button", name="Table").click()
    page.get_by_role("row").filter(has_text="waits").get_by_text("reserved").wait_for()
    panel.get_by_role("link", name="Show these nodes on the map").click()
    page.get_by_role("status").get_by_text("2 of 3 nodes").wait_for()
    assert cluster.kaji("rm", "-f", "holds", "waits").returncode == 0


def test_a_run_that_waits_for_another_one_leads_to_it(cluster: KajiUp, page: Page) -> None:
    """In the queue and on its own page, until the other one has ended."""
    run(cluster, "prepare", "sleep", "1000")
    small = ("-d", "-q", "--cpus", "0.1", "-m", "64m", "--grace", "1s")
    for name, after in {"anyway": "prepare:ended", "never": "prepare"}.items():
        assert cluster.kaji("run", *small, "--name", name, "--after", after, "i", "sleep", "1000").returncode == 0
    page.get_by_role("link", name="Queue").click()
    page.get_by_text(re.compile("2 runs wait for others")).wait_for()
    waiting = page.get_by_role("list", name="Runs that wait for other runs").get_by_role("listitem")
    waiting.filter(has_text="default/anyway of admin after prepare (ended); it is not known when they end").wait_for()
    waiting.filter(has_text="default/never of admin after prepare (succeeded)").wait_for()
    assert_accessible(page, "main")
    waiting.get_by_role("link", name="default/never").click()
    page.get_by_text(re.compile("^Waits for .*prepare")).wait_for()
    page.get_by_text("after prepare (succeeded)").get_by_role("link", name="prepare").click()
    page.wait_for_url(re.compile("/runs/default/prepare$"))
    page.get_by_role("heading", name="prepare").wait_for()
    page.go_back()
    page.get_by_role("heading", name="never").wait_for()
    assert cluster.kaji("stop", "prepare").returncode == 0
    page.get_by_text("Failed").first.wait_for()
    page.get_by_text(re.compile("^It did not start: .*prepare")).wait_for()
    open_address(page, "/runs/default/anyway")
    page.get_by_text("Running").first.wait_for()
    page.get_by_role("link", name="Queue").click()
    waiting.first.wait_for(state="detached")
    assert cluster.kaji("rm", "-f", "prepare", "anyway", "never").returncode == 0
