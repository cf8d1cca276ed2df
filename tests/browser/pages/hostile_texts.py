"""Hostile texts for the tests of the web page, and a page in which every text of the server's answers is hostile."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from tests.browser.pages.steps import visit
from tests.harness.chromium import CALM, PATIENCE_MS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

HACK = "window.__hacked=1"
MADE = "kaji-made"
"""An element of this name exists only if a text became HTML."""
HOSTILE = (
    f"'\"><{MADE}></{MADE}><img src=x onerror={HACK}><script>{HACK}</script><svg onload={HACK}></svg>"
    f"<a href=javascript:{HACK}>x</a><iframe src=//kaji.invalid></iframe>"
)

CHOSEN_BY_THE_SERVER = (
    *("apiVersion", "kind", "phase", "state", "states", "condition", "status", "outcome", "version", "continue", "uid"),
    *("namespace", "name", "run", "sort", "order", "unit", "digest", "type", "role", "reason", "severity", "level"),
    *("result", "mode", "protocol", "category", "source", "expectedFrom", "path", "resume", "finding"),
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
  ...window.__refused.splice(0),
  ...[...document.querySelectorAll("{MADE}, img, iframe, object, embed, base, script:not([src]), [onerror], [onload]")]
    .map(element => element.outerHTML),
  ...[...document.querySelectorAll("[href]")]
    .filter(element => /^\\s*(javascript|data|vbscript):/i.test(element.getAttribute("href")))
    .map(element => element.outerHTML),
]
"""


class HostilePage:
    """A page that notes each script that runs, each element that a text became, and each request to another host."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.faults: dict[str, list[str]] = {}
        """What went wrong, by the place."""
        self._address, self._host = address, urlsplit(address).netloc
        self._seen: list[str] = []
        page.on("dialog", self._note_dialog)
        page.on("request", lambda asked: self._note_request(asked.url))
        page.on("pageerror", lambda error: self._seen.append(str(error)))

    def hear(self, kept: Iterable[str]) -> None:
        """From the next visit on, make all texts hostile but those in the fields `kept`."""
        self.page.add_init_script(f"({POISON})({json.dumps([HOSTILE, list(kept)])})")

    def visit(self, place: str) -> None:
        """Open another address of the server."""
        visit(self.page, urljoin(self._address, place))

    def look(self, place: str, shown: str) -> None:
        """Wait until elements of a CSS selector are there, and note what is wrong in the page."""
        self.page.locator(f"{shown}, {MADE}").first.wait_for(state="attached")
        self.page.locator("main .MuiSkeleton-root").first.wait_for(state="detached")
        if faults := [*self.page.evaluate(FAULTS), *self._seen]:
            self.faults[place] = faults
        self._seen.clear()

    def _note_dialog(self, dialog: Dialog) -> None:
        self._seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note_request(self, url: str) -> None:
        if urlsplit(url).netloc != self._host:
            self._seen.append(url)


@contextmanager
def hostile_page(chromium: Browser, address: str) -> Iterator[HostilePage]:
    """Yield a page of a new session; fail if it has faults. `address` is the server's, or a link that signs in."""
    context = chromium.new_context(reduced_motion=CALM, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    found = HostilePage(context.new_page(), address)
    if urlsplit(address).fragment:
        visit(found.page, address)
        found.page.wait_for_url(lambda url: "#sign-in=" not in url)
        found.page.get_by_role("navigation").wait_for()
    yield found
    found.page.unroute_all(behavior="ignoreErrors")
    context.close()
    assert not found.faults
