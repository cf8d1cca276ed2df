"""Cost of telemetry: a Web API that 7,500 agents report to, and one agent.

    python -m bench.telemetry.agents            7,500 nodes with 8 GPUs, three minutes at their real pace
    python -m bench.telemetry.agents --small    500 nodes, two minutes
    python -m bench.telemetry.agents --profile  prints where the server spends its time

The server is a process of its own, with history in SQLite and a folder of blobs; its API server is a fake one in this
process. The agents are a few other processes (`--parts`): each agent keeps a connection, waits there for questions, and
reports its member with 8 GPUs each minute, twice, as `kaji agent` does. One run has most of the members, the others
have one each. A few ranks are asked for in full resolution meanwhile. The server's idle cost is measured before the
agents come. How late the event loops of all processes are is measured as well, and so is the way of each question:
until it is at the agent, until the server has the answer, and until the user has it.

The second part measures one agent in a process of its own. It samples 8 members with one GPU each; their processes are
real, and NVML's answers are recorded. Samples and reports follow each other without pauses, so the time is that of the
work alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes, node, pod, run

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from bench.parts.processes import say
from bench.telemetry.fake_agents import COMING_SECONDS, GPUS, Agent, LoopLag, Told, token_of
from kajitori.cluster.platform import agents as agent_tokens
from kajitori.core.naming.names import AGENT_ACCOUNT

LONG_COLLECTION_SECONDS = 0.1
PARTS = 3
"""Processes that play agents."""
ALONE = 0.2
"""Share of the nodes that have a member of a separate run; all other nodes have a member of the one large run."""
MIB = 2**20


# ---------------------------------------------------------------------------------------------- the server


async def serve(url: str, folder: Path, profiled: bool) -> None:
    """Run the Web API, and print its URL, until stdin is closed."""
    from kajitori.api.serving.server import ApiServer
    from kajitori.blobs.stores.opening import open_blobs
    from kajitori.cluster.mirror.mirror import Mirror
    from kajitori.configuration.policy_file import PolicyFile
    from kajitori.entrypoints.garbage import reduce_garbage_collection
    from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
    from kajitori.history.store import History
    from kajitori.kube.client import KubeClient
    from kajitori.kube.connection.config import Credentials, KubeConfig

    config = KubeConfig(server=url, credentials=Credentials(token="server"), namespace="team")
    history = History(f"sqlite://{folder}/history.db")
    blobs = await open_blobs((folder / "blobs").as_uri(), field="--blobs")
    async with KubeClient(config) as client, Mirror(client) as mirror:
        await mirror.wait_synced()
        from datetime import UTC, datetime

        app = web_app(
            ApiDependencies(
                client=client,
                mirror=mirror,
                policy=PolicyFile(None),
                blobs=blobs,
                history=history,
                user_client=lambda token: KubeClient(config.with_token(token)),
                now=lambda: datetime.now(UTC),
            )
        )
        know_tokens(app.state.kajitori.traffic.agents, mirror.nodes)
        async with ApiServer(app) as server:
            reduce_garbage_collection()
            print(server.url, flush=True)
            loop, lag, profile = asyncio.get_running_loop(), LoopLag(), None
            collections = note_collections()
            measuring = asyncio.create_task(lag.run())
            await loop.run_in_executor(None, sys.stdin.readline)  # the agents have connected
            lag.take()
            collections.clear()
            if profiled:
                import cProfile

                profile = cProfile.Profile()
                profile.enable()
            await loop.run_in_executor(None, sys.stdin.readline)
            say(
                (
                    *lag.take(),
                    sum(each >= LONG_COLLECTION_SECONDS for each in collections),
                    max(collections, default=0.0),
                )
            )
            measuring.cancel()
            await loop.run_in_executor(None, sys.stdin.read)
            if profile is not None:
                import pstats

                profile.disable()
                pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(35)
    await history.close()


def note_collections() -> list[float]:
    """Return a list of the seconds that each garbage collection takes from now on. Nothing else runs meanwhile,
    whichever thread collects."""
    taken, began = [], time.perf_counter()

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            taken.append(time.perf_counter() - began)

    gc.callbacks.append(note)
    return taken


def know_tokens(agents: agent_tokens.AgentTokens, nodes: Iterable[str]) -> None:
    """Tell the server the agents' tokens, as if the API server had reviewed each of them some time ago: the fake API
    server would take minutes for that."""
    for name in nodes:
        agent = agent_tokens.Agent(AGENT_ACCOUNT, f"agent-{name}", f"u-{name}", name, math.inf)
        agents._known[agent_tokens._cache_key(token_of(name))] = math.inf, agent


# ------------------------------------------------------------------------------------------- the measurement


def furnish(fake: FakeKubernetes, nodes: int) -> list[Agent]:
    """Make nodes, agents' Pods, and a member on each node; return the agents."""
    alone = int(nodes * ALONE)
    status = {"status": {"phase": "Running", "attempts": 1}}
    large = fake.put("runs", run("large", replicas=nodes - alone) | status)
    agents = []
    for number in range(nodes):
        name = f"gpu-{number:05}"
        fake.put("nodes", node(name, gpus=GPUS, gpu_type="h100"))
        meta = {"name": f"agent-{name}", "namespace": "kajitori-agents", "uid": f"u-{name}"}
        fake.put("pods", {"metadata": meta, "spec": {"nodeName": name}})
        of, rank = (large, number) if number < nodes - alone else (fake.put("runs", run(f"r{number}") | status), 0)
        meta = fake.put("pods", pod(of, rank=rank, node=name, gpus=GPUS))["metadata"]
        agents.append(Agent(number, name, meta["namespace"], meta["name"], meta["uid"]))
    return agents


@contextlib.asynccontextmanager
async def helper(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a module in a separate process. It ends when its stdin is closed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


async def asked_of(process: asyncio.subprocess.Process) -> bytes:
    """Write an empty line, and return the line that the process answers."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"\n")
    return await process.stdout.readline()


@dataclass(frozen=True)
class Question:
    """One question about a rank's hour."""

    rank: int
    began: float
    ended: float
    answered: bool

    @property
    def seconds(self) -> float:
        return self.ended - self.began


async def measure_server(nodes: int, seconds: float, parts: int, profiled: bool) -> list[Limit]:
    with tempfile.TemporaryDirectory() as folder:
        async with fake_kubernetes() as fake, contextlib.AsyncExitStack() as stack:
            agents = furnish(fake, nodes)
            file = Path(folder) / "agents.json"
            file.write_bytes(msgspec.json.encode(agents))
            server = await stack.enter_async_context(
                helper(
                    "bench.telemetry.agents", "--serve", fake.url, "--folder", folder, *["--profile"][: int(profiled)]
                )
            )
            assert server.stdout is not None and server.stdin is not None
            url, process = (await server.stdout.readline()).decode().strip(), psutil.Process(server.pid)
            await asyncio.sleep(3)
            before = process.memory_info().rss
            players = [
                await stack.enter_async_context(
                    helper("bench.telemetry.fake_agents", url, str(file), str(number), str(parts))
                )
                for number in range(parts)
            ]
            lag = LoopLag()
            measuring = asyncio.create_task(lag.run())
            await asyncio.sleep(COMING_SECONDS + 62)  # all are connected, and have reported once
            await asyncio.gather(*map(asked_of, players))
            server.stdin.write(b"\n")
            lag.take()
            began, cpu = time.monotonic(), _cores_seconds(process, players)
            most, questions = process.memory_info().rss, []
            while time.monotonic() - began < seconds:
                await asyncio.sleep(2.0)
                most = max(most, process.memory_info().rss)
                questions.append(await ask(url, random.randrange(int(nodes * (1 - ALONE)))))
            lasted = time.monotonic() - began
            used = [
                (after - earlier) / lasted for after, earlier in zip(_cores_seconds(process, players), cpu, strict=True)
            ]
            told = [msgspec.json.decode(line, type=Told) for line in await asyncio.gather(*map(asked_of, players))]
            *server_lag, long_collections, collection = tuple(msgspec.json.decode(await asked_of(server)))
            own_lag = lag.take()
            measuring.cancel()
            bands = await newest_bands(url)
        history = (Path(folder) / "history.db").stat().st_size
    took = sorted(each.seconds for each in questions if each.answered) or [math.inf]
    unanswered = sum(not each.answered for each in questions)
    print_table(
        f"{nodes} nodes with {GPUS} GPUs each, {lasted:.0f} s; load of the machine {os.getloadavg()[0]:.1f}",
        ("figure", "value"),
        [
            ("reports a second", f"{sum(each.reports for each in told) / lasted:.0f}"),
            ("questions asked, without an answer", f"{len(questions)}, {unanswered}"),
            ("median and slowest answer, s", f"{statistics.median(took):.2f}, {took[-1]:.2f}"),
            *slowest_ways(questions, told, agents),
            ("lag of the server's loop: 99 %, most, s", _lag_words(server_lag)),
            ("garbage collections of 0.1 s or more; the longest, s", f"{long_collections:.0f}; {collection:.3f}"),
            *[(f"lag of the agents' loop {number}", _lag_words(each.lags)) for number, each in enumerate(told)],
            ("lag of the asking loop", _lag_words(own_lag)),
            ("cores used by the server; by the agents", f"{used[0]:.2f}; {sum(used[1:]):.2f}"),
            ("connections that failed", str(sum(each.failures for each in told))),
            ("ranks in the newest bands of the large run", str(bands)),
            ("memory before the agents came, MiB", f"{before / MIB:.0f}"),
            ("largest memory, MiB", f"{most / MIB:.0f}"),
            ("history after the benchmark, MiB", f"{history / MIB:.1f}"),
        ],
    )
    expected = nodes - int(nodes * ALONE)
    return [
        Limit("cores of all servers together", used[0], most=1.0),
        Limit("memory of the server, with its mirror", most / MIB, most=1024.0, unit=" MiB"),
        Limit("ranks in the bands, of those that run", bands / expected, least=1.0),
        Limit("one rank's hour, slowest answer", took[-1], most=2.0, unit=" s"),
        Limit("questions without an answer", unanswered, most=0),
    ]


def _cores_seconds(server: psutil.Process, players: Sequence[asyncio.subprocess.Process]) -> list[float]:
    """Return the processor time so far of the server and of each process with agents."""
    return [sum(each.cpu_times()[:2]) for each in (server, *(psutil.Process(player.pid) for player in players))]


def _lag_words(lags: Sequence[float]) -> str:
    return ", ".join(f"{each:.3f}" for each in lags)


def slowest_ways(
    questions: Sequence[Question], told: Sequence[Told], agents: Sequence[Agent]
) -> Iterator[tuple[str, str]]:
    """Yield lines about the three slowest questions: where their time was spent."""
    came = {uid: (at, accepted) for each in told for uid, at, accepted in each.answers}
    for each in sorted(questions, key=lambda each: -each.seconds)[:3]:
        at, accepted = came.get(agents[each.rank].uid, (math.nan, math.nan))
        parts = (each.began % 60, at - each.began, accepted - at, each.ended - accepted)
        yield "asked at second; to the agent, answered, to the user", ", ".join(f"{part:.2f}" for part in parts)


async def ask(url: str, rank: int) -> Question:
    """Ask for one rank in full resolution, as `kaji metrics --rank` does."""
    began = time.time()
    document = await _get(url, f"/v1/runs/team/large/members/{rank}/metrics")
    return Question(rank, began, time.time(), bool(document.get("series")))


async def newest_bands(url: str) -> int:
    document = await _get(url, "/v1/runs/team/large/metrics?name=cpu.used")
    return max(int(point["count"]) for point in document["series"][0]["points"])


async def _get(url: str, path: str) -> Any:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
    head = f"GET {path} HTTP/1.1\r\nHost: kaji\r\nAuthorization: Bearer ada\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    content = await reader.read()
    writer.close()
    return json.loads(content.partition(b"\r\n\r\n")[2])


# ---------------------------------------------------------------------------------------------- one agent


def measure_agent() -> list[Limit]:
    command = [sys.executable, "-m", "bench.telemetry.one_agent"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    share, memory, calls = msgspec.json.decode(done.stdout)
    print_table(
        "one agent, 8 members with a GPU each",
        ("figure", "value"),
        [
            ("share of a core, %", f"{100 * share:.3f}"),
            ("memory, MiB", f"{memory / MIB:.0f}"),
            ("calls of NVML for a sample", f"{calls:.0f}"),
        ],
    )
    return [
        Limit("an agent's share of a core", 100 * share, most=0.5, unit=" %"),
        Limit("an agent's memory", memory / MIB, most=64.0, unit=" MiB"),
    ]


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--parts", type=int, default=PARTS, help="processes with agents")
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        import uvloop

        uvloop.run(serve(options.serve, options.folder, options.profile))
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limits = measure_agent()
    nodes = options.nodes or (500 if options.small else 7500)
    limits += asyncio.run(measure_server(nodes, 60.0 if options.small else 120.0, options.parts, options.profile))
    return print_limits(limits)


if __name__ == "__main__":
    sys.exit(main())
