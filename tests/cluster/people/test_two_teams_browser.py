"""Users of two teams in a browser: they sign in at an OpenID provider and act, also with a real API server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.harness.chromium import new_page, visit
from tests.harness.cluster import THIS_MACHINE, Cluster, this_machine
from tests.harness.platform.parts import HERE
from tests.harness.servers.identity_provider import PREFIX, SCOPES, IdentityProvider
from tests.harness.web_api import LeaderHere, WebApi, web_api
from tests.helpers.callers.two_teams import may_submit
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.blobs.code import CodeLimits, CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.platform.applying import apply
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.sign_in import SignIn
from kajitori.core.policy.runs.templates import Template
from kajitori.entrypoints.parts.stores import history_of
from kajitori.install.parts.roles import OPERATORS
from kajitori.kube.resources import NODES

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

RBAC = "rbac.authorization.k8s.io"
NODE = "gpu-00003"
SMALL: dict[str, Any] = {"image": "python:3", "resources": {"cpu": "100m", "memory": "64Mi"}, "grace": "1s"}
ALL_GPUS: dict[str, Any] = {
    "image": "python:3",
    "replicas": 8,
    "resources": {"cpu": 1, "memory": "1Gi", "gpu": 8},
    "timeLimit": "30m",
}
"""A run on all simulated nodes."""
OPERATE = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "operators-of-tests"},
    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": OPERATORS},
    "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": f"{PREFIX}operators"}],
}


@pytest.fixture
async def web(teamed: Cluster, identity_provider: IdentityProvider) -> AsyncIterator[WebApi]:
    """A Web API where people sign in, with this machine as a node and a template for runs on it."""
    blobs = MemoryBlobs()
    await apply(teamed.client, OPERATE)
    await may_submit(teamed, identity_provider.id_token("lena"))
    place = SignIn(identity_provider.issuer, scopes=SCOPES, ca=identity_provider.ca.read_text())
    stores: dict[str, Any] = {"blobs": blobs, "kept_logs": KeptLogs(blobs), "leader": LeaderHere()}
    stores |= {"code": CodeStore(blobs, lambda: CodeLimits(size_bytes=1 << 20))}
    teams = teamed.policy.current().policy.teams  # the controller removes the bindings of others
    async with this_machine(teamed) as here, history_of(f"sqlite://{teamed.folder}/history.db", None) as history:
        template = Template.model_validate({"spec": SMALL | {"nodeSelector": here}})
        policy = teamed.policy.current().policy.model_copy(update={"templates": {"here": template}, "teams": teams})
        teamed.policy = PolicyFile(None, without_file=policy)
        teamed.start_controller()
        async with web_api(teamed, for_members=True, history=history, sign_in=place, **stores) as web:
            yield web


@pytest.fixture
async def page(web: WebApi) -> AsyncIterator[Page]:
    """A page of a browser that is not signed in."""
    async with new_page(ignore_https_errors=True) as page:
        yield page


@pytest.mark.parametrize("teamed", ["embedded"], indirect=True)
async def test_a_form_outlives_a_lost_session(web: WebApi, page: Page) -> None:
    """Its sender signs in at the provider again and comes back to the form. After signing out, pages show nothing."""
    await visit(page, f"{web.url}/start")
    await sign_in(page, "lena")
    await page.wait_for_url(f"{web.url}/start")
    await page.get_by_role("textbox", name="Image").fill("python:3")
    await page.get_by_label("Name").fill("kept")
    await page.get_by_label("CPUs each").fill("0.1")
    await page.get_by_label("Memory each").fill("64m")
    await page.get_by_role("status").get_by_text("Starts at once").wait_for()
    await end_session(page.context, web)
    await page.get_by_role("button", name="Start", exact=True).click()
    await page.get_by_role("alert").get_by_text("Your session has ended.").wait_for()
    await sign_in(page, None)
    await page.wait_for_url(f"{web.url}/start")
    assert await page.get_by_role("textbox", name="Image").input_value() == "python:3"
    await page.get_by_role("button", name="Start", exact=True).click()
    await page.wait_for_url(f"{web.url}/runs/{web.cluster.namespace}/kept")
    await page.get_by_role("heading", name="kept").wait_for()
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_role("heading", name="Sign in to Kajitori").wait_for()
    await visit(page, f"{web.url}/runs/{web.cluster.namespace}/kept")
    await page.get_by_role("heading", name="Sign in to Kajitori").wait_for()


@pytest.mark.parametrize("teamed", ["embedded"], indirect=True)
async def test_a_viewer_is_offered_nothing_that_the_server_would_refuse(web: WebApi, page: Page) -> None:
    """vera may only see the team's runs: she gets no buttons for changes of runs and nodes, no terminal, and no such
    command from the search. The form says why she cannot start a run."""
    await web.submit("seen", SMALL | {"command": ["sleep", "1000"], "nodeSelector": THIS_MACHINE})
    await visit(page, f"{web.url}/runs?whose=all")
    await sign_in(page, "vera")
    await page.get_by_role("row").filter(has_text="seen").get_by_text("Running").wait_for()
    for key in ("j", "x"):
        await page.keyboard.press(key)
    selected = page.get_by_role("toolbar", name="Selected runs")
    await selected.get_by_text("1 selected").wait_for()
    assert await selected.get_by_role("button").all_inner_texts() == ["Select none"]
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{web.url}/runs/{web.cluster.namespace}/seen?list=whose%3Dall")
    await page.get_by_role("tab", name="Figures", selected=True).wait_for()  # logs are for users of the team
    await page.get_by_role("tab", name="Members").click()
    await page.get_by_role("row", name=re.compile("^0 Running")).wait_for()
    assert not await page.get_by_role("tab", name="Log").count()
    for words in ("Stop", "Resume", "Delete", "Copy and change", "Log", "Change limits", "Add labels", "Write a note"):
        assert not await page.get_by_role("button", name=words).or_(page.get_by_role("link", name=words)).count(), words
    await page.get_by_role("button", name="Map", exact=True).click()
    await page.get_by_text("Choose a member for its figures.").wait_for()
    assert not await page.get_by_role("tab", name="Terminal").count()
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Search").fill("seen")
    await page.get_by_role("option", name=f"seen {web.cluster.namespace}").wait_for()
    assert not await page.get_by_role("option", name=re.compile("^(Stop|Delete)")).count()
    await visit(page, f"{web.url}/cluster/{HERE}")
    await page.get_by_role("region", name=f"Node {HERE}").get_by_text("Takes work", exact=True).wait_for()
    assert not await page.get_by_role("button", name="Drain").count()
    await visit(page, f"{web.url}/start")
    await page.get_by_text("You may see runs, but not start them.").wait_for()
    assert not await page.get_by_role("button", name="Start", exact=True).count()


@pytest.mark.parametrize("teamed", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
async def test_users_and_operators_work_in_a_browser(web: WebApi, page: Page) -> None:
    """On a real API server, with the rights that `kajitori install` gives them: lena starts, reads, enters, stops,
    resumes and deletes a run, sees others come and wait, and makes a token for a robot; olga finds a node on the map,
    drains it and returns it."""
    await visit(page, f"{web.url}/start")
    await sign_in(page, "lena")
    run = f"{web.url}/runs/{web.cluster.namespace}/clicked"
    try:
        await start(page)
        await page.wait_for_url(run)
        await read(page)
        await enter(page)
        await stop_and_resume(page)
        await see_runs_come(web, page)
        await see_one_wait(web, page)
        await visit(page, run)
        await delete(page)
        await make_token(page)
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("heading", name="Sign in to Kajitori").wait_for()
        await page.context.clear_cookies()
        await visit(page, f"{web.url}/cluster")
        await sign_in(page, "olga")
        await find_on_map(page)
        await drain_and_return(page)
    finally:
        await web.cluster.client.patch(NODES, NODE, {"spec": {"unschedulable": None, "taints": None}})


async def sign_in(page: Page, user: str | None) -> None:
    """Sign in from the server's page. The provider asks who the user is, unless it knows (None), and for consent."""
    await page.get_by_role("link", name="Sign in").click()
    if user is not None:
        await page.locator("input[name=login]").fill(user)
        await page.locator("input[name=password]").fill("any")
        await page.locator("[type=submit]").click()
    await page.get_by_role("button", name="Continue").click()
    await page.get_by_role("navigation").wait_for()


async def end_session(context: BrowserContext, web: WebApi) -> None:
    """Let the browser lose the server's cookies, and keep the provider's."""
    for cookie in await context.cookies(web.url):
        if "kaji" in cookie["name"]:
            await context.clear_cookies(name=cookie["name"])


async def start(page: Page) -> None:
    """Fill the form from the template."""
    await page.get_by_role("button", name="Begin with a template").click()
    await page.get_by_role("menuitem", name="here").click()
    await page.get_by_label("Name").fill("clicked")
    await page.get_by_label("Command").fill("sh -c 'echo rank $KAJI_RANK; sleep 1000'")
    await page.get_by_role("textbox", name="Members").fill("2")
    await page.get_by_role("status").get_by_text("Starts at once").wait_for()
    await page.get_by_role("button", name="Start", exact=True).click()


async def read(page: Page) -> None:
    """Look at the log and the members."""
    await page.get_by_role("log").get_by_text("rank 0", exact=True).wait_for()
    await page.get_by_role("tab", name="Members").click()
    await page.get_by_role("row", name=re.compile("^1 Running")).get_by_role("button", name="Log").click()
    await page.get_by_role("log").get_by_text("rank 1", exact=True).wait_for()
    await page.get_by_role("tab", name="Events").click()
    await page.get_by_text("Started").first.wait_for()


async def enter(page: Page) -> None:
    """Use a shell in a member."""
    await page.get_by_role("tab", name="Terminal").click()
    screen = page.locator(".xterm-rows")
    await screen.get_by_text(re.compile("[#$]")).first.wait_for()
    await page.keyboard.type("echo shell-$((40+2)); exit\n")
    await screen.get_by_text("shell-42", exact=True).wait_for()


async def stop_and_resume(page: Page) -> None:
    """Stop the run once the page calls it Running: nothing is lost before, and the page asks nothing then."""
    await page.wait_for_function("() => document.title === 'clicked: Running – Kajitori'")
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    await page.get_by_text("Stopped").first.wait_for()
    await page.get_by_role("button", name="Resume").click()
    await page.get_by_text("Running").first.wait_for()


async def see_runs_come(web: WebApi, page: Page) -> None:
    """The open list shows runs that others submit, and how they go."""
    await page.get_by_role("link", name="Runs", exact=True).click()
    await page.get_by_role("button", name="All", exact=True).click()
    rows = page.get_by_role("row")
    await rows.filter(has_text="clicked").get_by_text("Running").wait_for()
    await web.submit("holds", ALL_GPUS)
    await rows.filter(has_text="holds").get_by_text("Running").wait_for()
    await web.submit("waits", ALL_GPUS | {"replicas": 2})
    await rows.filter(has_text="waits").get_by_text("Queued").wait_for()


async def see_one_wait(web: WebApi, page: Page) -> None:
    """The queue says when a run is expected to start, and which run has to end before."""
    space = web.cluster.namespace
    await page.get_by_role("link", name="Queue").click()
    await page.get_by_text("1 run waits, 2 runs have nodes.").wait_for()
    await page.get_by_role("img", name=re.compile("^Timeline of 3 runs")).wait_for()
    await page.get_by_role("button", name="Table").click()
    await page.get_by_role("table", name="Queue").get_by_role("link", name="waits").click()
    panel = page.get_by_role("region", name=f"Run {space}/waits")
    await panel.get_by_text("Expected to start in").wait_for()
    await panel.get_by_text(re.compile(f"^{space}/holds ends on ")).wait_for()


async def delete(page: Page) -> None:
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await page.get_by_role("link", name="holds").wait_for()
    await page.get_by_role("link", name="clicked").wait_for(state="detached")


async def make_token(page: Page) -> None:
    """For a robot, which is listed afterwards and whose tokens are revoked."""
    await page.get_by_role("link", name=f"{PREFIX}lena").click()
    await page.get_by_role("button", name="Make a token").click()
    await page.get_by_label("For", exact=True).fill("ci")
    await page.get_by_role("button", name="Make it").click()
    await page.get_by_text("It is shown this once").wait_for()
    await page.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Revoke ci").click()
    await page.get_by_role("button", name="Revoke them").click()
    await page.get_by_role("button", name="Revoke ci").wait_for(state="detached")


async def find_on_map(page: Page) -> None:
    """The filter leaves one node, which the keyboard opens."""
    await page.get_by_label("Filter").fill(NODE)
    await page.get_by_role("status").get_by_text("1 of 9 nodes").wait_for()
    await page.get_by_role("img", name="Map of 9 nodes").focus()
    told = page.locator("[aria-live=polite]").get_by_text(re.compile("^gpu-|^here"))
    for _ in range(9):
        await page.keyboard.press("ArrowRight")
        if (await told.inner_text()).startswith(NODE):
            break
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{page.url.partition('/cluster')[0]}/cluster/{NODE}?text={NODE}")


async def drain_and_return(page: Page) -> None:
    """With a reason."""
    assert NODE != HERE
    node = page.get_by_role("region", name=f"Node {NODE}")
    await node.get_by_role("button", name="Drain").click()
    await node.get_by_label("Reason").fill("loud fan")
    await node.get_by_role("button", name="Drain it").click()
    await node.get_by_text(f"Takes no work: drained by {PREFIX}olga: loud fan").wait_for()
    await node.get_by_role("button", name="Let it take work again").click()
    await node.get_by_text("Takes work", exact=True).wait_for()
