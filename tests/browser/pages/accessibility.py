"""Checks of a page by axe-core: whether people who see little, or use a keyboard or a screen reader, can use it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Page

_AXE = Path(__file__).parents[3] / "web/node_modules/axe-core/axe.min.js"
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_CHECK = """
async ([part, only]) => {
  // A button that was enabled just now has a colour in between, with too little contrast.
  const transitions = document.getAnimations().filter(animation => animation instanceof CSSTransition);
  await Promise.allSettled(transitions.map(({ finished }) => finished));
  const found = await axe.run(part, { runOnly: only, resultTypes: ["violations"] });
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => ({ id, html, failureSummary })),
  );
}
"""
_SPACING = "* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }"
_OVERFLOW = """
async spacing => {
  const sheet = new CSSStyleSheet();  // one of the browser, which the page's content policy does not forbid
  sheet.replaceSync(spacing);
  const before = document.adoptedStyleSheets;
  document.adoptedStyleSheets = [...before, sheet];
  // Canvases follow the window a few frames later, on a busy machine many.
  for (let frame = 0; frame < 2 || (frame < 120 && document.documentElement.scrollWidth > 320); frame++)
    await new Promise(requestAnimationFrame);
  const { scrollWidth } = document.documentElement;
  const cells = [...document.querySelectorAll("[role=cell]")].filter(cell => cell.scrollWidth > cell.clientWidth + 1);
  document.adoptedStyleSheets = before;
  const wide = scrollWidth > 320 ? [`the page is ${scrollWidth} pixels wide`] : [];
  return [...wide, ...cells.map(cell => cell.innerText)];
}
"""
_BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@cache
def _axe() -> str:
    return _AXE.read_text()


def assert_accessible(page: Page, part: str = "body") -> None:
    """Fail if a part of the page violates a rule of WCAG 2.2 AA. `part` is a CSS selector.

    All rules are tried with the light colours, the contrast with the dark ones as well.
    """
    page.locator(".MuiSkeleton-root").first.wait_for(state="detached")
    if not page.evaluate("'axe' in window"):
        page.evaluate(_axe())  # not a script of the page, so the page's content policy does not forbid it
    faults: list[dict[str, Any]] = page.evaluate(_CHECK, [part, {"type": "tag", "values": _RULES}])
    _colour(page, "dark")
    faults += page.evaluate(_CHECK, [part, {"type": "rule", "values": ["color-contrast"]}])
    _colour(page, "light")
    assert not faults, (page.url, faults)


def assert_reflows(page: Page) -> None:
    """Fail if the page has to be scrolled sideways in a window of 320 pixels (WCAG 1.4.10: 1,280 pixels at a zoom of
    400 %), or if a name in a table is cut there, with the spacing of text that people may need (WCAG 1.4.12)."""
    size = page.viewport_size
    page.set_viewport_size({"width": 320, "height": 640})
    faults: list[str] = page.evaluate(_OVERFLOW, _SPACING)
    if size is not None:
        page.set_viewport_size(size)
    assert not faults, (page.url, faults)


def _colour(page: Page, scheme: Literal["light", "dark"]) -> None:
    """Give the page the light colours or the dark ones, without the transition in between."""
    before = page.evaluate(_BACKGROUND)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_function(f"before => {_BACKGROUND} !== before", arg=before)
