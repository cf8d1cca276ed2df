"""All pages keep the rules of accessibility."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest
from tests.browser.pages.accessibility import assert_accessible, assert_reflows
from tests.browser.pages.steps import run, visit
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.xdist_group("browser")


def test_all_pages_keep_the_rules_of_accessibility(cluster: KajiUp, page: Page) -> None:
    """The pages are those that the rail names, policy, events, and the tabs of a run; the menu of columns and the list
    of keys, too. No page has to be scrolled sideways in a narrow window, with wide spacing. The page then has the dark
    colours that the person chose, from the first paint on."""
    run(cluster, "axe", "sleep", "1000")
    page.get_by_role("link", name="axe").wait_for()
    assert_accessible(page)
    page.get_by_role("button", name="Columns").press("Enter")
    page.get_by_role("menuitemcheckbox", name="Owner").wait_for()
    assert_accessible(page, "[role=menu]")
    page.keyboard.press("Escape")
    page.get_by_role("menu").wait_for(state="detached")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    assert_accessible(page, "[role=dialog]")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    for link_of_page in page.get_by_role("navigation").get_by_role("link").all():
        link_of_page.click()
        page.get_by_role("heading", level=1).wait_for()
        assert_accessible(page, "main")
        assert_reflows(page)
    for address in ("/events", "/policy"):
        visit(page, urljoin(page.url, address))
        page.locator("main li").first.wait_for()
        assert_accessible(page, "main")
        assert_reflows(page)
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("link", name="axe", exact=True).click()
    page.get_by_role("tab").first.wait_for()
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert_accessible(page, "main")
    assert_reflows(page)
    page.get_by_role("button", name="Colours").click()
    assert_accessible(page, "[role=menu]")
    page.get_by_role("menuitemradio", name="Dark").click()
    page.get_by_role("menu").wait_for(state="detached")
    is_dark = "() => getComputedStyle(document.body).backgroundColor === 'rgb(20, 24, 28)'"
    page.wait_for_function(is_dark)
    page.reload(wait_until="commit")
    assert page.locator("meta[name=color-scheme]").get_attribute("content") == "dark"
    page.wait_for_function(is_dark)
    page.get_by_role("button", name="Colours").click()
    page.get_by_role("menuitemradio", name="As the system").click()
    page.wait_for_function(f"() => !({is_dark})()")
    assert "kaji-colours" not in {cookie["name"] for cookie in page.context.cookies()}
