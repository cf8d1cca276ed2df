"""The list of runs in a browser: by the keyboard, the search, and after a restart of the server."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import link, open_address, run, visit
from tests.harness.chromium import CALM, PATIENCE_MS
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.xdist_group("browser")


def test_an_empty_list_teaches_the_next_step(page: Page) -> None:
    """With a command to copy."""
    page.get_by_text("There are no runs yet").wait_for()
    assert "kaji run" in page.locator("code").inner_text()


def test_the_list_begins_with_ones_own_runs_and_their_last_figures(cluster: KajiUp, page: Page) -> None:
    """A person without runs learns how many others there are. The browser remembers who was chosen, and the address
    tells it to others."""
    run(cluster, "shown", "sleep", "1000")
    uid = json.loads(cluster.kaji("ps", "-o", "json").stdout)["items"][0]["uid"]
    figures = {uid: {"gpu": 87, "leastGpu": 3, "leastRank": 5, "step": 1200.0, "name": "loss", "value": 0.345678}}
    page.route("**/v1/run-figures?uid=*", lambda route: route.fulfill(json={"figures": figures}))
    nobody = 'event: snapshot\ndata: {"items": [], "counts": {"total": 0, "phases": {}}}\n\n'
    mine = "**/v1/runs/changes?owner=*"
    page.route(mine, lambda route: route.fulfill(body=nobody, content_type="text/event-stream"))
    open_address(page, "/runs")
    page.get_by_text("None of the runs here is yours; there is 1 of others.").wait_for()
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("link", name="shown").wait_for()
    page.wait_for_url(re.compile(r"/runs\?whose=all$"))
    page.unroute(mine)
    open_address(page, "/runs")
    page.wait_for_url(re.compile(r"/runs\?whose=all$"))
    page.get_by_role("button", name="Mine").click()
    page.wait_for_url(re.compile("/runs$"))
    row = page.get_by_role("row").filter(has_text="shown")
    row.get_by_text("0.3457").wait_for()
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("menuitemcheckbox", name="GPU use").click()
    page.keyboard.press("Escape")
    assert "3 %, rank 5" in (row.get_by_text("87 %").get_attribute("title") or "")
    page.get_by_role("button", name="GPU use", exact=True).click()  # the order needs the figures of all runs
    page.get_by_role("columnheader", name="GPU use").get_by_text("↑").wait_for()
    row.get_by_text("87 %").wait_for(state="detached")


def test_a_view_is_saved_found_by_the_search_renamed_and_deleted(cluster: KajiUp, page: Page) -> None:
    """It has the filter, the order and the columns. The rows are saved as a file, and one's own ended runs are deleted
    by their age."""
    run(cluster, "seen", "sleep", "1000")
    page.get_by_role("link", name="seen").wait_for()
    page.get_by_label("Filter").fill("see")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("menuitemcheckbox", name="Restarts").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("menuitem", name="Save this view").click()
    page.get_by_label("Name of this view").fill("My view")
    assert_accessible(page, "[role=dialog]")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("menuitemcheckbox", name="Restarts").click()
    page.keyboard.press("Escape")
    states = page.get_by_role("group", name="States")
    states.get_by_text(re.compile("1$")).wait_for()
    page.get_by_label("Filter").fill("other")
    page.get_by_text("No run of yours fits the filter.").wait_for()
    states.get_by_text(re.compile("0$")).wait_for()  # the state stays, with the number of runs that fit
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("my v")
    page.get_by_role("option", name="My view Runs").click()
    page.get_by_role("columnheader", name="Restarts").wait_for()
    page.get_by_role("link", name="seen").wait_for()
    assert page.get_by_label("Filter").input_value() == "see"
    page.get_by_role("button", name="Views").click()
    page.get_by_role("menuitem", name="Save, rename, delete").click()
    page.get_by_label("Rename My view").fill("Ours")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Delete Ours").click()
    page.get_by_text("Ours is deleted.").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_label("Rename Ours").wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Export").click()
    page.get_by_role("dialog", name="Export").get_by_text("kaji ps -a", exact=True).wait_for()
    assert_accessible(page, "[role=dialog]")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save 1 row as CSV").click()
    header, line = download.value.path().read_text().splitlines()
    assert (header.split(",")[:4], line.split(",")[:2]) == (
        ["namespace", "name", "owner", "phase"],
        ["default", "seen"],
    )
    page.get_by_role("dialog").wait_for(state="detached")
    assert cluster.kaji("stop", "seen").returncode == 0
    page.get_by_role("button", name="Clean up").click()
    dialog = page.get_by_role("dialog", name="Delete my runs that have ended")
    dialog.get_by_text("No run of yours ended then.").wait_for()
    dialog.get_by_role("combobox", name="Ended").click()
    page.get_by_role("option", name="at any time").click()
    dialog.get_by_text(re.compile("^1 run: seen")).wait_for()
    assert_accessible(page, "[role=dialog]")
    dialog.get_by_role("button", name="Delete 1 run").click()
    dialog.get_by_text("1 run deleted.").wait_for()


def test_runs_are_selected_stopped_and_opened_by_the_keyboard(cluster: KajiUp, page: Page) -> None:
    """Before several are stopped, the page names what is lost, and afterwards it offers to resume them. The keyboard's
    place can be seen. A click on a header orders the runs, also after a reload."""
    run(cluster, "keys", "sleep", "1000")
    run(cluster, "keys-too", "sleep", "1000")
    for name in ("keys", "keys-too"):
        page.get_by_role("row", name=f"Select {name} Running").filter(has_text="2 of 2").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("keys")
    page.wait_for_url(re.compile(r"\?whose=mine&text=keys$"))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Name", exact=True).click()
    page.get_by_role("columnheader", name="Name").get_by_text("↑").wait_for()
    page.get_by_role("row").nth(1).get_by_role("link", name="keys", exact=True).wait_for()  # rows move no more
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    page.get_by_role("button", name="Stop 2").press("Enter")
    dialog = page.get_by_role("dialog", name="Stop 2 runs?")
    dialog.get_by_text(re.compile("^keys: started .* ago, no checkpoint known")).wait_for()
    assert_accessible(page, "[role=dialog]")
    confirm = dialog.get_by_role("button", name="Stop 2 runs")
    assert confirm.inner_text() == "Stop 2 runs"
    assert confirm.evaluate("button => getComputedStyle(button).outlineStyle") == "solid", "it has the focus"
    page.keyboard.press("Enter")
    page.get_by_text("2 runs stopped.").wait_for()
    page.get_by_role("button", name="Undo: resume 2").wait_for()
    page.locator("[role=status]:focus").wait_for()  # the outcome has the focus of the buttons that are gone
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("2 runs queued again.").wait_for()
    stop_again_what_got_no_answer(page)
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").get_by_text("Next run, previous run").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    visit(page, page.url)
    page.get_by_role("columnheader", name="Name").get_by_text("↑").wait_for()
    open_beside_the_list(page)
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("columnheader", name="Owner").wait_for(state="detached")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    for key in ("k", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile("/runs/default/keys$"))


def stop_again_what_got_no_answer(page: Page) -> None:
    """Stop two runs of which one gets no answer, and try that one again; then resume both."""
    for name in ("keys", "keys-too"):
        page.get_by_role("row", name=f"Select {name} Running").wait_for()
    page.route("**/v1/runs/default/keys/stop", lambda route: route.abort())
    page.get_by_label("Select all rows").click()
    page.get_by_role("button", name="Stop 2").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop 2 runs").click()
    told = page.get_by_role("status").filter(has_text="1 of 2 runs stopped.")
    told.get_by_text("keys: The server does not answer").wait_for()
    page.unroute("**/v1/runs/default/keys/stop")
    told.get_by_role("button", name="Try again: stop 1").click()
    page.get_by_text("1 run stopped.").wait_for()
    for name in ("keys", "keys-too"):
        page.get_by_role("row", name=f"Select {name} Stopped").wait_for()
    page.get_by_label("Select all rows").click()
    page.get_by_role("button", name="Resume 2").click()
    page.get_by_text("2 runs queued again.").wait_for()


def open_beside_the_list(page: Page) -> None:
    """Open the first run beside the list, go to the next one, make it a page, go back, and close it."""
    for key in ("j", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("region", name="Run default/keys", exact=True).get_by_role("tab", name="Log").wait_for()
    page.keyboard.press("j")
    other = page.get_by_role("region", name="Run default/keys-too")
    other.get_by_role("tab", name="Log").wait_for()
    page.wait_for_url(re.compile(r"/runs/default/keys-too\?list=whose%3Dmine%26text%3Dkeys%26sort%3Dname$"))
    assert page.get_by_role("row").filter(has=page.get_by_role("link", name="keys", exact=True)).is_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/runs/default/keys-too$"))
    page.get_by_role("link", name="Beside the list").wait_for()
    page.go_back()
    other.get_by_role("tab", name="Log").wait_for()
    visit(page, page.url)
    other.get_by_role("heading", name="keys-too").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"/runs\?whose=mine&text=keys&sort=name$"))
    page.wait_for_function("() => document.activeElement.textContent === 'keys-too'")


def test_the_focus_goes_to_the_row_of_a_closed_run_once_the_list_arrives(cluster: KajiUp, page: Page) -> None:
    """A run that is closed before the list has come leaves the focus to its row, unless the person went elsewhere."""
    run(cluster, "closed", "sleep", "1000")
    run(cluster, "above", "sleep", "1000")
    lists: list[Route] = []
    page.route("**/v1/runs/changes*", lambda route: lists.append(route))

    def close_before_the_list() -> None:
        open_address(page, "/runs/default/closed?list=")
        page.get_by_role("region", name="Run default/closed").get_by_role("tab", name="Log").wait_for()
        page.keyboard.press("Escape")
        page.wait_for_url(re.compile("/runs$"))

    def send_the_list() -> None:
        for held in lists:
            held.continue_()
        lists.clear()
        page.get_by_role("link", name="closed").wait_for()

    close_before_the_list()
    send_the_list()
    page.wait_for_function("() => document.activeElement.textContent === 'closed'")
    close_before_the_list()
    page.get_by_label("Filter").focus()
    send_the_list()
    assert page.get_by_label("Filter").evaluate("field => field === document.activeElement")


def test_the_search_finds_runs_and_does_what_it_is_told(cluster: KajiUp, page: Page) -> None:
    """By the keyboard alone."""
    run(cluster, "sought", "sleep", "1000")
    page.get_by_role("navigation").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").wait_for()
    page.keyboard.type("SOUG")
    page.get_by_role("option", name="sought default").wait_for()
    assert_accessible(page, "[role=dialog]")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/runs/default/sought$"))
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").wait_for()
    page.keyboard.type("stop sou")
    page.get_by_role("option", name="Stop sought").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Stop sought?").wait_for()
    page.keyboard.press("Enter")
    page.get_by_text("sought: 1 run stopped.").wait_for()


def test_the_list_goes_on_after_a_restart_of_the_server(cluster: KajiUp, chromium: Browser) -> None:
    """It stays on the page and says how old it is; the session is valid afterwards."""
    context = chromium.new_context(reduced_motion=CALM)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    visit(page, link(cluster))
    run(cluster, "early", "sleep", "1000")
    page.get_by_role("link", name="early").wait_for()
    cluster.kill()
    page.get_by_role("status").get_by_text("The server does not answer. This is").wait_for()
    assert page.get_by_role("link", name="early").is_visible()
    cluster.start("--nodes", "2")
    run(cluster, "late", "sleep", "1000")
    page.get_by_role("link", name="late").wait_for()
    page.get_by_role("status").wait_for(state="detached")
    context.close()
