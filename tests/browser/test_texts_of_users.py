"""Texts that users control, on all pages of the web page: they stay texts.

One run has hostile texts wherever a program or a person can put some: in its output, its files, its results, its
series and the reason of its node. Beside that, every text in every answer of the server gets HTML and a script
appended, in the browser and before the page reads it, apart from those that the server itself chooses.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import pytest
from tests.browser.conftest import PATIENCE_MS, link, visit
from tests.harness.kaji_up import KajiUp

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

pytestmark = pytest.mark.xdist_group("browser")

HACK = "window.__hacked=1"
MADE = "kaji-made"
"""An element of this name exists only if a text became HTML."""
HOSTILE = (
    f"'\"><{MADE}></{MADE}><img src=x onerror={HACK}><script>{HACK}</script><svg onload={HACK}></svg>"
    f"<a href=javascript:{HACK}>x</a><iframe src=//kaji.invalid></iframe>"
)
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

CHOSEN_BY_THE_SERVER = (
    "apiVersion kind phase state states condition status outcome version continue uid namespace name run sort order "
    "unit digest type role reason severity level result mode protocol category source expectedFrom path resume"
)
"""Fields with names, addresses and words of the page's own tables: the server refuses all other texts there."""

POISON = """
([hostile, kept]) => {
  const parse = JSON.parse, read = Response.prototype.json, keep = new Set(kept);
  const machine = /^$|^\\d{4}-\\d\\d-\\d\\dT|^-?[\\d.]+[A-Za-z%]*$/;
  const poisoned = (value, key) => {
    if (typeof value === "string") return keep.has(key) || machine.test(value) ? value : `${value} ${hostile}`;
    if (Array.isArray(value)) return value.map(each => poisoned(each, key));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, poisoned(each, name)]));
  };
  JSON.parse = (text, reviver) => poisoned(parse(text, reviver), "");
  Response.prototype.json = async function () { return poisoned(await read.call(this), "") };
  window.__refused = [];
  document.addEventListener("securitypolicyviolation", ({ blockedURI, violatedDirective }) =>
    window.__refused.push(`${violatedDirective} ${blockedURI}`));
}
"""
FAULTS = f"""
() => [
  ...(window.__hacked === undefined ? [] : ["a script ran"]),
  ...window.__refused,
  ...[...document.querySelectorAll("{MADE}, img, iframe, object, embed, base, script:not([src]), [onerror], [onload]")]
    .map(element => element.outerHTML),
  ...[...document.querySelectorAll("[href]")]
    .filter(element => /^\\s*(javascript|data|vbscript):/i.test(element.getAttribute("href")))
    .map(element => element.outerHTML),
]
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


@pytest.fixture
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
    yield cluster
    cluster.kaji("uncordon", node)
    assert cluster.kaji("rm", "-f", "-v", "hostile", "tried", "held").returncode == 0


def test_texts_of_users_never_become_html(hostile: KajiUp, chromium: Browser) -> None:
    """No script runs, no element is made, no rule of the content policy is broken, no other host is asked."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    address = link(hostile)
    host, seen = urlsplit(address).netloc, list[str]()

    def note_dialog(dialog: Dialog) -> None:
        seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", note_dialog)
    page.on("request", lambda asked: None if urlsplit(asked.url).netloc == host else seen.append(asked.url))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.route("**/hostile/metrics?*", lambda route: route.fulfill(json=FIGURES))
    visit(page, address)
    page.wait_for_url(lambda url: "#sign-in=" not in url)
    page.get_by_role("navigation").wait_for()
    page.add_init_script(f"({POISON})({json.dumps([HOSTILE, CHOSEN_BY_THE_SERVER.split()])})")
    for place, shown in PAGES.items():
        visit(page, urljoin(address, place))
        page.locator(shown).first.wait_for(state="attached")
        page.locator("main .MuiSkeleton-root").first.wait_for(state="detached")
        _assert_harmless(page, place, seen)
    visit(page, urljoin(address, "/runs/default/hostile?tab=terminal&rank=0"))
    screen = page.locator(".xterm-rows")
    screen.get_by_text(re.compile("[#$]")).first.wait_for()
    page.keyboard.type(f"printf '{TYPED}'; echo en''ded\n")
    screen.get_by_text("ended", exact=True).wait_for()
    screen.get_by_text(f"link <img src=x onerror={HACK}>").click(position={"x": 5, "y": 5}, force=True)
    _assert_harmless(page, "the terminal", seen)
    page.unroute_all(behavior="ignoreErrors")
    context.close()


def _assert_harmless(page: Page, place: str, seen: list[str]) -> None:
    faults = [*page.evaluate(FAULTS), *seen]
    assert not faults, (place, faults)
