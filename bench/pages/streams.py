"""Cost of open web pages: a Web API with 10,000 runs that change, and 200 streams of these changes.

    python -m bench.pages.streams            10,000 runs, 200 streams, 50 changes a second
    python -m bench.pages.streams --small    1,000 runs, 20 streams

The server is a process of its own; its API server is a fake one in this process, as are the readers. Half of the
readers see all runs, the others those of one user each. The server's processor time is measured with changes alone,
then with the streams open, then with one page of the list after another.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time
from typing import Any

import httpx2
import psutil
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes, run

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.processes import answer, helper, say

USERS = 100
CHANGES_PER_SECOND = 50
SECONDS = 20.0
LISTS = 20


async def serve(url: str, **parts: Any) -> None:
    """Run the Web API, and print its URL, until stdin is closed. `parts` are further arguments of its state."""
    from kajitori.api.serving.server import ApiServer
    from kajitori.cluster.mirror.mirror import Mirror
    from kajitori.configuration.policy_file import PolicyFile
    from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
    from kajitori.kube.client import KubeClient
    from kajitori.kube.connection.config import Credentials, KubeConfig

    config = KubeConfig(server=url, credentials=Credentials(token="server"), namespace="team")
    async with KubeClient(config) as client, Mirror(client) as mirror:
        await mirror.wait_synced()
        own = ApiDependencies(client=client, mirror=mirror, policy=PolicyFile(None), **parts)
        async with ApiServer(web_app(own)) as server:
            say({"url": server.url})
            await asyncio.to_thread(sys.stdin.read)


class Reader:
    """One reader of an open page."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.batches = 0
        self.began = asyncio.Event()

    async def read(self, http: httpx2.AsyncClient, path: str = "/v1/runs/changes", **params: Any) -> None:
        """Read a stream until cancelled."""
        async with http.stream("GET", path, params=params, timeout=None) as response:
            response.raise_for_status()
            async for chunk in response.aiter_raw():
                self.size_bytes += len(chunk)
                self.batches += chunk.count(b"event: changes")
                if b"event: snapshot" in chunk:
                    self.began.set()


def named(number: int) -> str:
    """Return the name of a run."""
    return f"run-{number:05d}"


def put_runs(kubernetes: FakeKubernetes, count: int) -> None:
    """Create the runs, the same number for each user."""
    resources = {"gpu": 8, "gpuType": "h100"}
    for number in range(count):
        document = run(named(number), owner=f"user{number % USERS}", replicas=4, resources=resources)
        document["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z"
        document["status"] = {"phase": "Running", "members": {"total": 4, "running": 4}, "message": ""}
        kubernetes.put("runs", document)


async def change(kubernetes: FakeKubernetes, count: int, seconds: float) -> None:
    """Change runs one after the other, evenly."""
    began = time.monotonic()
    for number in range(int(seconds * CHANGES_PER_SECOND)):
        message = f"step {time.monotonic():.3f}"
        status = {"phase": "Running", "members": {"total": 4, "running": 4}, "message": message}
        kubernetes.change("runs", named(number * 37 % count), status=status)
        await asyncio.sleep(max(0.0, began + number / CHANGES_PER_SECOND - time.monotonic()))


async def measure(count: int, streams: int) -> int:
    """Run the whole benchmark; return the exit code."""
    async with fake_kubernetes() as kubernetes:
        put_runs(kubernetes, count)
        server = helper("bench.pages.streams", "--serve", kubernetes.url)
        try:
            url = (await asyncio.to_thread(answer, server))["url"]
            process = psutil.Process(server.pid)
            limits = httpx2.Limits(max_connections=None)
            headers = {"Authorization": "Bearer ada"}
            async with httpx2.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as http:
                return await _figures(kubernetes, http, process, count, streams)
        finally:
            await asyncio.to_thread(server.communicate, "")


async def _figures(
    kubernetes: FakeKubernetes, http: httpx2.AsyncClient, process: psutil.Process, count: int, streams: int
) -> int:
    first = await _list_seconds(http)
    alone, _ = await _share(kubernetes, process, count)
    watches = len(kubernetes._watchers)
    readers = [Reader() for _ in range(streams)]
    tasks = []
    before_bytes = process.memory_info().rss
    for number, reader in enumerate(readers):
        params = {"owner": f"user{number % USERS}"} if number % 2 else {"items": "false"}
        tasks.append(asyncio.create_task(reader.read(http, **params)))
    await asyncio.gather(*(reader.began.wait() for reader in readers))
    batches, sizes = sum(reader.batches for reader in readers), sum(reader.size_bytes for reader in readers)
    share, seconds = await _share(kubernetes, process, count)
    batches = sum(reader.batches for reader in readers) - batches
    sizes = sum(reader.size_bytes for reader in readers) - sizes
    more_mib = (process.memory_info().rss - before_bytes) / 2**20
    more_watches = len(kubernetes._watchers) - watches
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with contextlib.suppress(httpx2.HTTPError):
        lists = [await _list_seconds(http, offset=number * 100 % count) for number in range(LISTS)]
    print_table(
        f"{count:,} runs, {CHANGES_PER_SECOND} changes a second, {streams} streams for {seconds:.0f} s",
        ("", "measured"),
        [
            ("processor share, changes alone", f"{alone:.1%}"),
            ("processor share, with the streams", f"{share:.1%}"),
            ("batches a second and stream", f"{batches / seconds / streams:.2f}"),
            ("kB a minute and stream", f"{sizes / seconds / streams * 60 / 1000:.0f}"),
            ("MiB more with the streams", f"{more_mib:.0f}"),
            ("first list of 100, ms", f"{first * 1000:.0f}"),
            ("later windows of 100, ms (median)", f"{statistics.median(lists) * 1000:.0f}"),
        ],
    )
    return print_limits(
        [
            Limit("processor share of the streams", 100 * (share - alone), most=10, unit=" %"),
            Limit("watches on the API server for the streams", more_watches, most=0),
            Limit("a window of the list", statistics.median(lists) * 1000, most=100, unit=" ms"),
        ]
    )


async def _share(kubernetes: FakeKubernetes, process: psutil.Process, count: int) -> tuple[float, float]:
    """Return the share of a processor that the server takes while runs change, and for how long it was measured."""
    before, began = process.cpu_times(), time.monotonic()
    await change(kubernetes, count, SECONDS)
    after, seconds = process.cpu_times(), time.monotonic() - began
    return (after.user + after.system - before.user - before.system) / seconds, seconds


async def _list_seconds(http: httpx2.AsyncClient, offset: int = 0) -> float:
    began = time.perf_counter()
    response = await http.get("/v1/runs", params={"fields": "summary", "sort": "-createdAt", "offset": offset})
    response.raise_for_status()
    json.loads(response.content)
    return time.perf_counter() - began


def main() -> int:
    """Return the exit code: 0 if all limits were kept."""
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of it, for a quick look")
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve))
        return 0
    return asyncio.run(measure(1_000, 20) if arguments.small else measure(10_000, 200))


if __name__ == "__main__":
    sys.exit(main())
