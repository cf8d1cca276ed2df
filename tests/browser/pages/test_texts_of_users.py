"""Texts that users control, on all pages of the web page: they stay texts.

One run has hostile texts wherever a program or a person can put some: in its output, its files, its results, its
series and the reason of its node. Beside that, every text in every answer of the server gets HTML and a script
appended, in the browser and before the page reads it, apart from those that the server itself chooses. In dialogs, in
the search and in lists of names, even names get them.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.browser.pages.hostile_texts import CHOSEN_BY_THE_SERVER, HACK, HOSTILE, MADE, HostilePage, hostile_page
from tests.browser.pages.steps import link
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = pytest.mark.xdist_group("browser")

LINK = f"\x1b]8;;javascript:{HACK}\x1b\\link\x1b]8;;\x1b\\"
TYPED = f"\\033]8;;javascript:{HACK}\\007link\\033]8;;\\007 <img src=x onerror={HACK}>\\n"
PROGRAM = f"""
import json, os, time
print({HOSTILE!r})
print({LINK!r}, "\\x1b[31mred\\x1b[0m \\x1b]0;{HOSTILE.replace('"', "")}\\x07", flush=True)
folder = os.environ["KAJI_CHECKPOINT_DIR"]
os.makedirs(folder, exist_ok=True)
open(os.path.join(folder, "<{MADE}>javascript:{HACK}"), "w").close()
time.sleep(1000)
"""
SEARCH = f"""
import json, os
with open(os.environ["KAJI_RESULT"], "w") as file:
    json.dump({{{HOSTILE!r}: {HOSTILE!r} + os.environ["KAJI_ARRAY_INDEX"], "loss": 1.5}}, file)
raise SystemExit({HOSTILE!r} if os.environ["KAJI_ARRAY_INDEX"] == "1" else 0)
"""

TEXTS = f"main :text('{MADE}')"
PAGES = {
    "/runs": TEXTS,
    "/runs/default/hostile": f"[role=log] :text('{MADE}')",
    "/runs/default/hostile?tab=figures": f"[role=img][aria-label*='{MADE}']",
    "/runs/default/hostile?tab=members": TEXTS,
    "/runs/default/hostile?tab=attempts": TEXTS,
    "/runs/default/hostile?tab=events": TEXTS,
    "/runs/default/hostile?tab=files": f"main :text('{MADE}>javascript')",
    "/runs/default/hostile?tab=time": TEXTS,
    "/start?from=default/hostile": TEXTS,
    "/queue/default/held": TEXTS,
    "/queue?as=table": TEXTS,
    "/cluster": "main [role=img]",
    "/cluster?as=table": TEXTS,
    "/board": "main h1",
    "/sweeps": TEXTS,
    "/sweeps/default/tried": TEXTS,
    "/networks": TEXTS,
    "/networks?part=use": TEXTS,
    "/usage?by=owner": TEXTS,
    "/history": TEXTS,
    "/audit": TEXTS,
    "/mine": TEXTS,
}
"""What each page has to show, as a CSS selector, before it is looked at. Maps draw on a canvas."""

AT = ("2026-11-23T10:00:00Z", "2026-11-23T10:01:00Z")
BAND = {"attempt": 1, "count": 1, "min": {"value": 1, "rank": 0}, "max": {"value": 9, "rank": 0}}
POINTS = [{**BAND, "at": at, "p10": 1.5, "p50": 2, "p90": 3} for at in AT]
SERIES = {"name": HOSTILE, "unit": HOSTILE, "kind": "last", "description": HOSTILE, "points": POINTS}
FIGURES = {
    "run": "hostile",
    "namespace": "default",
    "uid": "1",
    "since": AT[0],
    "until": AT[1],
    "intervalSeconds": 60,
    "ranks": 1,
    "series": [SERIES],
}
"""A written answer, since a real one takes minutes."""
IDLE = {
    "run": HOSTILE,
    "namespace": HOSTILE,
    "answer": "asked",
    "keptUntil": "",
    "parkAt": "",
    "gpuHours": 24,
    "cost": 1,
    "currency": HOSTILE,
    "says": HOSTILE,
}
CHANNEL = {"name": HOSTILE, "scheme": HOSTILE, "kinds": [HOSTILE], "sentAt": AT[0], "waiting": 1, "error": HOSTILE}
ROBOT = {"name": HOSTILE, "namespace": HOSTILE, "user": HOSTILE, "role": "user", "owner": HOSTILE, "createdAt": AT[0]}
TOKEN = ROBOT | {"token": HOSTILE, "expiresAt": AT[1]}
TEAM = {"name": HOSTILE, "namespaces": [HOSTILE], "leads": [HOSTILE], "members": [HOSTILE], "yours": True}
TEMPLATE = {"description": HOSTILE, "spec": {"image": HOSTILE, "command": [HOSTILE], "env": {HOSTILE: HOSTILE}}}
BOARD = {
    "at": AT[0],
    "types": [{"type": HOSTILE, "total": 8, "used": 4, "idle": 1, "free": 4, "broken": 0}],
    "holdings": [
        {"owner": HOSTILE, "namespace": HOSTILE, "type": HOSTILE, "gpus": 4, "idle": 1, "since": AT[0]},
    ],
}
USE = {"name": HOSTILE, "gpuSeconds": 3600}
MONTH = {"since": AT[0], "until": AT[1], "gpuSeconds": 3600, "types": [USE], "teams": [USE], "teamCount": 2}
"""Written answers: `kaji up` has no robots, GPUs are idle only after hours, and its policy has no teams, templates or
public board."""


@pytest.fixture(scope="module")
def hostile(cluster: KajiUp) -> Iterator[KajiUp]:
    """A cluster with hostile texts in runs, their output, files and results, and in the reason of a drained node."""
    small = ("--cpus", "0.1", "-m", "64m")
    words = ("-e", f"NOTE={HOSTILE}", "--checkpoint", "/ckpt", "python:3", "python3", "-c", PROGRAM, HOSTILE)
    tried = ("--array", "0-1", *small, "python:3", "python3", "-c", SEARCH)
    held = ("--gpus", "8", "-n", "2", "python:3", "train", HOSTILE)
    here = platform.node().lower()
    node = next(name for name in cluster.kaji("nodes", "-o", "name").stdout.split() if name != here)
    commands = [
        ("drain", node, "--reason", HOSTILE[:200]),
        ("run", "-d", "-q", "--name", "hostile", *small, *words),
        ("run", "-d", "-q", "--name", "tried", *tried),
        ("run", "-d", "-q", "--name", "held", *held),
    ]
    for command in commands:
        done = cluster.kaji(*command)
        assert done.returncode == 0, (command, done)
    cluster.kaji("wait", "tried")
    yield cluster
    cluster.kaji("uncordon", node)
    assert cluster.kaji("rm", "-f", "-v", "hostile", "tried", "held").returncode == 0


def test_texts_of_users_never_become_html(hostile: KajiUp, chromium: Browser) -> None:
    """No script runs, no element is made, no rule of the content policy is broken, no other host is asked."""
    with hostile_page(chromium, link(hostile)) as found:
        page = found.page
        page.route("**/hostile/metrics?*", lambda route: route.fulfill(json=FIGURES))
        found.hear(CHOSEN_BY_THE_SERVER)
        for place, shown in PAGES.items():
            found.visit(place)
            found.look(place, shown)
        found.visit("/runs/default/hostile?tab=terminal&rank=0")
        screen = page.locator(".xterm-rows")
        screen.get_by_text(re.compile("[#$]")).first.wait_for()
        page.keyboard.type(f"printf '{TYPED}'; echo en''ded\n")
        screen.get_by_text("ended", exact=True).wait_for()
        screen.get_by_text(f"link <img src=x onerror={HACK}>").click(position={"x": 5, "y": 5}, force=True)
        found.look("the terminal", ".xterm-rows")


def test_hostile_names_stay_texts_in_dialogs_lists_and_the_search(hostile: KajiUp, chromium: Browser) -> None:
    """Also in what the server says of them: what the page asks for a hostile name is refused."""
    with hostile_page(chromium, link(hostile)) as found:
        found.hear(name for name in CHOSEN_BY_THE_SERVER if name not in ("name", "namespace", "run"))
        found.page.route("**/v1/teams", lambda route: route.fulfill(json={"items": [TEAM]}))
        _stop_and_delete(found)
        _search(found)
        _drain(found)
        _answer_and_revoke(found)
        _start(found)


def test_hostile_texts_stay_texts_on_the_board_for_visitors(hostile: KajiUp, chromium: Browser) -> None:
    with hostile_page(chromium, urlsplit(link(hostile))._replace(fragment="").geturl()) as found:
        found.hear(CHOSEN_BY_THE_SERVER)
        found.page.route("**/v1/board", lambda route: route.fulfill(json=BOARD))
        found.page.route("**/v1/board/usage", lambda route: route.fulfill(json=MONTH))
        found.visit("/board")
        found.page.get_by_role("button", name="Sign in").wait_for()
        found.look("the board", f"main h2:text('{MADE}')")
        found.look("the last month", f"main li :text('{MADE}')")


def _stop_and_delete(found: HostilePage) -> None:
    """Select all runs and ask to delete them; delete one on its page, which shows the port of its notebook."""
    page = found.page
    found.visit("/runs")
    found.look("the runs", f"main a:text('{MADE}')")
    for key in "jxjxjx":
        page.keyboard.press(key)
    page.get_by_role("button", name="Delete 3").click()
    found.look("the dialog that deletes several runs", f"[role=dialog] :text('{MADE}')")
    page.get_by_role("dialog").get_by_role("button", name="Delete 3 runs").click()
    found.look("the refusals of several runs", f"main [role=status] :text('{MADE}')")

    def as_notebook(route: Route) -> None:
        programs = [f"/programs/{HOSTILE}/{port}/" for port in (HOSTILE, 8888)]
        route.fulfill(json=route.fetch().json() | {"programs": programs})

    page.route("**/v1/runs/default/hostile", as_notebook)
    found.visit("/runs/default/hostile")
    page.get_by_role("button", name="Delete", exact=True).click()
    found.look("the dialog that deletes a run", f"[role=dialog] h2 :text('{MADE}')")
    found.look("the notebook's links", "main a[target=_blank]:text('Open')")


def _search(found: HostilePage) -> None:
    """Look for everything; stop one run, resume another."""
    page = found.page
    found.visit("/sweeps")
    page.get_by_role("navigation").wait_for()
    for text, shown in {"a": "Teams", "stop hostile": "Stop", "resume tried": "Resume"}.items():
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search").fill(text)
        page.get_by_role("listbox").get_by_text(re.compile(f"^{shown}")).first.wait_for()
        found.look(f"the search for {text!r}", f"[role=option] :text('{MADE}')")
        if text == "a":
            page.keyboard.press("Escape")
            continue
        page.keyboard.press("Enter")
        if text.startswith("stop"):
            found.look("the dialog that stops a run", f"[role=dialog] li :text('{MADE}')")
            page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        found.look(f"what became of {text!r}", f".MuiSnackbar-root :text('{MADE}')")
        page.get_by_role("button", name="Close").click()
        page.locator(".MuiSnackbar-root").wait_for(state="detached")


def _drain(found: HostilePage) -> None:
    """Drain a node, which is refused."""
    page = found.page
    found.visit(f"/cluster/{platform.node().lower()}")
    found.look("a node", f"section[aria-label^=Node] :text('{MADE}')")
    page.get_by_role("button", name="Drain").click()
    page.get_by_label("Reason").fill(HOSTILE)
    page.get_by_role("button", name="Drain it").click()
    found.look("a drain that is refused", f"section [role=alert] :text('{MADE}')")


def _answer_and_revoke(found: HostilePage) -> None:
    """Answer the question about an idle notebook; test and remove a channel; make a token and revoke a robot."""
    page = found.page
    page.route("**/v1/idle?*", lambda route: route.fulfill(json={"items": [IDLE], "total": 1} | IDLE))
    page.route("**/v1/channels", lambda route: route.fulfill(json={"recipient": HOSTILE, "items": [CHANNEL]}))
    page.route("**/v1/tokens?*", lambda route: route.fulfill(json={"items": [ROBOT], "note": ""}))
    page.route("**/v1/tokens", lambda route: route.fulfill(status=201, json=TOKEN))
    found.visit("/mine")
    for button in ("Keep for a day", "Test", "Remove", "Remove it", "Revoke", "Revoke them", "Make a token"):
        page.get_by_role("button", name=re.compile(f"^{button}(?! it| them)")).first.click()
    page.get_by_label("For", exact=True).fill("ci")
    page.get_by_role("button", name="Make it").click()
    found.look("a token", f"code:text('{MADE}')")
    for refused in (1, 2, 3):
        found.look("an idle notebook, a channel, a robot", f":nth-match(main li [role=alert], {refused})")
    page.unroute("**/v1/tokens?*")
    page.route("**/v1/tokens?*", lambda route: route.fulfill(json={"items": [], "note": HOSTILE}))
    found.visit("/mine")
    found.look("why there are no robots", f"section p:text('{MADE}')")


def _start(found: HostilePage) -> None:
    """See what policy changes in a run; begin with a template of the policy, and with one of my runs."""
    page = found.page
    page.route("**/v1/policy", lambda route: route.fulfill(json={"policy": {"templates": {HOSTILE: TEMPLATE}}}))
    found.visit("/start")
    page.get_by_role("textbox", name="Image").fill("python:3")
    found.look("what policy changes", f"[role=status] p:text('{MADE}')")
    page.get_by_role("button", name="Copy one of my runs").click()
    found.look("my runs", f"[role=menuitem]:text('{MADE}')")
    page.keyboard.press("Escape")
    page.get_by_role("menu").wait_for(state="detached")
    page.get_by_role("button", name="Begin with a template").click()
    found.look("the templates", f"[role=menuitem] p:text('{MADE}')")
    page.get_by_role("menuitem").first.click()
    found.look("the faults of a template", f"main .Mui-error:text('{MADE}')")
