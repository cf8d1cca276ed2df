"""Cost of telemetry: a Web API that 7,500 agents report to, and one agent.

    python -m bench.telemetry            7,500 nodes with 8 GPUs, three minutes at their real pace
    python -m bench.telemetry --small    500 nodes, two minutes
    python -m bench.telemetry --profile  prints where the server spends its time

The server is a process of its own, with history in SQLite and a folder of blobs; its API server is a fake one in this
process. The agents are this process, too: each keeps a connection, waits there for questions, and reports its member
with 8 GPUs each minute, twice, as `kaji agent` does. One run has most of the members, the others have one each. A few
ranks are asked for in full resolution meanwhile. The server's idle cost is measured before the agents come.

The second part is one agent in a process of its own: 8 members with one GPU each, whose processes exist; NVML's answers
are recorded ones. It is measured without the waiting, by taking samples and reports one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import psutil
from tests.unit.api.fake_kubernetes import FakeKubernetes, fake_kubernetes, node, pod, run

from bench.common import Limit, print_limits, print_table
from kajitori.cluster.platform.agents import Agent, AgentTokens, _key
from kajitori.core.telemetry.quantities import GPU, GPU_NAMES, MEMBER, MEMBER_NAMES
from kajitori.core.telemetry.report import MEDIA_TYPE, Answer, MemberMinute, Report, Series, decode_questions, encode
from kajitori.core.words.names import AGENT_ACCOUNT

GPUS = 8
ALONE = 0.2
"""Share of the nodes whose members are runs of their own."""
COMING_SECONDS = 30.0
"""Time in which the agents come, as after an upgrade of the servers."""
MIB = 2**20


# ---------------------------------------------------------------------------------------------- the server


async def serve(url: str, folder: Path, profiled: bool) -> None:
    """Run the Web API, and print its URL, until stdin is closed."""
    from kajitori.api.serving.server import ApiServer
    from kajitori.blobs.opening import open_blobs
    from kajitori.cluster.mirror.mirror import Mirror
    from kajitori.configuration.policy_file import PolicyFile
    from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
    from kajitori.entrypoints.process import reduce_garbage_collection
    from kajitori.history.store import History
    from kajitori.kube.client import KubeClient
    from kajitori.kube.config import Credentials, KubeConfig

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
            loop = asyncio.get_running_loop()
            profile = None
            if profiled:
                import cProfile

                await loop.run_in_executor(None, sys.stdin.readline)  # the agents have come
                profile = cProfile.Profile()
                profile.enable()
            await loop.run_in_executor(None, sys.stdin.read)
            if profile is not None:
                import pstats

                profile.disable()
                pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(35)
    await history.close()


def know_tokens(agents: AgentTokens, nodes: Iterable[str]) -> None:
    """Make the server know the agents' tokens as if the API server had reviewed each of them some time ago: the fake
    API server would take minutes for that."""
    for name in nodes:
        agent = Agent(AGENT_ACCOUNT, f"agent-{name}", f"u-{name}", name, math.inf)
        agents._known[_key(token_of(name))] = math.inf, agent


def token_of(node_name: str) -> str:
    return f"pod.kajitori-agent.kajitori.{node_name}.agent-{node_name}.u-{node_name}"


# ---------------------------------------------------------------------------------------------- the agents


class Agents:
    """All agents, each with one connection."""

    def __init__(self, url: str, members: list[dict[str, Any]]) -> None:
        self._host, port = url.removeprefix("http://").split(":")
        self._port = int(port)
        self._members = members
        self.reports = self.answers = self.failures = 0
        self.waiting = 0

    async def run(self, number: int) -> None:
        """Be one agent until cancelled."""
        member = self._members[number]
        offset = 2 + 18 * random.random()
        reported = int((time.time() - offset) // 60) - 1
        await asyncio.sleep(number / len(self._members) * COMING_SECONDS)
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
                # Agents have addresses of their own, since a server limits connections by address.
                local = (f"127.{1 + number // 60_000}.{number // 250 % 240}.{1 + number % 250}", 0)
                reader, writer = await asyncio.open_connection(self._host, self._port, local_addr=local)
                try:
                    while True:
                        reported = await self._turn(reader, writer, member, offset, reported)
                finally:
                    writer.close()
            self.failures += 1
            await asyncio.sleep(random.random() * 2)

    async def _turn(self, reader: Any, writer: Any, member: dict[str, Any], offset: float, reported: int) -> int:
        node_name, path = member["spec"]["nodeName"], "telemetry"
        minute = int((time.time() - offset) // 60) - 1
        if minute > reported:
            body = encode(Report(minutes=(made_minute(member, minute - 1), made_minute(member, minute))))
            status, _ = await self._ask(reader, writer, node_name, "POST", path, body)
            if status != 204:
                raise ValueError(status)
            self.reports += 1
        hold = int(max(1, min((minute + 2) * 60 + offset - time.time(), 55)))
        self.waiting += 1
        try:
            status, content = await self._ask(reader, writer, node_name, "GET", f"{path}/questions?hold={hold}")
        finally:
            self.waiting -= 1
        if status != 200:
            raise ValueError(status)
        for question in decode_questions(content):
            answer = encode(Answer((hour_of(question.uids[0]),)))
            await self._ask(reader, writer, node_name, "POST", f"{path}/answers/{question.id}", answer)
            self.answers += 1
        return minute

    async def _ask(
        self, reader: Any, writer: Any, node_name: str, method: str, path: str, body: bytes = b""
    ) -> tuple[int, bytes]:
        head = f"{method} /v1/nodes/{node_name}/{path} HTTP/1.1\r\nHost: kaji\r\n"
        head += f"Authorization: Bearer {token_of(node_name)}\r\n"
        head += f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        sizes = [line for line in lines if line.lower().startswith("content-length:")]
        size = int(sizes[0].split(":")[1]) if sizes else 0
        return int(lines[0].split()[1]), await reader.readexactly(size)


def made_minute(member: dict[str, Any], minute: int) -> MemberMinute:
    meta = member["metadata"]
    values = array("f", [random.random() * 100 for _ in MEMBER]).tobytes()
    gpus = array("f", [random.random() * 100 for _ in range(GPUS * len(GPU))]).tobytes()
    devices = tuple(f"GPU-00000000-0000-0000-0000-00000000000{number}" for number in range(GPUS))
    training = {"step": float(minute), "loss": random.random(), "step.rate": 1.0, "tokens.rate": 4096.0}
    return MemberMinute(meta["namespace"], meta["name"], meta["uid"], minute, values, devices, gpus, training)


def hour_of(uid: str) -> Series:
    rows = 240
    times = array("d", [time.time() - 15.0 * number for number in range(rows, 0, -1)]).tobytes()
    values = array("f", [1.0] * (rows * len(MEMBER_NAMES))).tobytes()
    gpu_values = array("f", [1.0] * (rows * len(GPU_NAMES) * GPUS)).tobytes()
    return Series(uid, times, values, tuple(f"GPU-{number}" for number in range(GPUS)), gpu_values)


def furnish(fake: FakeKubernetes, nodes: int) -> list[dict[str, Any]]:
    """Make nodes, agents' Pods, and a member on each node; return the members."""
    alone = int(nodes * ALONE)
    status = {"status": {"phase": "Running", "attempts": 1}}
    large = fake.put("runs", run("large", replicas=nodes - alone) | status)
    members = []
    for number in range(nodes):
        name = f"gpu-{number:05}"
        fake.put("nodes", node(name, gpus=GPUS, gpu_type="h100"))
        meta = {"name": f"agent-{name}", "namespace": "kajitori-agents", "uid": f"u-{name}"}
        fake.put("pods", {"metadata": meta, "spec": {"nodeName": name}})
        of, rank = (large, number) if number < nodes - alone else (fake.put("runs", run(f"r{number}") | status), 0)
        members.append(fake.put("pods", pod(of, rank=rank, node=name, gpus=GPUS)))
    return members


@contextlib.asynccontextmanager
async def served(fake: FakeKubernetes, folder: Path, profiled: bool) -> AsyncIterator[tuple[str, psutil.Process, Any]]:
    command = [sys.executable, "-m", "bench.telemetry", "--serve", fake.url, "--folder", str(folder)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *(["--profile"] if profiled else []),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        yield url, psutil.Process(process.pid), process.stdin
    finally:
        process.stdin.close()
        await process.wait()


async def measure_server(nodes: int, seconds: float, profiled: bool) -> list[Limit]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        async with fake_kubernetes() as fake:
            members = furnish(fake, nodes)
            async with served(fake, Path(folder), profiled) as (url, server, told):
                await asyncio.sleep(3)
                before = server.memory_info().rss
                agents = Agents(url, members)
                tasks = [asyncio.create_task(agents.run(number)) for number in range(nodes)]
                await asyncio.sleep(COMING_SECONDS + 62)  # all are connected, and have reported once
                told.write(b"\n")
                began, cpu, reports = time.monotonic(), sum(server.cpu_times()[:2]), agents.reports
                most = server.memory_info().rss
                slowest, unanswered = 0.0, 0
                while time.monotonic() - began < seconds:
                    await asyncio.sleep(2.0)
                    most = max(most, server.memory_info().rss)
                    took = await asked(url, random.randrange(int(nodes * (1 - ALONE))))
                    unanswered += took is None
                    slowest = max(slowest, took or 0.0)
                lasted = time.monotonic() - began
                cores = (sum(server.cpu_times()[:2]) - cpu) / lasted
                reported = agents.reports - reports
                bands = await newest_bands(url)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        history = (Path(folder) / "history.db").stat().st_size
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print_table(
        f"{nodes} nodes with {GPUS} GPUs each, {lasted:.0f} s",
        ("figure", "value"),
        [
            ("reports a second", f"{reported / lasted:.0f}"),
            ("questions answered", str(agents.answers)),
            ("questions without an answer", str(unanswered)),
            ("connections that failed", str(agents.failures)),
            ("ranks in the newest bands of the large run", str(bands)),
            ("memory before the agents came, MiB", f"{before / MIB:.0f}"),
            ("largest memory, MiB", f"{most / MIB:.0f}"),
            ("history after the benchmark, MiB", f"{history / MIB:.1f}"),
        ],
    )
    expected = nodes - int(nodes * ALONE)
    return [
        Limit("cores of all servers together", cores, most=1.0),
        Limit("memory of the server, with its mirror", most / MIB, most=1024.0, unit=" MiB"),
        Limit("ranks in the bands, of those that run", bands / expected, least=1.0),
        Limit("one rank's hour, slowest answer", slowest, most=2.0, unit=" s"),
    ]


async def asked(url: str, rank: int) -> float | None:
    """Ask for one rank in full resolution, as `kaji metrics --rank` does; return the time that it took, None if its
    node did not answer."""
    began = time.monotonic()
    document = await _get(url, f"/v1/runs/team/large/members/{rank}/metrics")
    return time.monotonic() - began if document.get("series") else None


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


def one_agent() -> None:
    """Sample and report 8 members, and print what it cost; in a process of its own."""
    from tests.helpers.recorded_nvml import UUID, Recorded

    from kajitori.agent.telemetry.members import LocalMember
    from kajitori.agent.telemetry.nvml import Nvml
    from kajitori.agent.telemetry.reporting import TelemetryReporting
    from kajitori.agent.telemetry.watch import Watch
    from kajitori.entrypoints import agent as _entrypoint  # everything that a real agent has loaded

    programs = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(GPUS)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = []
            for number, program in enumerate(programs):
                log = Path(folder) / f"{number}.log"
                log.write_text("2026-11-23T10:00:00Z stdout F hello\n")
                pids: Callable[[], list[int]] = partial(list, (program.pid,))
                found.append(LocalMember("team", f"bert-1-{number}", f"u{number}", pids, (), log, (UUID,)))

            class Source:
                def members(self) -> list[LocalMember]:
                    return found

            library = Recorded()
            now = [1_200_000.0]
            watch = Watch(Source(), Nvml(library), lambda: now[0])
            samples = 240
            for _ in range(samples // 4):  # warm
                now[0] += 15
                watch.sample()
            library.calls.clear()
            began = time.process_time()
            for number in range(samples):
                now[0] += 15
                watch.sample()
                if number % 4 == 3:
                    encode(watch.report((int(now[0] // 60) - 2, int(now[0] // 60) - 1)))
            share = (time.process_time() - began) / (samples * 15)
            memory = psutil.Process().memory_info().rss
            calls = len(library.calls) / samples
            print(msgspec.json.encode([share, memory, calls]).decode())
            assert {TelemetryReporting.__module__, _entrypoint.__name__} <= sys.modules.keys()
    finally:
        for program in programs:
            program.kill()
            program.wait()


def measure_agent() -> list[Limit]:
    command = [sys.executable, "-m", "bench.telemetry", "--agent"]
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--agent", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        import uvloop

        uvloop.run(serve(options.serve, options.folder, options.profile))
        return 0
    if options.agent:
        one_agent()
        return 0
    limits = measure_agent()
    nodes = options.nodes or (500 if options.small else 7500)
    limits += asyncio.run(measure_server(nodes, 60.0 if options.small else 120.0, options.profile))
    return print_limits(limits)


if __name__ == "__main__":
    sys.exit(main())
