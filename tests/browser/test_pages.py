"""The web page in a browser, as a person uses it, against `kaji up` with real processes."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import pytest
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import link, visit
from tests.harness.chromium import CALM
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.xdist_group("browser")

HOSTILE = "<img src=x onerror=alert(1)>"
SCRIPT = f"import time\nprint('{HOSTILE}')\nprint('10%\\r20%\\r30%')\nprint('second', flush=True)\ntime.sleep(1000)"

SEARCH = """
import json, os
index = int(os.environ["KAJI_ARRAY_INDEX"])
if index == 4:
    raise SystemExit("the loss is not finite")
with open(os.environ["KAJI_RESULT"], "w") as file:
    json.dump({"lr": 10.0**-index, "val_loss": (index - 2) ** 2}, file)
"""

MINUTES = ("2026-11-23T10:00:00Z", "2026-11-23T10:01:00Z", "2026-11-23T10:02:00Z")
BAND = {"attempt": 1, "count": 2, "min": {"value": 1, "rank": 0}, "max": {"value": 9, "rank": 1}}
POINTS = [{**BAND, "at": at, "p10": 1.5, "p50": 2, "p90": 3} for at in MINUTES]
LOSS = {"name": "train.loss", "unit": "", "kind": "last", "description": "Written by the program", "points": POINTS}
BANDS = {
    "run": "plotted",
    "namespace": "default",
    "uid": "1",
    "since": MINUTES[0],
    "until": MINUTES[-1],
    "intervalSeconds": 60,
    "ranks": 2,
    "series": [LOSS],
}
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


COPY_FACTS = """() => {
    getSelection().selectAllChildren(document.querySelector("dl"));
    const clipboardData = new DataTransfer();
    document.dispatchEvent(new ClipboardEvent("copy", { clipboardData, cancelable: true }));
    getSelection().empty();
    return clipboardData.getData("text/plain");
}"""
"""Selects the facts about a run and copies them."""


def run(cluster: KajiUp, name: str, *command: str) -> None:
    """Start a run of two small members on this machine."""
    here = ("-n", "2", "--cpus", "0.1", "-m", "64m", "--grace", "1s")
    done = cluster.kaji("run", "-d", "-q", "--name", name, *here, "python:3", *command)
    assert done.returncode == 0, done


def open_address(page: Page, address: str) -> None:
    """Open another address of the page, once it is signed in."""
    page.get_by_role("navigation").wait_for()
    visit(page, urljoin(page.url, address))


def test_an_empty_list_teaches_the_next_step(page: Page) -> None:
    """With a command to copy."""
    page.get_by_text("There are no runs yet").wait_for()
    assert "kaji run" in page.locator("code").inner_text()


def test_a_node_is_found_by_keys_drained_and_returned(page: Page) -> None:
    """The reason is shown to everybody; the table holds the same as the map.

    Keys work as soon as the map is there: before the browser tells of its size, which may take long on a busy machine.
    """
    page.evaluate(
        "() => { window.ResizeObserver = class extends ResizeObserver {"
        " constructor(tell) { super((...told) => setTimeout(() => tell(...told), 5_000)) } } }"
    )
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


def test_the_queue_tells_what_a_waiting_run_waits_for(cluster: KajiUp, page: Page) -> None:
    """The steps name the run that has to end; the map of the cluster shows where."""
    both = ("-d", "-q", "-n", "2", "--gpus", "8", "--time-limit", "2h", "image", "sleep", "1000")
    for name in ("holds", "waits"):
        assert cluster.kaji("run", "--name", name, *both).returncode == 0
    page.get_by_role("link", name="Queue").click()
    page.get_by_text("1 run waits, 1 run has nodes.").wait_for()
    yours = page.get_by_role("list", name="Your waiting runs").get_by_role("listitem")
    yours.filter(has_text=re.compile("^default/waits, 2 members, .*: expected to start in .*, place 1 of 1")).wait_for()
    page.get_by_role("img", name="Timeline of 2 runs").focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile("/queue/default/waits$"))
    panel = page.get_by_role("region", name="Run default/waits")
    panel.get_by_text("Expected to start in").wait_for()
    panel.get_by_text(re.compile("^default/holds ends on ")).wait_for()
    page.get_by_role("link", name="Runs", exact=True).click()
    row = page.get_by_role("row").filter(has_text="waits")
    row.get_by_text(re.compile("^expected in (1 h 5|2 h).*: needs 16 ")).wait_for()
    row.get_by_role("link").click()
    page.get_by_text(re.compile(r"^Expected to start in .*Place 1 of 1 in the queue\.")).wait_for()
    page.get_by_role("link", name="What has to happen first").click()
    page.wait_for_url(re.compile("/queue/default/waits$"))
    panel.get_by_role("button", name="What if it asked for something else?").click()
    panel.get_by_role("slider", name="What if it had 2 members?").press("ArrowLeft")
    panel.get_by_text("What if it had 1 member?").wait_for()
    panel.get_by_text(re.compile("^waits until ")).first.wait_for()
    page.get_by_role("img", name="Timeline of 3 runs").wait_for()  # one of them is the what-if
    assert_accessible(page, "main")
    page.get_by_role("button", name="Table").click()
    page.get_by_role("row").filter(has_text="waits").get_by_text("reserved").wait_for()
    panel.get_by_role("link", name="Show these nodes on the map").click()
    page.get_by_role("status").get_by_text("2 of 3 nodes").wait_for()
    assert cluster.kaji("rm", "-f", "holds", "waits").returncode == 0


def test_a_run_that_waits_for_another_one_leads_to_it(cluster: KajiUp, page: Page) -> None:
    """In the queue and on its own page, until the other one has ended."""
    run(cluster, "prepare", "sleep", "1000")
    small = ("-d", "-q", "--cpus", "0.1", "-m", "64m", "--grace", "1s")
    for name, after in {"anyway": "prepare:ended", "never": "prepare"}.items():
        assert cluster.kaji("run", *small, "--name", name, "--after", after, "i", "sleep", "1000").returncode == 0
    page.get_by_role("link", name="Queue").click()
    page.get_by_text(re.compile("2 runs wait for others")).wait_for()
    waiting = page.get_by_role("list", name="Runs that wait for other runs").get_by_role("listitem")
    waiting.filter(has_text="default/anyway of admin after prepare (ended); it is not known when they end").wait_for()
    waiting.filter(has_text="default/never of admin after prepare (succeeded)").wait_for()
    assert_accessible(page, "main")
    waiting.get_by_role("link", name="default/never").click()
    page.get_by_text(re.compile("^Waits for .*prepare")).wait_for()
    page.get_by_text("after prepare (succeeded)").get_by_role("link", name="prepare").click()
    page.wait_for_url(re.compile("/runs/default/prepare$"))
    page.get_by_role("heading", name="prepare").wait_for()
    page.go_back()
    page.get_by_role("heading", name="never").wait_for()
    assert cluster.kaji("stop", "prepare").returncode == 0
    page.get_by_text("Failed").first.wait_for()
    page.get_by_text(re.compile("^It did not start: .*prepare")).wait_for()
    open_address(page, "/runs/default/anyway")
    page.get_by_text("Running").first.wait_for()
    page.get_by_role("link", name="Queue").click()
    waiting.first.wait_for(state="detached")
    assert cluster.kaji("rm", "-f", "prepare", "anyway", "never").returncode == 0


def test_a_run_is_found_read_stopped_resumed_and_deleted(cluster: KajiUp, page: Page) -> None:
    """The output of a program is shown as text, HTML as well. A progress bar stays one line."""
    run(cluster, "bert", "python3", "-c", SCRIPT)
    run(cluster, "other", "sleep", "1000")
    page.get_by_role("row").filter(has_text="bert").get_by_text("Running").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("BERT running")
    page.get_by_role("link", name="other").wait_for(state="detached")
    page.wait_for_url(re.compile(r"/runs\?text=BERT\+running$"))
    page.get_by_role("link", name="bert").click()
    page.wait_for_url(re.compile(r"/runs/default/bert\?list=text%3DBERT%2Brunning$"))
    page.wait_for_function("() => document.title === 'bert: Running – Kajitori'")
    assert re.search(r"Created\n\d+ .* ago \(\w+ \d+, 20\d\d, .*\)", page.evaluate(COPY_FACTS)), "the exact time"
    log = page.get_by_role("log")
    log.get_by_text("second", exact=True).wait_for()
    assert log.locator(".text").all_inner_texts() == [HOSTILE, "30%", "second"]
    assert not page.locator("img").count()
    page.get_by_role("tab", name="Members").click()
    page.get_by_role("row", name=re.compile("^1 Running")).get_by_role("button", name="Log").click()
    page.wait_for_url(re.compile(r"\?rank=1&list=text%3DBERT%2Brunning$"))
    page.get_by_role("tab", name="Events").click()
    page.get_by_text("Started").first.wait_for()
    page.get_by_role("button", name="Stop").click()
    loss = page.get_by_role("dialog", name="Stop bert?")
    loss.get_by_text(re.compile("bert: started .* ago, no checkpoint known")).wait_for()
    loss.get_by_role("button", name="Stop bert").click()
    page.get_by_text("Stopped").first.wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("Running").first.wait_for()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url(re.compile(r"/runs\?text=BERT\+running$"))
    page.get_by_role("link", name="bert").wait_for(state="detached")


def test_a_sweep_shows_its_best_members_and_why_others_failed(cluster: KajiUp, page: Page) -> None:
    """The keyboard finds the best in the plot; a filter and the order of a column stand in the address."""
    small = ("--cpus", "0.1", "-m", "64m", "python:3", "python3", "-c", SEARCH)
    assert cluster.kaji("run", "-d", "-q", "--name", "tune", "--array", "0-4", *small).returncode == 0
    page.get_by_role("link", name="Sweeps").click()
    page.get_by_role("cell", name="val_loss 0 member 2").wait_for()
    page.get_by_role("link", name="tune").click()
    page.get_by_text("4 succeeded, 1 failed of 5").first.wait_for()
    page.get_by_role("img", name=re.compile("^Parallel coordinates of 4 members over lr, val_loss")).focus()
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile(r"/sweeps/default/tune\?member=2$"))
    page.get_by_role("region", name="Member 2").get_by_text("place 1 of 4").wait_for()
    members = page.get_by_role("table", name="Members")
    members.get_by_role("button", name="lr").click()
    members.get_by_role("row").nth(1).get_by_role("link", name="3").wait_for()
    page.get_by_label("Filter").fill("lr<0.5")
    page.get_by_role("status").get_by_text("3 of 5 members").wait_for()
    page.wait_for_url(re.compile(r"\?text=lr%3C0.5&sort=%3Alr&member=2$"))
    page.get_by_label("Filter").fill("")
    page.get_by_role("button", name="Failed 1").click()
    page.get_by_role("list", name="Failures by reason").get_by_text("1 member: ProgramFailed: ").wait_for()
    page.get_by_text("kaji results -N default tune --state failed").wait_for()


PRINTS = """
import sys, time
for number in range(3000):
    print(f"step {number}", flush=number % 100 == 0)
try:
    raise ValueError("loss is nan")
except ValueError:
    import traceback
    traceback.print_exc(file=sys.stdout)  # lines of two streams may be mixed
print("\\x1b[31mred\\x1b[0m", flush=True)
while True:
    print("tick", flush=True)
    time.sleep(0.1)
"""


def test_a_long_log_is_searched_and_scrolled(cluster: KajiUp, page: Page) -> None:
    """The page holds a part of the log; what comes new is counted while the person reads elsewhere."""
    run(cluster, "long", "python3", "-c", PRINTS)
    open_address(page, "/runs/default/long?logs=0")
    log = page.get_by_role("log")
    log.get_by_text("tick", exact=True).first.wait_for()
    field = page.get_by_label("Search", exact=True)
    field.fill("STEP 25")
    field.press("Enter")
    page.get_by_role("status").get_by_text("111 lines").wait_for()
    log.focus()
    page.keyboard.press("n")
    for number in range(2599, 2592, -1):  # the page holds these lines while the log grows
        log.locator(".hit").get_by_text(f"step {number}").wait_for()
        page.get_by_role("button", name=re.compile("new line|To the end")).click()
        log.get_by_text("tick", exact=True).first.wait_for()
        log.press("N")
    field.fill("STEP 12")
    field.press("Enter")
    page.get_by_role("status").get_by_text("111 lines").wait_for()
    log.focus()
    page.keyboard.press("n")
    log.locator(".hit").get_by_text("step 1299").wait_for()
    page.keyboard.press("n")
    log.locator(".hit").get_by_text("step 12", exact=True).wait_for()
    assert log.locator("mark").first.inner_text() == "step 12"
    page.get_by_label("Go to").fill("1500")
    page.get_by_label("Go to").press("Enter")
    log.get_by_text("step 1499", exact=True).wait_for()
    page.get_by_role("button", name=re.compile("new line|To the end")).click()
    log.get_by_text("tick", exact=True).first.wait_for()
    page.get_by_label("Ranks").fill("0, 1")
    page.get_by_label("Ranks").press("Enter")
    page.wait_for_url(re.compile("logs=0%2C1|logs=0-1"))
    log.locator(".rank", has_text="[1]").first.wait_for()
    page.get_by_role("button", name="Side by side").click()
    page.get_by_role("log", name="Log of rank 1").get_by_text("tick", exact=True).first.wait_for()
    page.get_by_role("tab", name="Members").click()
    page.get_by_role("button", name="Map").click()
    page.get_by_role("img", name="Map of 2 members").focus()
    sizes = page.evaluate(
        "[...document.querySelectorAll('main [aria-live]')].filter(each => getComputedStyle(each).clipPath !== 'none')"
        ".map(each => each.offsetWidth * each.offsetHeight)"
    )
    assert set(sizes) == {1}, "words for screen readers alone take room below the map"
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    member = page.get_by_role("region", name="Chosen member")
    member.get_by_text(re.compile("^Running; on ")).wait_for()
    member.get_by_role("button", name="Log").click()
    page.wait_for_url(re.compile(r"\?rank=1$"))
    page.goto("about:blank")
    assert cluster.kaji("rm", "-f", "long").returncode == 0


def test_a_traceback_is_folded(cluster: KajiUp, page: Page) -> None:
    """To its message and its last frame, until the person opens it."""
    run(cluster, "broken", "python3", "-c", PRINTS.partition("while True")[0] + "time.sleep(1000)")
    open_address(page, "/runs/default/broken")
    log = page.get_by_role("log")
    fold = log.get_by_role("button", name="ValueError: loss is nan")
    fold.wait_for()
    assert not log.get_by_text("Traceback (most recent call last)").count()
    fold.click()
    log.get_by_text("Traceback (most recent call last)").wait_for()
    assert log.get_by_text("red", exact=True).evaluate("found => found.style.color") != ""
    page.goto("about:blank")
    assert cluster.kaji("rm", "-f", "broken").returncode == 0


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


def test_a_run_is_started_by_a_form_and_copied(page: Page, tmp_path: Path) -> None:
    """The form shows faults beside their fields, and the command line. The members get the folder that was uploaded. A
    copy has all fields of its run."""
    (tmp_path / "said.txt").write_text("from the folder\n")
    (tmp_path / "left-out.log").write_text("1")
    (tmp_path / ".gitignore").write_text("*.log")
    page.get_by_role("link", name="Start", exact=True).click()  # an empty list of runs has a link "Start a run"
    page.get_by_label("Image").fill("python:3")
    page.get_by_label("Command").fill("sh -c 'echo $GREETING\ncat *.*; sleep 1000'")
    page.get_by_label("CPUs each").fill("0.1")
    page.get_by_label("Memory each").fill("lots")
    page.get_by_text("'lots' is not an amount").wait_for()
    page.get_by_label("Memory each").fill("64m")
    page.get_by_label("Name").fill("typed")
    page.get_by_text("Files, variables").click()
    page.get_by_label("Variables").fill("GREETING=good day")
    page.get_by_role("status").get_by_text("Starts at once").wait_for()
    what_if = page.get_by_role("region", name="What if")
    what_if.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    what_if.get_by_role("button", name="Use it: 2 × any type").click()
    assert page.get_by_role("textbox", name="Members").input_value() == "2"
    page.get_by_role("textbox", name="Members").fill("")
    options = "--name typed --cpus 0.1 -m 64m -e 'GREETING=good day'"
    page.get_by_text(f"kaji run {options} python:3 sh -c 'echo $GREETING cat *.*; sleep 1000'").wait_for()
    code = page.get_by_role("region", name="Code")
    held: list[Route] = []
    typed: list[bool] = []
    page.route("**/v1/code/**", lambda route: route.continue_() if typed else held.append(route))
    with page.expect_request("**/v1/code/**"):
        code.locator("input").set_input_files(tmp_path)
    page.get_by_label("Name").fill("clicked")  # while the folder is uploaded
    typed.append(True)
    for route in held:
        route.continue_()
    code.get_by_text(re.compile("2 files, .*All members start in it")).wait_for()
    assert_accessible(page, "main")
    visit(page, page.url)
    assert page.get_by_label("Image").input_value() == "python:3"
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile("/runs/default/clicked$"))
    page.get_by_role("log").get_by_text("good day", exact=True).wait_for()
    page.get_by_role("log").get_by_text("from the folder", exact=True).wait_for()
    page.get_by_role("link", name="Copy and change").click()
    page.wait_for_url(re.compile("/start$"))
    page.get_by_text(re.compile("kaji run --namespace default --cpus 0.1 .*--code sha256:")).wait_for()
    assert page.get_by_label("Variables").input_value() == "GREETING=good day"


def test_figures_of_all_ranks_lead_to_those_of_one(cluster: KajiUp, page: Page) -> None:
    """The answers are written ones, since real ones take minutes. The words name the ranks of the extremes.

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
    plot.locator(".u-over").click(position={"x": 200, "y": 5})
    page.wait_for_url(re.compile(r"\?tab=figures&rank=1$"))
    page.get_by_text("The last hour of rank 1").wait_for()
    page.get_by_role("tab", name="Time").click()
    page.get_by_role("row", name=re.compile("^productive|^starting|^queued")).first.wait_for()
    assert len(lost) == 5


def test_findings_about_a_run_are_shown_and_answered(cluster: KajiUp, page: Page) -> None:
    """It may be stuck, and its GPUs are idle: in the server's words. The time report names the categories."""
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
    page.get_by_role("alert").filter(has_text="8 GPUs idle").get_by_role("button", name="Keep for a day").click()
    page.get_by_role("row", name=re.compile("^productive|^starting|^queued")).first.wait_for()
    assert len(answers) == 1 and "until" in answers[0]


def test_a_terminal_runs_a_shell_in_a_member(cluster: KajiUp, page: Page) -> None:
    """It opens as soon as the member runs. The end of the shell is told, and another one can be opened, also by the
    keyboard: the terminal, which takes all keys, gives up the focus."""
    run(cluster, "shell", "sleep", "1000")
    open_address(page, "/runs/default/shell?tab=terminal&rank=1")
    screen = page.locator(".xterm-rows")
    screen.get_by_text(re.compile("[#$]")).first.wait_for()
    page.keyboard.type("echo rank-$KAJI_RANK; exit 3\n")
    screen.get_by_text("rank-1", exact=True).wait_for()
    page.get_by_role("alert").get_by_text("The shell has ended with exit code 3.").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for(state="detached")


def test_all_pages_keep_the_rules_of_accessibility(cluster: KajiUp, page: Page) -> None:
    """The pages are those that the rail names, and the tabs of a run."""
    run(cluster, "axe", "sleep", "1000")
    page.get_by_role("link", name="axe").wait_for()
    assert_accessible(page)
    for link_of_page in page.get_by_role("navigation").get_by_role("link").all():
        link_of_page.click()
        page.get_by_role("heading", level=1).wait_for()
        assert_accessible(page, "main")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("link", name="axe").click()
    page.get_by_role("tab").first.wait_for()
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert_accessible(page, "main")


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


def test_messages_tokens_and_idle_questions_are_on_one_page(page: Page) -> None:
    """Secrets are hidden while they are typed, and shown at most once. Two answers are written ones, because `kaji up`
    has no robots, and GPUs are idle only after hours."""

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
    page.get_by_text("No robot can have rights of its own here: ").wait_for()


def test_the_board_shows_gpus_by_type(page: Page) -> None:
    """And the GPU-hours of the last month."""
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
    assert_accessible(page, "main")


def test_runs_are_selected_stopped_and_opened_by_the_keyboard(cluster: KajiUp, page: Page) -> None:
    """Before several are stopped, the page names what is lost, and afterwards it offers to resume them. The keyboard's
    place can be seen. A click on a header orders the runs, also after a reload."""
    run(cluster, "keys", "sleep", "1000")
    run(cluster, "keys-too", "sleep", "1000")
    page.keyboard.press("/")
    page.keyboard.type("keys")
    page.keyboard.press("Escape")
    page.get_by_role("row").filter(has_text="2 of 2").nth(1).wait_for()
    page.get_by_role("button", name="Name", exact=True).click()
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
    page.keyboard.press("Tab")  # from the outcome, which has the focus of the buttons that are gone
    page.keyboard.press("Enter")
    page.get_by_text("2 runs queued again.").wait_for()
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


def open_beside_the_list(page: Page) -> None:
    """Open the first run beside the list, go to the next one, make it a page, go back, and close it."""
    for key in ("j", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("region", name="Run default/keys", exact=True).get_by_role("tab", name="Log").wait_for()
    page.keyboard.press("j")
    other = page.get_by_role("region", name="Run default/keys-too")
    other.get_by_role("tab", name="Log").wait_for()
    page.wait_for_url(re.compile(r"/runs/default/keys-too\?list=text%3Dkeys%26sort%3Dname$"))
    assert page.get_by_role("row").filter(has=page.get_by_role("link", name="keys", exact=True)).is_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/runs/default/keys-too$"))
    page.get_by_role("link", name="Beside the list").wait_for()
    page.go_back()
    other.get_by_role("tab", name="Log").wait_for()
    visit(page, page.url)
    other.get_by_role("heading", name="keys-too").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile(r"/runs\?text=keys&sort=name$"))
    page.wait_for_function("() => document.activeElement.textContent === 'keys-too'")


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


def test_a_browser_signs_in_by_a_fresh_link_alone(cluster: KajiUp, chromium: Browser) -> None:
    """The code leaves the address at once. A used link is refused in words, and signing out ends the session."""
    run(cluster, "linked", "sleep", "1000")
    used = link(cluster, "linked")
    context = chromium.new_context(reduced_motion=CALM)
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


def test_the_list_goes_on_after_a_restart_of_the_server(cluster: KajiUp, chromium: Browser) -> None:
    """It stays on the page and says how old it is; the session is valid afterwards."""
    context = chromium.new_context(reduced_motion=CALM)
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
