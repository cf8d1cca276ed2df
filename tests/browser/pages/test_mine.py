"""The page Mine in a browser: messages, tokens, questions about idle GPUs, and the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import MINUTES, link, open_address, run, visit
from tests.harness.chromium import CALM, PATIENCE_MS
from tests.harness.kaji_up import KajiUp, KajiUpOnRealServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.xdist_group("browser")

IDLE = {
    "run": "notebook",
    "namespace": "default",
    "answer": "asked",
    "keptUntil": "",
    "parkAt": "",
    "gpuHours": 24,
    "cost": 0,
    "currency": "",
    "says": "8 GPUs idle for 3h.",
}


def test_messages_tokens_and_idle_questions_are_on_one_page(cluster: KajiUp, page: Page) -> None:
    """Secrets are hidden while they are typed, and shown at most once. Two answers are written ones, because `kaji up`
    has no robots without a real API server, and GPUs are idle only after hours."""

    def of_idle(route: Route) -> None:
        route.fulfill(json={"items": [IDLE], "total": 1, "gpuHours": 24, "cost": 0, "currency": ""})

    def kept(route: Route) -> None:
        answers.append(route.request.post_data or "")
        route.fulfill(json={})

    answers: list[str] = []
    made = {"name": "ci", "namespace": "default", "user": "u", "role": "user", "token": "secret-token"}
    page.route("**/v1/idle?*", of_idle)
    page.route("**/v1/runs/default/notebook/keep", kept)
    page.route("**/v1/tokens?*", lambda route: route.fulfill(json={"namespace": "default", "items": [], "note": ""}))
    page.route("**/v1/tokens", lambda route: route.fulfill(status=201, json=made | {"expiresAt": MINUTES[0]}))
    page.get_by_role("link", name="admin").click()
    page.get_by_text("You are an operator").wait_for()
    with page.expect_response("**/notebook/keep"):
        page.get_by_role("button", name="Keep for a day").click()
    page.get_by_role("button", name="Add a channel").click()
    form = page.get_by_role("form", name="Add a channel")
    form.get_by_label("Name").fill("Pager")
    form.get_by_label("URL", exact=True).fill("json://127.0.0.1:9/hidden-word")
    assert form.get_by_label("URL", exact=True).get_attribute("type") == "password"
    form.get_by_role("button", name="Add").click()
    form.get_by_text("no valid name for a channel").wait_for()
    form.get_by_label("Name").fill("pager")
    assert_accessible(page, "main")
    form.get_by_role("button", name="Add").click()
    channel = page.get_by_role("listitem").filter(has_text="pager (json): all messages")
    channel.get_by_role("button", name="Test").click()
    channel.get_by_role("status").wait_for()
    channel.get_by_role("button", name="Remove pager").click()
    channel.get_by_role("button", name="Remove it").click()
    channel.wait_for(state="detached")
    assert "hidden-word" not in page.content()
    page.get_by_role("button", name="Make a token").click()
    page.get_by_label("For", exact=True).fill("ci")
    page.get_by_role("button", name="Make it").click()
    page.get_by_text("secret-token").wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_text("secret-token").wait_for(state="detached")
    assert len(answers) == 1 and "until" in answers[0]
    page.unroute("**/v1/tokens?*")
    open_address(page, "/mine")
    if isinstance(cluster, KajiUpOnRealServer):
        page.get_by_role("button", name="Make a token").wait_for()
    else:
        page.get_by_text("No robot can have rights of its own here: ").wait_for()


def test_a_browser_signs_in_by_a_fresh_link_alone(cluster: KajiUp, chromium: Browser) -> None:
    """The code leaves the address at once. A used link is refused in words, and signing out ends the session."""
    run(cluster, "linked", "sleep", "1000")
    used = link(cluster, "linked")
    context = chromium.new_context(reduced_motion=CALM)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    visit(page, used)
    page.get_by_role("heading", name="linked").wait_for()
    assert page.url == used.partition("#")[0]
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Sign in to Kajitori").wait_for()
    assert_accessible(page)
    visit(page, used.partition("/runs")[0] + "/board")  # policy shows it to known people only
    page.get_by_role("heading", name="Sign in to Kajitori").wait_for()
    page.goto("about:blank")
    visit(page, used)
    page.get_by_role("alert").get_by_text("used before or has expired").wait_for()
    page.goto(link(cluster, "linked"))  # the same address but for the code
    page.get_by_role("heading", name="linked").wait_for()
    context.close()
