"""The page of a large sweep in a browser: time until the first results, and until all of them, are shown.

    python -m bench.pages.sweep            10,000 members
    python -m bench.pages.sweep --small    1,000 members

The Web API is a process of its own with a folder of results; its API server is a fake one in this process. Each load is
of a server that has read no result yet, or of one that remembers them. The browser is Debian's chromium without a
window.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import httpx2
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes, run

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.processes import answer, helper, say

LOADS = 3
FIRST = """() => new Promise(done => {
  const look = () => document.querySelectorAll('[role=row]').length > 5
    ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
  look();
})"""
"""Returns when rows were drawn for the first time, in milliseconds since the navigation."""
ALL = """count => new Promise(done => {
  const texts = () => [...document.querySelectorAll('[role=status]')].map(found => found.textContent);
  const look = () => texts().includes(`${count} members`)
    ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
  look();
})"""
"""Returns when all members were shown, in milliseconds since the navigation."""


async def serve(url: str, folder: str) -> None:
    """Run the Web API with blobs in a folder, and print its URL, until stdin is closed."""
    from kajitori.api.serving.server import ApiServer
    from kajitori.blobs.stores.folder import open_folder
    from kajitori.cluster.mirror.mirror import Mirror
    from kajitori.configuration.policy_file import PolicyFile
    from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
    from kajitori.kube.client import KubeClient
    from kajitori.kube.connection.config import Credentials, KubeConfig

    blobs = await open_folder(Path(folder))
    config = KubeConfig(server=url, credentials=Credentials(token="server"), namespace="team")
    async with KubeClient(config) as client, Mirror(client) as mirror:
        await mirror.wait_synced()
        parts = ApiDependencies(client=client, mirror=mirror, policy=PolicyFile(None), blobs=blobs)
        async with ApiServer(web_app(parts)) as server:
            say({"url": server.url})
            await asyncio.to_thread(sys.stdin.read)


def put_sweep(kubernetes: FakeKubernetes, folder: Path, count: int) -> None:
    """Create an ended sweep, and the results of its members."""
    from kajitori.core.gang.sweeps.results import MemberResult, encode

    sweep = run("search", phase="Succeeded", array=f"0-{count - 1}")
    sweep["status"] |= {"sweep": {"succeeded": f"0-{count - 1}"}, "members": {"total": count, "succeeded": count}}
    made = kubernetes.put("runs", sweep)
    results = folder / "results" / "team" / str(made["metadata"]["uid"])
    results.mkdir(parents=True)
    chosen = random.Random(7)
    for index in range(count):
        lr, dropout = 10 ** chosen.uniform(-5, -1), round(chosen.uniform(0, 0.5), 2)
        loss = round(1.5 + dropout + chosen.gauss(0, 0.1), 4)
        result = f'{{"lr": {lr}, "dropout": {dropout}, "layers": {chosen.choice([6, 12, 24])}, "val_loss": {loss}}}'
        member = MemberResult(
            index=index,
            state="Succeeded",
            result=result,
            exit_code=0,
            node="g1",
            started_at="2026-11-20T10:00:00Z",
            ended_at="2026-11-20T10:07:00Z",
        )
        (results / str(index)).write_bytes(encode(member))


async def measure(count: int) -> int:
    """Run everything; return the exit code."""
    program = shutil.which("chromium")
    if program is None:
        sys.exit("there is no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        async with fake_kubernetes() as kubernetes:
            put_sweep(kubernetes, Path(folder), count)
            cold = [await _load(program, kubernetes.url, folder, count, loads=1) for _ in range(LOADS)]
            warm = await _load(program, kubernetes.url, folder, count, loads=LOADS)
    first, whole = (statistics.median(loads[0][place] for loads in cold) for place in (0, 1))
    again = statistics.median(paint[1] for paint in warm[1:])
    print_table(
        f"A sweep of {count:,} members in a browser, median of {LOADS} loads",
        ("", "measured"),
        [
            ("first results shown after, ms; the server read none before", f"{first:.0f}"),
            ("all results shown after, ms", f"{whole:.0f}"),
            ("all results shown after, ms; the server remembers them", f"{again:.0f}"),
        ],
    )
    return print_limits(
        [
            Limit("first results are shown", first, most=1000, unit=" ms"),
            Limit("all results are shown", whole, most=2000, unit=" ms"),
        ]
    )


async def _load(program: str, url: str, folder: str, count: int, *, loads: int) -> list[tuple[float, float]]:
    """Return, for each load of the page from one server, when the first and when all results were shown."""
    from playwright.async_api import async_playwright

    server = helper("bench.pages.sweep", "--serve", url, folder)
    try:
        address = (await asyncio.to_thread(answer, server))["url"]
        async with httpx2.AsyncClient(base_url=address, headers={"Authorization": "Bearer ada"}, timeout=60) as http:
            code = (await http.post("/v1/sign-in-links")).json()["code"]
        async with async_playwright() as tool:
            browser = await tool.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = await browser.new_page(viewport={"width": 1440, "height": 900})
            await page.goto(f"{address}/start#sign-in={code}")
            await page.get_by_role("heading", name="Start a run").wait_for()
            found = []
            for _ in range(loads):
                await page.goto(f"{address}/sweeps/team/search", wait_until="commit")
                first = float(await page.evaluate(FIRST))
                found.append((first, float(await page.evaluate(ALL, f"{count:,}"))))
            await browser.close()
            return found
    finally:
        await asyncio.to_thread(server.communicate, "")


def main() -> int:
    """Return the exit code: 0 if all limits were kept."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of it, for a quick look")
    parser.add_argument("--serve", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(*arguments.serve))
        return 0
    return asyncio.run(measure(1_000 if arguments.small else 10_000))


if __name__ == "__main__":
    sys.exit(main())
