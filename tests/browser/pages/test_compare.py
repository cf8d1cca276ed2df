"""The page that compares runs, in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import MINUTES, open_address, run
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.xdist_group("browser")


def line(index: int, values: tuple[float, ...]) -> dict[str, object]:
    points = [{"at": at, "attempt": 1, "p50": value} for at, value in zip(MINUTES, values, strict=True)]
    return {"run": index, "points": points}


ABOUT = {"unit": "", "description": "Written by the program"}
FIGURES = [
    {"name": "train.loss", **ABOUT, "lines": [line(0, (4.0, 2.0, 1.0)), line(1, (4.0, 3.0, 2.5))]},
    {"name": "train.step", **ABOUT, "lines": [line(0, (10, 20, 30)), line(1, (10, 20, 30))]},
]


def test_two_runs_are_selected_and_compared(cluster: KajiUp, page: Page) -> None:
    """The runs and their differences are real, the points of their curves are written ones, since real ones take
    minutes. The link shows the same in another window; a run that is gone hides no other."""

    def with_curves(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(json=answer.json() | {"figures": FIGURES})

    run(cluster, "slow", "sh", "-c", "exec sleep 1000 # --lr 1e-4")
    run(cluster, "fast", "sh", "-c", "exec sleep 1000 # --lr 1e-3")
    page.route("**/v1/compare?*", with_curves)
    for name in ("slow", "fast"):
        page.get_by_role("row").filter(has_text=name).get_by_role("checkbox").click()
    page.get_by_role("link", name="Compare 2").click()
    page.wait_for_url(re.compile(r"/compare\?run=default%2F(slow|fast)&run=default%2F(slow|fast)$"))
    open_address(page, "/compare?run=default/fast&run=default/slow")
    table = page.get_by_role("table", name="Values of the runs")
    table.get_by_role("row", name="--lr 1e-3 1e-4").wait_for()
    assert not table.get_by_role("row", name="image").count()
    page.get_by_label("Differences only").click()
    table.get_by_role("row", name="image python:3 python:3").wait_for()
    loss = page.get_by_role("img", name="train.loss: fast 1, slow 2.5")
    loss.hover(position={"x": 90, "y": 60})
    page.get_by_role("img", name="train.loss: after 0: fast 4, slow 4").wait_for()
    page.get_by_role("button", name="Step", exact=True).press("Enter")
    page.wait_for_url(re.compile(r"\?run=default%2Ffast&run=default%2Fslow&all=true&x=step$"))
    page.get_by_text("kaji compare --all default/fast default/slow").wait_for()
    assert_accessible(page, "main")
    page.get_by_label("Add a run", exact=True).last.fill("default/gone")
    page.keyboard.press("Enter")
    page.get_by_text("default/gone: There is no run 'gone' in namespace default").wait_for()
    page.get_by_role("button", name="Take out default/gone").click()
    page.get_by_role("button", name="Take out slow").click()
    page.get_by_text("One run is chosen.").wait_for()
