"""The nodes, networks and GPUs of the cluster in a browser."""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import MINUTES, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.xdist_group("browser-2")

_GPU = {"name": "gpu.used", "unit": "%", "kind": "gauge", "description": "Share of time"}
NODE_FIGURES = {
    "node": "any",
    "since": MINUTES[0],
    "until": MINUTES[2],
    "intervalSeconds": 60,
    "gpus": 2,
    "at": MINUTES[:2],
    "series": [_GPU | {"gpu": 0, "values": [5.0, 10.0]}, _GPU | {"gpu": 1, "values": [90.0, 95.0]}],
    "holders": [
        {"namespace": namespace, "run": run, "gpus": [gpu], "since": MINUTES[0], "until": MINUTES[2]}
        for gpu, (namespace, run) in enumerate((("vision", "bert"), ("", "")))
    ],
    "lastAt": "",
}
"""Figures of a node with two GPUs, which two runs held."""


def test_a_node_is_found_by_keys_drained_and_returned(page: Page) -> None:
    """The reason is shown to everybody; the table holds the same as the map.

    Keys work as soon as the map is there: before the browser tells of its size, which may take long on a busy machine.
    """
    page.evaluate(
        "() => { window.ResizeObserver = class extends ResizeObserver {"
        " constructor(tell) { super((...told) => setTimeout(() => tell(...told), 5_000)) } } }"
    )
    page.route("**/v1/nodes/*/metrics?since=1h**", lambda route: route.fulfill(json=NODE_FIGURES))
    page.get_by_role("link", name="Cluster").click()
    page.wait_for_url(re.compile("/cluster$"))
    nodes = page.get_by_role("img", name=re.compile("^Map of 3 nodes"))
    nodes.focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile("/cluster/.+$"))
    name = page.url.rpartition("/")[2]
    assert name != platform.node().lower(), "the members of other tests run there"
    node = page.get_by_role("region", name=f"Node {name}")
    node.get_by_role("button", name="Drain").click()
    node.get_by_label("Reason").fill("loud <b>fan</b>")
    node.get_by_role("button", name="Drain it").click()
    node.get_by_text("Takes no work: drained by admin: loud <b>fan</b>").wait_for()
    page.get_by_role("button", name=re.compile("Takes no work 1")).click()
    page.get_by_role("status").get_by_text("1 of 3 nodes").wait_for()
    page.get_by_role("button", name="Table").click()
    row = page.get_by_role("table", name="Nodes").get_by_role("row").filter(has_text=name)
    row.get_by_role("cell", name="Draining").wait_for()
    node.get_by_role("button", name="Let it take work again").click()
    node.get_by_text("Takes work", exact=True).wait_for()
    history = node.get_by_role("listitem").filter(has_text=re.compile("by admin"))
    assert [text.partition("\n")[0] for text in history.all_inner_texts()] == [
        "takes work again, by admin",
        "drained by admin: loud <b>fan</b>",
    ]
    row.wait_for(state="detached")
    figures = node.get_by_role("region", name="Figures over time")
    figures.get_by_text("10 % (GPU 0) to 95 % (GPU 1)").first.wait_for()
    figures.get_by_role("link", name="vision/bert").wait_for()
    figures.get_by_role("listitem").filter(has_text="a run that you may not read").wait_for()
    figures.get_by_label("GPU", exact=True).click()
    page.get_by_role("option", name="GPU 1").click()
    page.wait_for_url(re.compile("gpu=1"))
    figures.get_by_text("As a table").click()
    figures.get_by_role("table").get_by_role("cell", name="95 %").wait_for()
    assert_accessible(page, "section[aria-label='Figures over time']")
    figures.get_by_label("Time", exact=True).click()
    page.get_by_role("option", name="Last week").click()
    figures.get_by_text("No agent reported this node in the last week").wait_for()


def test_a_planned_network_is_checked_in_the_servers_words(page: Page) -> None:
    """Beside the field that they are about. The other parts say what is known of traffic and addresses."""
    page.get_by_role("link", name="Networks").click()
    page.get_by_text("No node is counted now").wait_for()
    page.get_by_role("tab", name="Addresses in use").click()
    page.get_by_text("The addresses of all 3 nodes suffice").wait_for()
    page.get_by_role("tab", name="All clusters").click()
    page.get_by_text("This server has no registry of addresses").wait_for()
    page.get_by_role("tab", name="Check a plan").click()
    page.get_by_label("Name of the cluster").fill("lyon")
    page.get_by_label("Ranges of Pods").fill("10.48.0.1/14")
    page.get_by_text("10.48.0.1/14 has address bits beyond its prefix; write 10.48.0.0/14").wait_for()
    page.get_by_label("Ranges of Pods").fill("10.48.0.0/14")
    page.get_by_role("status").get_by_text("The registry would be accepted").wait_for()


def test_the_board_shows_gpus_by_type(page: Page) -> None:
    """The GPU-hours of the last month stay in sight beside a long list of holders: a screen on a wall cannot be
    scrolled."""
    page.get_by_role("link", name="Board").click()
    page.get_by_role("region", name="h100").get_by_text("16 free").wait_for()
    month = page.get_by_role("region", name="The last 30 days")
    month.get_by_text(re.compile("^No run had GPUs|^Runs had GPUs for ")).wait_for()
    use = {"name": "h100", "gpuSeconds": 3_600_000}
    month_of_two = {"since": MINUTES[0], "until": MINUTES[2], "gpuSeconds": 3_600_000, "types": [use]}
    answer = month_of_two | {"teams": [use | {"name": "vision"}], "teamCount": 12}
    page.route("**/v1/board/usage", lambda route: route.fulfill(json=answer))
    visit(page, page.url)
    month.get_by_role("list", name="GPU-hours, by team").get_by_text("1,000 GPU-hours, 100 %").wait_for()
    month.get_by_text("and 11 more teams").wait_for()
    held = {"namespace": "vision", "type": "h100", "gpus": 8, "idle": 0, "since": MINUTES[0]}
    board = {"types": [], "holdings": [held | {"owner": f"person-{number}"} for number in range(400)]}
    page.route("**/v1/board", lambda route: route.fulfill(json=board))
    visit(page, page.url)
    more = page.get_by_role("button", name="Show 385 more, with 3,080 GPUs")
    more.wait_for()
    bottom = month.bounding_box()
    assert bottom is not None and bottom["y"] + bottom["height"] < 900, "the window's height"
    assert_accessible(page, "main")
    more.click()
    page.get_by_role("cell", name="person-399").wait_for()
    page.get_by_role("button", name="Show fewer").click()
    page.get_by_role("cell", name="person-399").wait_for(state="detached")
