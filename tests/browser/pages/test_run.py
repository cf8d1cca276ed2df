"""The page of a run in a browser: its facts, figures, files, terminal, and what can be done with it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import MINUTES, open_address, run, visit
from tests.harness.kaji_up import KajiUp, KajiUpOnRealServer

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.xdist_group("browser-2")

HOSTILE = "<img src=x onerror=alert(1)>"

SCRIPT = f"import time\nprint('{HOSTILE}')\nprint('10%\\r20%\\r30%')\nprint('second', flush=True)\ntime.sleep(1000)"

BAND = {"attempt": 1, "count": 2, "min": {"value": 1, "rank": 0}, "max": {"value": 9, "rank": 1}}

HANGS = """
import os, threading
def load_batch(): threading.Event().wait()
def all_reduce(): threading.Event().wait()
print("first step", flush=True)
load_batch() if os.environ["KAJI_RANK"] == "1" else all_reduce()
"""

POINTS = [{**BAND, "at": at, "p10": 1.5, "p50": 2, "p90": 3} for at in MINUTES]

STEPS = [{**point, "p50": step} for point, step in zip(POINTS, (100, 200, 300), strict=True)]

LOSS = {"name": "train.loss", "unit": "", "kind": "last", "description": "Written by the program", "points": POINTS}

STEP = {**LOSS, "name": "train.step", "points": STEPS}

BANDS = {
    "run": "plotted",
    "namespace": "default",
    "uid": "1",
    "since": MINUTES[0],
    "until": MINUTES[-1],
    "intervalSeconds": 60,
    "ranks": 2,
    "series": [LOSS, STEP],
}

COPY_FACTS = """() => {
    getSelection().selectAllChildren(document.querySelector("dl:has(time)"));
    const clipboardData = new DataTransfer();
    document.dispatchEvent(new ClipboardEvent("copy", { clipboardData, cancelable: true }));
    getSelection().empty();
    return clipboardData.getData("text/plain");
}"""
"""Selects the times of a run and copies them."""

RECORD_NOTICES = """() => {
    window.notices = [];
    window.Notification = class {
        static permission = "default";
        static requestPermission = async () => (Notification.permission = "granted");
        constructor(title, { body }) { notices.push(`${title}: ${body}`); }
    };
}"""
"""Records the notices that the page shows by the browser."""


def test_a_run_is_found_read_stopped_resumed_and_deleted(cluster: KajiUp, page: Page) -> None:
    """The output of a program is shown as text, HTML as well. A progress bar stays one line."""
    run(cluster, "bert", "python3", "-c", SCRIPT)
    run(cluster, "other", "sleep", "1000")
    page.get_by_role("row").filter(has_text="bert").get_by_text("Running").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("BERT running")
    page.get_by_role("link", name="other").wait_for(state="detached")
    page.wait_for_url(re.compile(r"/runs\?whose=mine&text=BERT\+running$"))
    page.get_by_role("link", name="bert").click()
    page.wait_for_url(re.compile(r"/runs/default/bert\?list=whose%3Dmine%26text%3DBERT%2Brunning$"))
    page.wait_for_function("() => document.title === 'bert: Running – Kajitori'")
    assert re.search(r"Created\n\d+ .* ago \(\w+ \d+, 20\d\d, .*\)", page.evaluate(COPY_FACTS)), "the exact time"
    label_and_find_others(page)
    log = page.get_by_role("log")
    log.get_by_text("second", exact=True).wait_for()
    assert log.locator(".text").all_inner_texts() == [HOSTILE, "30%", "second"]
    assert not page.locator("img").count()
    page.get_by_role("tab", name="Members").click()
    page.get_by_role("row", name=re.compile("^1 Running")).get_by_role("button", name="Log").click()
    page.wait_for_url(re.compile(r"\?rank=1&list=whose%3Dmine%26text%3DBERT%2Brunning$"))
    page.get_by_role("tab", name="Events").click()
    page.get_by_text("Started").first.wait_for()
    page.get_by_role("button", name="Change limits").click()
    change = page.get_by_role("dialog", name="Change the limits of bert")
    change.get_by_label("Time limit").fill("0s")
    change.get_by_role("button", name="Change", exact=True).click()
    change.get_by_text("'0s' is not above zero").wait_for()
    change.get_by_label("Time limit").fill("7d")
    change.get_by_text("kaji update --time-limit 7d -N default bert").wait_for()
    assert_accessible(page, "[role=dialog]")
    change.get_by_role("button", name="Change", exact=True).click()
    change.wait_for(state="detached")
    assert cluster.kaji("inspect", "bert").stdout.count('"timeLimit": "7d"')
    page.evaluate(RECORD_NOTICES)
    page.get_by_role("button", name="Tell me when it ends").click()
    page.get_by_role("button", name="Do not tell me its end").wait_for()
    page.get_by_role("button", name="Stop").click()
    loss = page.get_by_role("dialog", name="Stop bert?")
    loss.get_by_text(re.compile("bert: started .* ago, no checkpoint known")).wait_for()
    loss.get_by_role("button", name="Stop bert").click()
    page.get_by_text("Stopped").first.wait_for()
    page.wait_for_function("() => notices.length > 0")
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("Running").first.wait_for()
    page.get_by_role("button", name="Tell me when it ends").click()
    page.get_by_role("button", name="Do not tell me its end").wait_for()
    assert cluster.kaji("restart", "bert").returncode == 0
    page.wait_for_function("() => notices.length > 1")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url(re.compile(r"/runs\?whose=mine&text=BERT\+running$"))
    page.get_by_role("link", name="bert").wait_for(state="detached")
    stopped, restarted = "bert was stopped: Stopped on request.", "bert restarts: Somebody asked for it."
    assert page.evaluate("notices") == [f"{stopped}\nTeam default", f"{restarted}\nTeam default"]


def label_and_find_others(page: Page) -> None:
    """Give the run a label, follow the label to the list of all runs that have it, and go back."""
    page.get_by_role("button", name="Add labels").click()
    page.get_by_role("textbox", name="Labels").fill("stage=final")
    page.get_by_text("kaji label -N default bert stage=final").wait_for()
    assert_accessible(page, "[role=dialog]")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="stage=final").click()
    page.wait_for_url(re.compile(r"/runs\?whose=all&text=stage%3Dfinal$"))
    page.wait_for_function("() => document.querySelector('input[aria-label=Filter]').value === 'stage=final'")
    page.get_by_role("link", name="other").wait_for(state="detached")
    page.get_by_role("link", name="bert").wait_for()
    assert page.get_by_role("row").count() == 2, "a header and one run"
    page.go_back()


def test_figures_of_all_ranks_lead_to_those_of_one(cluster: KajiUp, page: Page) -> None:
    """The answers are written ones, since real ones take minutes. The words name the ranks of the extremes. Curves over
    steps, with a logarithmic axis and smoothed, stand in the address.

    The first requests for the figures and their code are lost, as if the browser's network changed. The code of the
    Time tab is gone until the page loads itself again, as after an upgrade of the server.
    """
    lost: list[str] = []

    def lose(route: Route, times: int, otherwise: Callable[[], None]) -> None:
        name = urlsplit(route.request.url).path
        if lost.count(name) >= times:
            otherwise()
        else:
            lost.append(name)
            route.abort()

    def with_a_checkpoint(route: Route) -> None:
        report = route.fetch().json()
        report["checkpoints"]["times"] = [MINUTES[1]]
        route.fulfill(json=report)

    run(cluster, "plotted", "sleep", "1000")
    page.route("**/plotted/report", with_a_checkpoint)
    page.route("**/plotted/metrics?*", lambda route: lose(route, 1, lambda: route.fulfill(json=BANDS)))
    page.route("**/assets/Figures-*.js", lambda route: lose(route, 1, route.continue_))
    page.route("**/assets/Time-*.js", lambda route: lose(route, 3, route.continue_))
    page.route("**/plotted/members/1/metrics*", lambda route: route.fulfill(json={"series": []}))
    open_address(page, "/runs/default/plotted?tab=figures")
    plot = page.get_by_role("img", name=re.compile("^train.loss: median 2, 1 .rank 0. to 9 .rank 1.$"))
    page.get_by_text("▲: a checkpoint was written.").wait_for()
    plot.wait_for()
    for button in ("Step", "Log"):
        page.get_by_role("button", name=button, exact=True).click()
    page.get_by_label("Smoothing").click()
    page.get_by_role("option", name="Mean of 5 points").click()
    page.wait_for_url(re.compile(r"\?tab=figures&x=step&y=log&smooth=mean-5$"))
    assert_accessible(page, "main")
    page.get_by_text("kaji metrics -N default --since 1h plotted").wait_for()
    plot = page.get_by_role("img", name=re.compile("^train.loss: step 300: median 2, 1 .rank 0. to 9 .rank 1.$"))
    plot.locator(".u-over").click(position={"x": 200, "y": 5})
    page.wait_for_url(re.compile(r"\?tab=figures&x=step&y=log&smooth=mean-5&rank=1$"))
    page.get_by_text("The last hour of rank 1").wait_for()
    page.get_by_role("tab", name="Time").click()
    page.get_by_role("row", name=re.compile("^productive|^starting|^queued")).first.wait_for()
    assert len(lost) == 5


def test_findings_about_a_run_are_shown_and_answered(cluster: KajiUp, page: Page) -> None:
    """It may be stuck, and its GPUs are idle: in the server's words. The time report names the categories. A note is
    written beside them, as plain text with links."""
    run(cluster, "found", "sleep", "1000")

    def with_findings(route: Route) -> None:
        view = route.fetch().json()
        view["status"] |= {"stuck": {"since": MINUTES[0], "message": "It may be stuck: no progress for 20m."}}
        view["status"] |= {"idle": {"since": MINUTES[0], "attempt": 1, "gpus": 8, "fewest": 8, "most": 8}}
        route.fulfill(json=view)

    def keep(route: Route) -> None:
        answers.append(route.request.post_data or "")
        route.fulfill(json={})

    answers: list[str] = []
    page.route("**/v1/runs/default/found", with_findings)
    page.route("**/found/idle?*", lambda route: route.fulfill(json={"found": {"says": "8 GPUs idle for 3h."}}))
    page.route("**/found/keep", keep)
    open_address(page, "/runs/default/found?tab=time")
    page.get_by_text("It may be stuck: no progress for 20m.").wait_for()
    page.get_by_role("button", name="Write a note").click()
    page.get_by_role("textbox", name="Note").fill(f"{HOSTILE}\nsee https://wiki.example/a?b=1.")
    with page.expect_response("**/found/note"):
        page.get_by_role("button", name="Save").click()
    note = page.get_by_role("region", name="Note")
    note.get_by_text(HOSTILE, exact=True).wait_for()
    assert note.get_by_role("link").get_attribute("href") == "https://wiki.example/a?b=1"
    note.get_by_text(re.compile("^admin, .* ago$")).wait_for()
    assert cluster.kaji("note", "found").stdout.startswith(HOSTILE)
    with page.expect_response("**/found/keep"):
        page.get_by_role("alert").filter(has_text="8 GPUs idle").get_by_role("button", name="Keep for a day").click()
    page.get_by_role("row", name=re.compile("^productive|^starting|^queued")).first.wait_for()
    assert len(answers) == 1 and "until" in answers[0]


def test_why_shows_where_a_hung_runs_ranks_are(cluster: KajiUp, page: Page) -> None:
    """Rank 1 hangs, and rank 0 waits for it: a look at real processes. The page looks when it is asked to, and never
    by itself. The stacks that are kept when rank 1 is killed are shown when the run is removed. The refusal to show
    those of an earlier attempt is a written answer."""
    asked: list[str] = []

    def of_attempts(route: Route) -> None:
        asked.append(urlsplit(route.request.url).query)
        if asked[-1]:
            # The browser logs a status of 403 as an error, for which a test fails.
            problem = {"detail": "you may not create pods/exec", "hint": "ask your team's lead", "status": 403}
            route.fulfill(status=422, content_type="application/problem+json", json=problem)
        else:
            route.fulfill(json=route.fetch().json() | {"keptAttempts": [1]})

    def with_suspicion(route: Route) -> None:
        view = route.fetch().json()
        view["status"] |= {"stuck": {"since": MINUTES[0], "message": "It may be stuck: no progress for 20m."}}
        route.fulfill(json=view)

    once = ("--restarts", "0", "--grace", "10s", "-e", f"MARK={cluster.home}")
    run(cluster, "hung", "python3", "-c", HANGS, options=once)
    page.route("**/v1/runs/default/hung", with_suspicion)
    page.route(re.compile("/hung/why"), of_attempts)
    open_address(page, "/runs/default/hung?rank=1")
    page.get_by_role("log").get_by_text("first step").wait_for()
    page.get_by_role("button", name="Show why").click()
    page.wait_for_url(re.compile(r"tab=stuck&rank=1$"))
    if isinstance(cluster, KajiUpOnRealServer):  # nothing on its node takes stacks, and the page says so
        page.get_by_text(re.compile("^Where its processes are is not known: ")).wait_for()
        assert not page.get_by_role("heading", name=re.compile("^Rank")).count()
        return
    page.get_by_role("heading", name="Rank 1").wait_for()
    page.get_by_text(re.compile(r"Rank 1 on .* is in load_batch")).wait_for()
    unfold = page.get_by_role("button", name="Show the stack of rank 1")
    unfold.focus()
    page.keyboard.press("Enter")
    stack = re.compile(r"Rank 1 on .*, process \d+: .*\n +load_batch", re.DOTALL)
    page.locator("code").filter(has_text=stack).wait_for()
    assert_accessible(page, "main")
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    removed = page.url
    assert asked == [""]
    with page.expect_response(re.compile("/hung/why$")):
        page.get_by_role("button", name="Look again").press("Enter")
    page.get_by_label("Stacks").select_option("Kept of attempt 1")
    page.wait_for_url(re.compile(r"tab=stuck&attempt=1$"))
    page.get_by_role("alert").get_by_text("you may not create pods/exec").wait_for()
    page.get_by_label("Stacks").select_option("A look now")
    page.get_by_role("heading", name="Rank 1").wait_for()
    assert asked == ["", "", "attempt=1"]
    page.unroute_all()
    os.kill(cluster.members("hung")[1], signal.SIGKILL)
    page.get_by_text("Failed", exact=True).wait_for()
    uid = json.loads(cluster.kaji("inspect", "hung", "-o", "json").stdout)[0]["uid"]
    page.goto("about:blank")
    assert cluster.kaji("rm", "hung").returncode == 0
    visit(page, removed.replace("hung", uid).replace("tab=stuck", "tab=why"))  # a link from before its new name
    page.get_by_text(re.compile("^Removed from the cluster")).wait_for()
    page.get_by_text(re.compile("^Attempt 1 at .*, before its members were ended: member 1: ")).wait_for()
    page.get_by_text(re.compile(r"Rank 0 on .* (is|waits) in all_reduce")).wait_for()
    page.get_by_role("button", name="Show the stack of rank 0").click()
    page.locator("code").filter(
        has_text=re.compile(r"Rank 0 on .*, process \d+: .*\n +all_reduce", re.DOTALL)
    ).wait_for()
    assert page.get_by_role("tab", name="Stuck or slow").evaluate("tab => tab.getBoundingClientRect().right") <= 360


def test_a_person_works_inside_a_member(cluster: KajiUp, page: Page) -> None:
    """A terminal opens as soon as the member runs. The end of the shell is told, and another one can be opened, also by
    the keyboard: the terminal, which takes all keys, gives up the focus. Beside it are the processes and the files of
    the member. One process, or the programs of all members, get a signal."""
    run(cluster, "shell", "sleep", "1000")
    open_address(page, "/runs/default/shell?tab=terminal&rank=1")
    screen = page.locator(".xterm-rows")
    screen.get_by_text(re.compile("[#$]")).first.wait_for()
    page.get_by_text("Connect from your computer").click()
    page.get_by_text("kaji exec -it --rank 1 shell bash", exact=True).wait_for()
    page.get_by_text("1.shell.kaji", exact=True).wait_for()
    assert_accessible(page, "main details")
    page.locator(".xterm-screen").click()
    page.keyboard.type("echo rank-$KAJI_RANK; exit 3\n")
    screen.get_by_text("rank-1", exact=True).wait_for()
    page.get_by_role("alert").get_by_text("The shell has ended with exit code 3.").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for(state="detached")
    page.get_by_role("tab", name="Processes").click()
    row = page.get_by_role("row").filter(has_text="sleep 1000")
    row.get_by_role("button", name=re.compile("^Send a signal to process")).click()
    page.get_by_role("combobox", name="Signal").click()
    page.get_by_role("option", name="CONT").click()
    page.get_by_role("button", name="Send CONT").click()
    page.get_by_text(re.compile(r"^Process \d+ got CONT\.$")).wait_for()
    signal_all_members(page)
    open_address(page, f"/runs/default/shell?tab=files&inside=1&path={quote(str(cluster.home))}")
    for answer in ("1 file arrived.", "is there already."):
        chosen = {"name": "学.txt", "mimeType": "text/plain", "buffer": b"weights"}
        page.get_by_label("Files to upload").set_input_files(chosen)  # type: ignore[arg-type]
        page.get_by_text(answer).wait_for()
    page.get_by_role("button", name="Upload nothing").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="学.txt").click()
    assert Path(download.value.path()).read_text() == "weights"


def signal_all_members(page: Page) -> None:
    """Only signals with which the run goes on are offered, as `kaji kill -s` sends them."""
    page.get_by_role("button", name="Signal all members").click()
    dialog = page.get_by_role("dialog", name="Send a signal to the programs of shell")
    dialog.get_by_label("Ranks").fill("1-x")
    dialog.get_by_role("button", name="Send USR1").click()
    dialog.get_by_text("write ranks as 3, 0-3 or 0-3,7").wait_for()
    dialog.get_by_label("Ranks").fill("")
    dialog.get_by_role("combobox", name="Signal").click()
    assert not page.get_by_role("option", name="TERM").count()
    page.get_by_role("option", name="CONT").click()
    dialog.get_by_text("kaji kill -N default -s CONT shell", exact=True).wait_for()
    assert_accessible(page, "[role=dialog]")
    dialog.get_by_role("button", name="Send CONT").click()
    dialog.get_by_role("status").get_by_text("The programs of 2 members got CONT.").wait_for()
    dialog.get_by_role("button", name="Close").click()


def test_files_of_an_ended_runs_checkpoint_are_downloaded(cluster: KajiUp, page: Page) -> None:
    """No member mounts the folder any more. Its names may be of any script."""
    writes = 'cd "$KAJI_CHECKPOINT_DIR" && mkdir 最終 && printf weights > 最終/model.pt && ln -s /etc/passwd evil'
    small = ("--cpus", "0.1", "-m", "64m", "--checkpoint", "/ckpt")
    done = cluster.kaji("run", "-q", "--name", "saved", *small, "python:3", "sh", "-c", writes)
    assert done.returncode == 0, done
    open_address(page, "/runs/default/saved?tab=files")
    page.get_by_role("button", name="最終/").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="model.pt").click()
    assert Path(download.value.path()).read_text() == "weights"
    page.get_by_role("group", name="Folder").get_by_role("button", name="/ckpt").click()
    page.get_by_role("cell", name="evil").wait_for()
    assert not page.get_by_role("link", name="evil").count()
    assert_accessible(page, "main")
    page.goto("about:blank")
    assert cluster.kaji("rm", "-f", "-v", "saved").returncode == 0
