"""Sweeps in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.xdist_group("browser")

SEARCH = """
import json, os
index = int(os.environ["KAJI_ARRAY_INDEX"])
if index == 4:
    raise SystemExit("the loss is not finite")
with open(os.environ["KAJI_RESULT"], "w") as file:
    json.dump({"lr": 10.0**-index, "val_loss": (index - 2) ** 2}, file)
"""


def test_a_sweep_shows_its_best_members_and_why_others_failed(cluster: KajiUp, page: Page) -> None:
    """Beside the list of sweeps. The keyboard finds the best in the plot, makes the sweep a page and goes back to the
    list; a filter and the order of a column stand in the address."""
    small = ("--cpus", "0.1", "-m", "64m", "python:3", "python3", "-c", SEARCH)
    assert cluster.kaji("run", "-d", "-q", "--name", "tune", "--array", "0-4", *small).returncode == 0
    page.get_by_role("link", name="Sweeps").click()
    page.get_by_role("cell", name="val_loss 0 member 2").wait_for()
    page.get_by_role("link", name="tune").click()
    sweep = page.get_by_role("region", name="Sweep default/tune")
    sweep.get_by_text("4 succeeded, 1 failed of 5").first.wait_for()
    page.get_by_role("img", name=re.compile("^Parallel coordinates of 4 members over lr, val_loss")).focus()
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile(r"/sweeps/default/tune\?member=2&list=$"))
    member = page.get_by_role("region", name="Member 2")
    member.get_by_text("place 1 of 4").wait_for()
    assert_accessible(page, "main")
    page.keyboard.press("Escape")
    member.wait_for(state="detached")
    sweep.get_by_role("button", name="Full page").click()
    page.wait_for_url(re.compile(r"/sweeps/default/tune$"))
    page.get_by_role("link", name="Beside the list").click()
    page.wait_for_url(re.compile(r"/sweeps/default/tune\?list=$"))
    sweep.get_by_role("button", name="Full page").wait_for()  # the address comes before the panel
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement.textContent === 'tune'")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/sweeps/default/tune\?list=$"))
    members = page.get_by_role("table", name="Members")
    members.get_by_role("button", name="lr").click()
    members.get_by_role("row").nth(1).get_by_role("link", name="3").wait_for()
    page.get_by_label("Filter members").fill("lr<0.5")
    page.get_by_role("status").get_by_text("3 of 5 members").wait_for()
    page.wait_for_url(re.compile(r"\?text=lr%3C0.5&sort=%3Alr&list=$"))
    page.get_by_label("Filter members").fill("")
    page.get_by_role("button", name="Failed 1").click()
    page.get_by_role("list", name="Failures by reason").get_by_text("1 member: ProgramFailed: ").wait_for()
    page.get_by_text("kaji results -N default tune --state failed").wait_for()
