"""Ended runs, their use of the cluster and the audit trail in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import open_address, run
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.xdist_group("browser")


def test_a_removed_run_is_found_in_history_and_copied(cluster: KajiUp, page: Page) -> None:
    """Its page has its log and its attempts, and the audit trail tells who removed it."""
    run(cluster, "gone", "sh", "-c", "echo $KAJI_RANK is done")
    page.get_by_role("row").filter(has_text="gone").get_by_text("Succeeded").wait_for()
    assert cluster.kaji("rm", "gone").returncode == 0
    page.get_by_role("link", name="Usage").click()
    page.get_by_role("table", name="Usage").get_by_role("row").filter(has_text="default").wait_for()
    page.get_by_role("button", name="Run").click()
    page.wait_for_url(re.compile(r"/usage\?by=run$"))
    page.get_by_text("kaji usage --by run --since 30d").wait_for()
    page.get_by_role("region", name="Lost time").get_by_text(re.compile("was productive")).wait_for()
    page.get_by_role("link", name="Ended runs").click()
    page.get_by_label("Name begins with").fill("gon")
    page.wait_for_url(re.compile(r"/history\?name=gon$"))
    page.get_by_role("link", name="gone").wait_for()
    assert_accessible(page, "main")
    page.get_by_role("link", name="gone").click()
    page.wait_for_url(re.compile("/runs/default/[0-9a-f-]{36}$"))
    page.get_by_role("log").get_by_text("0 is done", exact=True).wait_for()
    page.get_by_text("Removed from the cluster").wait_for()
    assert not page.get_by_role("button", name="Delete").count()
    page.get_by_role("tab", name="Attempts").click()
    page.get_by_role("table", name="Attempts").get_by_role("row", name=re.compile("^1 ")).wait_for()
    page.get_by_role("link", name="Copy and change").click()
    page.get_by_text("kaji run --namespace default -n 2 --cpus 0.1").wait_for()
    open_address(page, "/audit?object=run+gone")
    trail = page.get_by_role("table", name="Audit trail")
    trail.get_by_role("row").filter(has_text="delete run").wait_for()
    assert_accessible(page, "main")
