"""The form that starts a run, in a browser."""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.pages.accessibility import assert_accessible
from tests.browser.pages.steps import open_address, visit

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.xdist_group("browser-2")


def test_a_run_is_started_by_a_form_and_copied(page: Page, tmp_path: Path) -> None:
    """The form shows faults beside their fields, and the command line. The members get the folder that was uploaded. A
    copy has all fields of its run."""
    (tmp_path / "said.txt").write_text("from the folder\n")
    (tmp_path / "left-out.log").write_text("1")
    (tmp_path / ".gitignore").write_text("*.log")
    page.get_by_role("link", name="Start", exact=True).click()  # an empty list of runs has a link "Start a run"
    page.get_by_role("textbox", name="Image").fill("python:3")
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
    assert page.get_by_role("textbox", name="Image").input_value() == "python:3"
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile("/runs/default/clicked$"))
    page.get_by_role("log").get_by_text("good day", exact=True).wait_for()
    page.get_by_role("log").get_by_text("from the folder", exact=True).wait_for()
    page.get_by_role("link", name="Copy and change").click()
    page.wait_for_url(re.compile("/start$"))
    page.get_by_text(re.compile("kaji run --namespace default --cpus 0.1 .*--code sha256:")).wait_for()
    assert page.get_by_label("Variables").input_value() == "GREETING=good day"


def test_a_refused_start_leads_to_the_field_with_the_fault(page: Page) -> None:
    """Also on a telephone, where the field is far above the button. A command with open quotes is not sent: it would
    be one word."""
    page.set_viewport_size({"width": 360, "height": 740})
    page.get_by_role("link", name="Start", exact=True).click()
    page.get_by_role("textbox", name="Image").fill("python:3")
    page.get_by_label("Command").fill("sh -c 'sleep 1000")
    page.get_by_text("Close the quotes in the command").wait_for()
    start = page.get_by_role("button", name="Start", exact=True)
    assert start.is_disabled()
    page.get_by_label("Command").fill("sh -c 'sleep 1000'")
    page.get_by_label("CPUs each").fill("0.1")
    page.get_by_label("Memory each").fill("64m")
    page.get_by_role("status").get_by_text("Starts at once").wait_for()
    page.get_by_label("Name").fill("No Name")
    start.click()
    page.wait_for_function("document.activeElement.value === 'No Name'")
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") > 0
    alert = page.get_by_role("alert").filter(has_text="One field has a fault.")
    assert not page.get_by_text("Starts at once").count()
    start.focus()
    alert.get_by_role("button", name="Show it").click()
    page.wait_for_function("document.activeElement.value === 'No Name'")
    assert_accessible(page, "main")
    page.get_by_label("Name").fill("a-name")
    alert.wait_for(state="detached")


GUARANTEE = {
    "namespace": "default",
    "gpuType": "h100",
    "gpus": {"total": 16, "used": 24},
    "cpuMillis": None,
    "memoryBytes": None,
    "nodes": None,
}


def without_secrets(route: Route) -> None:
    """Answer as for a person who may make no secrets."""
    found = route.fetch().json()
    rights = [right | {"secrets": False} for right in found["namespaces"]]
    route.fulfill(json=found | {"namespaces": rights})


def test_what_a_run_needs_is_chosen_and_a_secret_made_beside_it(page: Page, tmp_path: Path) -> None:
    """A click adds the line of a volume or secret, another one takes it away. The value of a new secret is in neither
    the address nor what the browser keeps. The page Mine lists the secret and deletes it, and offers no new one to a
    person who may make none."""
    name, value = f"hub-{secrets.token_hex(4)}", secrets.token_hex(16)
    page.route("**/v1/gpus", lambda route: route.fulfill(json=route.fetch().json() | {"guarantees": [GUARANTEE]}))
    page.get_by_role("link", name="Start", exact=True).click()
    page.get_by_role("textbox", name="Image").fill("python:3")
    page.get_by_text("default uses 24 h100 GPUs where it is guaranteed 16").wait_for()
    page.get_by_text("Files, variables").click()
    volume = page.get_by_role("group", name="Volumes to choose").get_by_role("button").first
    volume.focus()
    page.keyboard.press("Enter")
    line = page.get_by_role("textbox", name="Volumes").input_value()
    assert volume.get_attribute("aria-pressed") == "true" and re.fullmatch(r"[^:\n]+:/[^:\n]+(:ro)?", line)
    page.get_by_text(f" -v {line} python:3").wait_for()
    page.keyboard.press("Enter")
    assert page.get_by_role("textbox", name="Volumes").input_value() == ""
    page.get_by_role("button", name="New secret").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("No Name")
    dialog.get_by_label("Key").fill("TOKEN")
    dialog.get_by_label("Value", exact=True).fill(value)
    dialog.get_by_role("button", name="Make it").click()
    dialog.get_by_text("'No Name'").wait_for()
    assert_accessible(page, "[role=dialog]")
    (tmp_path / "ca.crt").write_bytes(b"\xff\x00")
    dialog.get_by_label("A file with a value").set_input_files(tmp_path / "ca.crt")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_role("button", name="Make it").click()
    dialog.wait_for(state="detached")
    assert page.get_by_role("textbox", name="Secrets").input_value() == name
    page.get_by_text(f" --secret {name} python:3").wait_for()
    page.get_by_role("group", name="Secrets to choose").get_by_role("button", name=name, pressed=True).wait_for()
    kept = page.evaluate("JSON.stringify([sessionStorage, localStorage, location.href])")
    assert name in kept and value not in kept and value not in page.content()
    assert_accessible(page, "main")
    open_address(page, "/mine")
    mine = page.get_by_role("region", name="Secrets")
    mine.get_by_text("TOKEN, ca.crt").wait_for()
    page.get_by_role("region", name="Volumes and checkpoints").get_by_role("listitem").first.wait_for()
    page.get_by_text("24 of 16 h100 GPUs in use; 8 borrowed").wait_for()
    assert_accessible(page, "main")
    mine.get_by_role("button", name=f"Delete {name}").click()
    mine.get_by_role("button", name="Delete it").click()
    mine.get_by_text("TOKEN, ca.crt").wait_for(state="detached")
    page.route("**/v1/whoami*", without_secrets)
    visit(page, page.url)
    page.get_by_role("region", name="Secrets").get_by_text("have no secrets").wait_for()
    assert not page.get_by_role("button", name="New secret").count()
    open_address(page, "/board")
    page.get_by_role("region", name="Guarantees").get_by_role("row", name="default 16 h100 GPUs 24 0 8").wait_for()
    assert_accessible(page, "main")


JUPYTER_LAB = f"""#!/bin/sh
exec {sys.executable} -c '
import http.server, sys
port = next(word for word in sys.argv if word.startswith("--ServerApp.port=")).partition("=")[2]
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<h1>A notebook</h1>")
http.server.HTTPServer(("127.0.0.1", int(port)), Page).serve_forever()' "$@"
"""


def test_a_notebook_is_started_from_the_search_and_opened(page: Page, tmp_path: Path) -> None:
    """It needs no image and no name. The form shows one's notebooks, and the button that opens each."""
    (tmp_path / "jupyter-lab").write_text(JUPYTER_LAB)
    (tmp_path / "jupyter-lab").chmod(0o755)
    page.get_by_role("navigation").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("start note")
    page.get_by_role("option", name="Start a notebook").click()
    page.wait_for_url(re.compile(r"/start\?type=notebook$"))
    page.get_by_text(re.compile("^kaji notebook notebook-[a-z-]+$")).wait_for()
    name = f"lab-{secrets.token_hex(4)}"  # its port follows from its name, and other tests use this machine
    page.get_by_label("Name").fill(name)
    page.get_by_label("CPUs").fill("0.1")
    page.get_by_label("Memory").fill("64m")
    page.get_by_text("Files, variables").click()
    page.get_by_label("Variables").fill(f"PATH={tmp_path}:/usr/bin:/bin")
    page.get_by_role("status").get_by_text("Starts at once").wait_for()
    assert_accessible(page, "main")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile(f"/runs/default/{name}$"))
    opening = page.get_by_role("link", name="Open", exact=True)
    opening.wait_for()
    page.get_by_text(re.compile(f"^kaji notebook {name} ")).wait_for()
    with page.expect_popup() as opened:
        opening.click()
    opened.value.get_by_role("heading", name="A notebook").wait_for()
    visit(page, page.url.partition("/runs")[0] + "/start?type=notebook")
    page.get_by_role("region", name="My notebooks").get_by_role("link", name=f"Open {name}").wait_for()


def test_a_sweep_is_started_from_the_empty_form(page: Page) -> None:
    """It needs indices; without them, nothing is asked, because it would be a run. The run has the labels."""
    page.get_by_role("link", name="Start", exact=True).click()
    page.get_by_role("button", name="Sweep", exact=True).click()
    page.wait_for_url(re.compile(r"/start\?type=sweep$"))
    page.get_by_role("textbox", name="Image").fill("python:3")
    page.get_by_text("Write the indices of the sweep").wait_for()
    assert page.get_by_role("button", name="Start", exact=True).is_disabled()
    page.get_by_label("Indices").fill("0-x")
    page.get_by_text("'0-x' is not a number or a range of numbers").wait_for()
    page.get_by_label("Indices").fill("0-3%2")
    page.get_by_label("Command").fill("sh -c 'echo member $KAJI_ARRAY_INDEX'")
    page.get_by_label("CPUs each").fill("0.1")
    page.get_by_label("Memory each").fill("64m")
    page.get_by_label("Stop at").click()
    page.get_by_role("option", name="The first failure").click()
    page.get_by_label("Name").fill("counted")
    page.get_by_text("Files, variables").click()
    page.get_by_label("Labels").fill("project=bert")
    options = "--name counted --cpus 0.1 -m 64m --array 0-3%2 --stop-at first-failure -l project=bert"
    page.get_by_text(f"kaji run {options} python:3 sh -c 'echo member $KAJI_ARRAY_INDEX'").wait_for()
    assert_accessible(page, "main")
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile("/runs/default/counted$"))
    page.get_by_role("link", name="Results of the sweep").wait_for()
    page.get_by_text("Succeeded").first.wait_for()
    run = page.evaluate("fetch('/v1/runs/default/counted').then(answer => answer.json())")
    assert run["labels"]["project"] == "bert"
