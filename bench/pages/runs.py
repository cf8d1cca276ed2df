"""The list of runs in a browser: time until it is drawn, frames while it is scrolled, memory, and bytes at rest.

    python -m bench.pages.runs            10,000 runs
    python -m bench.pages.runs --small    1,000 runs

The Web API is a process of its own; its API server is a fake in this process, as in `bench.pages.streams`. The browser
is Debian's chromium without a window. Memory is that of the page's JavaScript after a garbage collection, before and
after as many changes as an hour has with one change a second.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
from typing import TYPE_CHECKING

import httpx2
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes

from bench.pages.map import FRAMES, LOADS
from bench.pages.streams import CHANGES_PER_SECOND, change, put_runs
from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.processes import answer, helper

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

CHANGES = 3600
SCROLL_SECONDS = 6.0
REST_SECONDS = 60.0
SEARCHES = 5

PAINTED = """() => new Promise(done => {
  const look = () => document.querySelectorAll('[role=row]').length > 5
    ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
  look();
})"""
"""Returns when rows were drawn for the first time, in milliseconds since the navigation."""
FOUND = """name => new Promise(done => {
  const began = performance.now();
  const look = () => [...document.querySelectorAll('[role=option]')].some(row => row.textContent.includes(name))
    ? done(performance.now() - began) : requestAnimationFrame(look);
  look();
})"""
"""Returns how long the search took to show a run, in milliseconds."""


async def measure(count: int) -> int:
    """Run everything; return the exit code."""
    from playwright.async_api import async_playwright

    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium: apt-get install chromium")
    async with fake_kubernetes() as kubernetes:
        put_runs(kubernetes, count)
        server = helper("bench.pages.streams", "--serve", kubernetes.url)
        try:
            url = (await asyncio.to_thread(answer, server))["url"]
            headers = {"Authorization": "Bearer ada"}
            async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as http:
                code = (await http.post("/v1/sign-in-links")).json()["code"]
            async with async_playwright() as tool:
                browser = await tool.chromium.launch(executable_path=program, args=["--no-sandbox"])
                page = await browser.new_page(viewport={"width": 1440, "height": 900})
                await page.goto(f"{url}/start#sign-in={code}")
                await page.get_by_role("heading", name="Start a run").wait_for()
                code_of_exit = await _figures(kubernetes, page, url, count)
                await browser.close()
                return code_of_exit
        finally:
            await asyncio.to_thread(server.communicate, "")


async def _figures(kubernetes: FakeKubernetes, page: Page, url: str, count: int) -> int:
    paints = []
    for _ in range(LOADS):
        await page.goto(f"{url}/runs?whose=all", wait_until="commit")
        paints.append(float(await page.evaluate(PAINTED)))
    tools = await page.context.new_cdp_session(page)
    rest_kb = await _received_kb(tools, REST_SECONDS) * 60 / REST_SECONDS
    changing = asyncio.create_task(change(kubernetes, count, SCROLL_SECONDS))
    scrolling = asyncio.create_task(_scroll(page))
    gaps = await page.evaluate(FRAMES, SCROLL_SECONDS)
    await asyncio.gather(changing, scrolling)
    before_mb = await _heap_mb(tools)
    await change(kubernetes, count, CHANGES / CHANGES_PER_SECOND)
    after_mb = await _heap_mb(tools)
    searches = [await _search(page, f"run-{count - 1 - number:05d}") for number in range(SEARCHES)]
    frame, slow = statistics.median(gaps), statistics.quantiles(gaps, n=100)[94]
    print_table(
        f"{count:,} runs in a browser",
        ("", "measured"),
        [
            ("rows drawn after, ms (median, most)", f"{statistics.median(paints):.0f}, {max(paints):.0f}"),
            ("frame while scrolling, ms (median, 95 %)", f"{frame:.1f}, {slow:.1f}"),
            (f"memory before and after {CHANGES:,} changes, MB", f"{before_mb:.1f}, {after_mb:.1f}"),
            ("kB a minute at rest", f"{rest_kb:.1f}"),
            ("a run found by the search after, ms (median)", f"{statistics.median(searches):.0f}"),
        ],
    )
    return print_limits(
        [
            Limit("rows are drawn", statistics.median(paints), most=1000, unit=" ms"),
            Limit("a frame while scrolling, median", frame, most=17.5, unit=" ms"),
            Limit("memory grows in an hour of changes", after_mb - before_mb, most=5, unit=" MB"),
            Limit("kB a minute at rest", rest_kb, most=50),
        ]
    )


async def _scroll(page: Page) -> None:
    """Turn the mouse wheel until the frames are counted."""
    await page.mouse.move(700, 500)
    for turn in range(int(SCROLL_SECONDS * 20)):
        await page.mouse.wheel(0, 400 if turn % 80 < 60 else -400)
        await asyncio.sleep(0.05)


async def _received_kb(tools: CDPSession, seconds: float) -> float:
    """Return the kB that the page receives in this time while nothing changes."""
    sizes: list[int] = []
    tools.on("Network.dataReceived", lambda event: sizes.append(event["dataLength"]))
    await tools.send("Network.enable")
    await asyncio.sleep(seconds)
    await tools.send("Network.disable")
    return sum(sizes) / 1000


async def _heap_mb(tools: CDPSession) -> float:
    """Return the memory of the page's JavaScript after a garbage collection."""
    await tools.send("HeapProfiler.collectGarbage")
    used = await tools.send("Runtime.getHeapUsage")
    return float(used["usedSize"]) / 1e6


async def _search(page: Page, name: str) -> float:
    """Return how long the search of the page takes to show a run, from the last letter on."""
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Search").fill(name)
    took = float(await page.evaluate(FOUND, name))
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog").wait_for(state="detached")
    return took


def main() -> int:
    """Return the exit code: 0 if all limits were kept."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of it, for a quick look")
    return asyncio.run(measure(1_000 if parser.parse_args().small else 10_000))


if __name__ == "__main__":
    sys.exit(main())
