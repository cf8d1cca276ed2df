"""The pages about the cluster in a browser: the map of 7,500 nodes, its table, and the queue, while nodes change.

    python -m bench.pages.map            7,500 nodes, 50 changes a second
    python -m bench.pages.map --small    750 nodes

The Web API is a process of its own; its API server is a fake in this process, as in `bench.pages.streams`. The browser
is Debian's chromium without a window, which draws without a graphics card. Times until the first paint begin with the
navigation, the first of them without anything in the browser's cache. Frames are counted while the pointer moves over
the map and while the table is scrolled.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import httpx2
import psutil
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes, node, pod, run

from bench.pages.streams import Reader
from bench.parts.common import Limit, median_and_range, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.processes import answer, helper

if TYPE_CHECKING:
    from playwright.async_api import Page

CHANGES_PER_SECOND = 50
NODES_PER_RUN = 50
LOADS = 5
STREAMS = 200
SECONDS = 6.0

PAINTED = """() => new Promise(done => {
  const look = () => {
    const map = document.querySelector('canvas[role=img]');
    if (map && map.height > 50) requestAnimationFrame(() => done(performance.now()));
    else requestAnimationFrame(look);
  };
  look();
})"""
"""Returns when the map was drawn for the first time, in milliseconds since the navigation."""
FRAMES = """seconds => new Promise(done => {
  const gaps = [];
  let before = performance.now();
  const until = before + seconds * 1000;
  const frame = now => {
    gaps.push(now - before);
    before = now;
    if (now < until) requestAnimationFrame(frame); else done(gaps.slice(1));
  };
  requestAnimationFrame(frame);
})"""


def furnish(kubernetes: FakeKubernetes, count: int) -> list[dict[str, Any]]:
    """Create nodes in racks of 16, and runs on four of five of them. Return the Pods."""
    pods = []
    for number in range(count):
        made = node(f"gpu-{number:05d}", gpus=8, gpu_type="h100" if number % 3 else "a100", cordoned=number % 97 == 0)
        made["metadata"]["labels"] |= {
            "kajitori.dev/rack": f"rack-{number // 16}",
            "topology.kubernetes.io/zone": f"zone-{number // 1024}",
        }
        kubernetes.put("nodes", made)
    for first in range(0, count * 4 // 5, NODES_PER_RUN):
        made = kubernetes.put("runs", run(f"run-{first:05d}", owner=f"user{first % 40}", phase="Running", replicas=50))
        for rank in range(NODES_PER_RUN):
            placed = pod(made, rank=rank, node=f"gpu-{first + rank:05d}", gpus=8)
            kubernetes.put("pods", placed)
            pods.append(placed)
    return pods


async def keep_changing(kubernetes: FakeKubernetes, count: int) -> None:
    """Cordon and uncordon nodes in turn, evenly, until cancelled."""
    began = time.monotonic()
    for turn in itertools.count():
        number = turn // 2 * 37 % count
        made = node(f"gpu-{number:05d}", gpus=8, gpu_type="h100", cordoned=turn % 2 == 0)
        made["metadata"]["labels"] |= {"kajitori.dev/rack": f"rack-{number // 16}"}
        kubernetes.put("nodes", made)
        await asyncio.sleep(max(0.0, began + turn / CHANGES_PER_SECOND - time.monotonic()))


async def measure(count: int) -> int:
    """Run everything; return the exit code."""
    from playwright.async_api import async_playwright

    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium: apt-get install chromium")
    async with fake_kubernetes() as kubernetes:
        furnish(kubernetes, count)
        server = helper("bench.pages.streams", "--serve", kubernetes.url)
        try:
            url = (await asyncio.to_thread(answer, server))["url"]
            headers = {"Authorization": "Bearer ada"}
            async with (
                httpx2.AsyncClient(base_url=url, headers=headers, timeout=60) as http,
                async_playwright() as tool,
            ):
                lists = await _lists(http)
                browser = await tool.chromium.launch(executable_path=program, args=["--no-sandbox"])
                context = await browser.new_context(viewport={"width": 1440, "height": 900})
                page = await context.new_page()
                code = (await http.post("/v1/sign-in-links")).json()["code"]
                await page.goto(f"{url}/runs#sign-in={code}")
                await page.get_by_role("heading", name="Runs").wait_for()
                figures = await _figures(kubernetes, page, url, count)
                await browser.close()
                limits = httpx2.Limits(max_connections=None)
                async with httpx2.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as many:
                    shares = await _shares(kubernetes, many, psutil.Process(server.pid), count)
        finally:
            await asyncio.to_thread(server.communicate, "")
    return _print(count, lists, shares, *figures)


async def _lists(http: httpx2.AsyncClient) -> dict[str, float]:
    """Return milliseconds and kB of the first, the next and an unchanged table of all nodes."""
    found: dict[str, float] = {}
    tag = ""
    for what in ("first", "next", "unchanged"):
        began = time.perf_counter()
        headers = {"If-None-Match": tag} if what == "unchanged" else {}
        async with http.stream("GET", "/v1/nodes", params={"fields": "summary"}, headers=headers) as response:
            size = len(b"".join([chunk async for chunk in response.aiter_raw()]))
            tag = response.headers["etag"]
        found[f"{what} ms"], found[f"{what} kB"] = (time.perf_counter() - began) * 1000, size / 1000
    return found


async def _figures(
    kubernetes: FakeKubernetes, page: Page, url: str, count: int
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return the milliseconds until the first paints of the map, and the gaps between frames: while nothing but the
    nodes changes, while the pointer moves over the map, and while the table is scrolled."""
    paints = []
    for _ in range(LOADS):
        await page.goto(f"{url}/cluster", wait_until="commit")
        paints.append(float(await page.evaluate(PAINTED)))
    changing = asyncio.create_task(keep_changing(kubernetes, count))
    try:
        resting = await page.evaluate(FRAMES, SECONDS)
        hovering = await _frames_while(page, lambda step: page.mouse.move(40 + step * 13 % 1300, 220 + step * 7 % 500))
        await page.goto(f"{url}/cluster?as=table")
        await page.get_by_role("table", name="Nodes").wait_for()
        await page.mouse.move(700, 500)
        scrolling = await _frames_while(page, lambda step: page.mouse.wheel(0, 240))
    finally:
        changing.cancel()
    return paints, resting, hovering, scrolling


async def _shares(
    kubernetes: FakeKubernetes, http: httpx2.AsyncClient, process: psutil.Process, count: int
) -> tuple[float, float]:
    """Return the share of a processor that the server takes while nodes change: without streams and with them."""
    alone = await _share(kubernetes, process, count)
    readers = [Reader() for _ in range(STREAMS)]
    reading = [asyncio.create_task(reader.read(http, "/v1/nodes/changes", items="false")) for reader in readers]
    await asyncio.gather(*(reader.began.wait() for reader in readers))
    with_streams = await _share(kubernetes, process, count)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    return alone, with_streams


async def _share(kubernetes: FakeKubernetes, process: psutil.Process, count: int) -> float:
    changing = asyncio.create_task(keep_changing(kubernetes, count))
    before, began = process.cpu_times(), time.monotonic()
    await asyncio.sleep(2 * SECONDS)
    after, seconds = process.cpu_times(), time.monotonic() - began
    changing.cancel()
    return (after.user + after.system - before.user - before.system) / seconds


async def _frames_while(page: Page, act: Any) -> list[float]:
    counting = asyncio.create_task(page.evaluate(FRAMES, SECONDS))
    step = 0
    while not counting.done():
        await act(step)
        await asyncio.sleep(0.016)
        step += 1
    gaps: list[float] = await counting
    return gaps


def _print(
    count: int,
    lists: dict[str, float],
    shares: tuple[float, float],
    paints: list[float],
    resting: list[float],
    hovering: list[float],
    scrolling: list[float],
) -> int:
    def late(gaps: list[float]) -> str:
        ordered = sorted(gaps)
        p95 = ordered[int(0.95 * len(ordered))]
        return f"{statistics.median(gaps):.0f}, {p95:.0f}, {ordered[-1]:.0f}"

    print_table(
        f"{count:,} nodes, {CHANGES_PER_SECOND} changes a second",
        ("", "measured"),
        [
            ("table of all nodes, first, ms and kB", f"{lists['first ms']:.0f}, {lists['first kB']:.0f}"),
            ("table of all nodes, again, ms and kB", f"{lists['next ms']:.0f}, {lists['next kB']:.0f}"),
            ("unchanged table, ms and kB", f"{lists['unchanged ms']:.0f}, {lists['unchanged kB']:.1f}"),
            ("first paint of the map, ms (median, range)", median_and_range(paints, 0)),
            ("processor share, changes alone", f"{shares[0]:.1%}"),
            (f"processor share, with {STREAMS} streams", f"{shares[1]:.1%}"),
            ("frames at rest, ms apart (median, 95 %, most)", late(resting)),
            ("frames with the pointer moving, the same", late(hovering)),
            ("frames while the table scrolls, the same", late(scrolling)),
        ],
    )
    return print_limits(
        [
            Limit("processor share of the streams", 100 * (shares[1] - shares[0]), most=10, unit=" %"),
            Limit("first paint of the map", statistics.median(paints), most=1000, unit=" ms"),
            Limit("frames with the pointer moving", statistics.median(hovering), most=20, unit=" ms"),
            Limit("frames while the table scrolls", statistics.median(scrolling), most=20, unit=" ms"),
        ]
    )


def main() -> int:
    """Return the exit code: 0 if all limits were kept."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of it, for a quick look")
    arguments = parser.parse_args()
    return asyncio.run(measure(750 if arguments.small else 7_500))


if __name__ == "__main__":
    sys.exit(main())
