"""Cost of telling all members of a large gang the addresses of all others.

    python -m bench.gangs.discovery            7,500 members
    python -m bench.gangs.discovery --small    300 members

A real kube-apiserver with etcd on this machine (see tests/harness/servers/real_server.py) holds the Pods of a gang as
they are while members are in their first step; they do not run. `kaji server` in a process of its own follows them,
with an identity of its own, so that the API server's audit log tells what it asks for. First all members but one have
an address; all of them ask the Web API, as their first steps do, and wait. Then the last one gets its address. The peer
is the work of the API server if each member listed the Pods of its run there, extrapolated from twenty that do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psutil
import uvloop
import yaml
from tests.harness.servers.real_server import RealServer, running_real_server

from bench.parts.common import Limit, print_limits, print_table
from bench.parts.gangs import lacks
from bench.parts.options import option_parser
from kajitori.cluster.platform.install import install
from kajitori.cluster.platform.ticket_key import ensure_ticket_key
from kajitori.cluster.run_object import RUNS
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.naming import first_step, names
from kajitori.core.pods.manifests import MemberPods
from kajitori.core.pods.tickets import Ticket, sign
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.kube.client import KubeClient
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import NAMESPACES, PODS, Resource

NAMESPACE = "discovery"
RUN = "bert"
WEB_API_USER = "ada"
"""The user as which the Web API acts."""
LISTS = 20
PATIENCE_SECONDS = 180.0
AT_ONCE = 64
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "users": [WEB_API_USER]}, {"level": "None"}],
}
_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)


@dataclass(frozen=True, slots=True)
class Answered:
    """Outcome of one member's request."""

    at: float
    """Monotonic time at which the whole answer had arrived."""
    sent_bytes: int
    status: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one round."""

    members: int
    last_answer_seconds: float
    """Seconds from the last address until the last member had its answer."""
    web_api_cpu_seconds: float
    web_api_mib: float
    bytes_each: float
    requests: int
    """Requests of the Web API to the API server while all members asked and waited."""
    list_cpu_seconds: float
    """Processor seconds of the API server for one member that lists the Pods there."""
    list_bytes: int


# ---------------------------------------------------------------------------------------------- the gang


async def make_gang(client: KubeClient, members: int, code: str = "") -> str:
    """Create a run with all members in their first step, and all but the last with an address. Return its ticket."""
    asked: dict[str, Any] = {"image": "bert:3", "replicas": members}
    if code:
        asked["code"] = {"digest": code, "path": "/code"}
    spec = parse_spec({**asked, "resources": {"cpu": 8, "memory": "64Gi", "gpu": 8}})
    rules = parse_policy({"start": {"image": "kajitori:1", "server": "http://kajitori:8600"}})
    decision = decide(spec, rules, Facts(), run=RunIdentity(RUN, NAMESPACE))
    kind = {"apiVersion": names.API_VERSION, "kind": names.KIND}
    run = {**kind, "metadata": {"name": RUN}, "spec": asked}
    made = await client.create(RUNS, run, NAMESPACE)
    uid = made["metadata"]["uid"]
    status = {"status": {"phase": "Starting", "attempts": 1}}
    await client.patch(RUNS, RUN, status, NAMESPACE, subresource="status")
    key = await ensure_ticket_key(client, LEASE_NAMESPACE)
    pods = MemberPods(
        decision.template, run_name=RUN, namespace=NAMESPACE, run_uid=uid, attempt=1, world_size=members, port=20001,
        launcher=spec.launcher, bind_direct=True, key=key,
    )  # fmt: skip
    turns = asyncio.Semaphore(AT_ONCE)

    async def make(rank: int) -> None:
        async with turns:
            await client.create(PODS, pods.pod(rank, f"gpu-{rank:05}"), NAMESPACE)
            await report(client, rank, "" if rank == members - 1 else address(rank))

    await asyncio.gather(*(make(rank) for rank in range(members)))
    return sign(Ticket(NAMESPACE, RUN, uid, 1, members, code), key)


async def report(client: KubeClient, rank: int, pod_ip: str) -> None:
    """The status of a member in its first step, as its kubelet writes it."""
    common = {"image": "x", "imageID": "", "ready": False, "restartCount": 0}
    step = {**common, "name": first_step.CONTAINER, "state": {"running": {"startedAt": "2026-11-21T00:00:00Z"}}}
    main = {**common, "name": names.MEMBER_CONTAINER, "state": {"waiting": {"reason": "PodInitializing"}}}
    status: dict[str, Any] = {"phase": "Pending", "initContainerStatuses": [step], "containerStatuses": [main]}
    if pod_ip:
        status |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    name = names.pod_name(RUN, 1, rank)
    await client.patch(PODS, name, {"status": status}, NAMESPACE, kind=PatchKind.STRATEGIC, subresource="status")


def address(rank: int) -> str:
    """Return the address of a member: 64 members per subnet, as nodes have subnets."""
    return f"10.{128 + (rank >> 14)}.{(rank >> 6) & 255}.{(rank & 63) * 3 + 2}"


# ---------------------------------------------------------------------------------------------- members that ask


class Asking(asyncio.Protocol):
    """One member's request."""

    def __init__(self, request: bytes, answered: asyncio.Future[Answered]) -> None:
        self._request, self._answered = request, answered
        self._head = b""
        self._bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        if len(self._head) < 12:
            self._head += data[:12]

    def connection_lost(self, error: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_result(Answered(time.monotonic(), self._bytes, self._head[9:12].decode()))


async def ask_all(url: str, ticket: str, members: int) -> list[asyncio.Future[Answered]]:
    """Return whether every member has sent its request."""
    loop, place = asyncio.get_running_loop(), urlsplit(url)
    request = (
        f"GET /v1/members/hosts HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {ticket}\r\n"
        "Accept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    ).encode()
    asked: list[asyncio.Future[Answered]] = []
    turns = asyncio.Semaphore(500)

    async def ask() -> None:
        answered: asyncio.Future[Answered] = loop.create_future()
        asked.append(answered)
        async with turns:
            await loop.create_connection(lambda: Asking(request, answered), place.hostname or "", place.port or 80)

    await asyncio.gather(*(ask() for _ in range(members)))
    return asked


# ---------------------------------------------------------------------------------------------- one round


@contextlib.contextmanager
def web_api(kubeconfig: Path, folder: Path, *more: str) -> Iterator[tuple[str, psutil.Process]]:
    """Start `kaji server`; yield its address and its process."""
    (folder / "policy.yaml").write_text("{}\n")
    options = ("--kubeconfig", str(kubeconfig), "--policy", str(folder / "policy.yaml"), "--port", "0", *more)
    for limit in ("connections", "unauthenticated"):  # all members have one address here
        options += ("--limit", f"{limit}-per-address=0")
    command = [sys.executable, "-m", "kajitori.cli", "server", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if found := re.search(r"Web API: (http\S+)", line):
                    yield found[1], psutil.Process(process.pid)
                    return
            raise RuntimeError("kaji server ended before it listened")
        finally:
            process.terminate()


def own_identity(cluster: RealServer, folder: Path) -> Path:
    """Write a kubeconfig with an identity of the Web API's own."""
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": cluster.tokens[WEB_API_USER]}
    kubeconfig = folder / "web-api.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    return kubeconfig


@contextlib.asynccontextmanager
async def prepared(cluster: RealServer) -> AsyncIterator[KubeClient]:
    """Install Kajitori; the Web API's user gets all rights."""
    async with cluster.client() as client:
        await install(client)
        for name in (NAMESPACE, LEASE_NAMESPACE):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": WEB_API_USER}
        await client.create(_BINDINGS, {"metadata": {"name": "web-api"}, "roleRef": role, "subjects": [subject]})
        yield client


async def measure(cluster: RealServer, folder: Path, members: int) -> Figures:
    """Measure one round with a gang of this size."""
    audit = folder / "audit.log"
    async with prepared(cluster) as client:
        ticket = await make_gang(client, members)
        with web_api(own_identity(cluster, folder), folder) as (url, process):
            before, cpu_before = len(audit.read_text().splitlines()), cpu_seconds(process)
            # 1. All ask, and wait for the last one.
            asked = await ask_all(url, ticket, members)
            await asyncio.sleep(2.0)
            # 2. The last one gets its address.
            await report(client, members - 1, address(members - 1))
            known_at = time.monotonic()
            async with asyncio.timeout(PATIENCE_SECONDS):
                answers = await asyncio.gather(*asked)
            cpu, memory = cpu_seconds(process) - cpu_before, process.memory_info().rss
            lines = audit.read_text().splitlines()[before:]
        if {answer.status for answer in answers} != {"200"}:
            raise RuntimeError(f"not all were answered: {sorted({answer.status for answer in answers})}")
        # 3. The same from the API server itself, for a few.
        list_cpu, list_bytes = await lists(client)
    return Figures(
        members=members,
        last_answer_seconds=max(answer.at for answer in answers) - known_at,
        web_api_cpu_seconds=cpu,
        web_api_mib=memory / 2**20,
        bytes_each=sum(answer.sent_bytes for answer in answers) / members,
        requests=len([line for line in lines if json.loads(line)["user"]["username"] == WEB_API_USER]),
        list_cpu_seconds=list_cpu,
        list_bytes=list_bytes,
    )


async def lists(client: KubeClient) -> tuple[float, int]:
    """Return processor seconds of the API server, and bytes, for one LIST of the run's Pods."""
    process = next(each for each in psutil.Process().children(recursive=True) if each.name() == "kube-apiserver")
    path = f"{PODS.path(NAMESPACE)}?labelSelector={names.LABEL_RUN}%3D{RUN}&resourceVersion=0"
    began, size = cpu_seconds(process), 0
    for _ in range(LISTS):
        size = len(await client.request("GET", path))
    return (cpu_seconds(process) - began) / LISTS, size


def cpu_seconds(process: psutil.Process) -> float:
    """Return the processor seconds of a process."""
    times = process.cpu_times()
    return float(times.user + times.system)


# ---------------------------------------------------------------------------------------------- all of it


def run(members: int) -> Figures:
    """Measure one round on a new cluster."""
    with tempfile.TemporaryDirectory(prefix="kajitori-discovery-") as name:
        folder = Path(name)
        (folder / "audit.yaml").write_text(yaml.safe_dump(_AUDIT))
        flags = (f"--audit-policy-file={folder}/audit.yaml", f"--audit-log-path={folder}/audit.log")
        with running_real_server(*flags, "--audit-log-mode=blocking", "--max-requests-inflight=2000") as cluster:
            return uvloop.run(measure(cluster, folder, members))


def show(rounds: list[Figures]) -> int:
    """Print the tables; return the exit code."""
    rows: list[tuple[str, Callable[[Figures], str]]] = [
        ("requests of the Web API to the API server", lambda it: str(it.requests)),
        ("from the last address to the last answer, s", lambda it: f"{it.last_answer_seconds:.2f}"),
        ("processor time of the Web API, s", lambda it: f"{it.web_api_cpu_seconds:.2f}"),
        ("memory of the Web API, MiB", lambda it: f"{it.web_api_mib:.0f}"),
        ("sent to each member, kB", lambda it: f"{it.bytes_each / 1000:.1f}"),
        (
            "processor time of the API server, if each listed the Pods, s",
            lambda it: f"{it.list_cpu_seconds * it.members:,.0f}",
        ),
        ("sent by the API server then, GB", lambda it: f"{it.list_bytes * it.members / 1e9:,.2f}"),
    ]
    columns = ("", *(f"{each.members:,} members" for each in rounds))
    table = [(what, *(shown(each) for each in rounds)) for what, shown in rows]
    print_table("all members of a gang learn where all of them are", columns, table)
    small, large = rounds
    per_member = large.web_api_cpu_seconds / large.members
    return print_limits(
        [
            Limit("requests to the API server, however many ask", large.requests, most=small.requests + 1),
            Limit("processor time of the Web API, per member", per_member * 1e3, most=3, unit=" ms"),
            Limit("from the last address to the last answer", large.last_answer_seconds, most=15, unit=" s"),
            Limit("processor time beside listing at the API server", per_member / large.list_cpu_seconds, most=0.1),
        ]
    )


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="300 members instead of 7,500")
    members = 300 if parser.parse_args().small else 7500
    if lacks("kube-apiserver", "etcd"):
        return 2
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, members + 1000), hard), hard))
    return show([run(max(members // 25, 10)), run(members)])


if __name__ == "__main__":
    sys.exit(main())
