"""A cluster with this machine as a node, in a thread, so that tests may use clients that block: kubectl, for example.

It has an API server (embedded or real), a scheduler, the kubelet of this machine, simulated nodes and a run controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.harness.certificates import client_certificate
from tests.harness.real_server import find_binary, require_binaries, running_real_server, unicast_address
from tests.harness.shared_servers import SHARED_SERVERS

from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.opening import open_blobs
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.run_controller import RunController
from kajitori.core.policy.file import parse_policy
from kajitori.embedded.apiserver.certificates import issue_serving
from kajitori.embedded.cluster import EmbeddedCluster, EmbeddedSettings
from kajitori.embedded.controller_manager import ControllerManager
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings, ServerSettings
from kajitori.embedded.simulator import SimSettings, SimulatedNodes
from kajitori.entrypoints.run_adapter import RUN_WORKLOAD, RunPods
from kajitori.entrypoints.run_controller import run_controller
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.platform.install import install

BOUND_SECONDS = 90.0
BLOBS = "blobs"
NODE = "here"
"""The node that is this machine."""
POLICY = {"start": {"pause": "1s", "longestPause": "2s", "deadline": "30s", "restartGrace": "5s"}}


@dataclass(frozen=True)
class LocalCluster:
    """A running one."""

    kubeconfig: Path
    is_real: bool
    blobs: Path
    """The folder of the blob store."""

    def kubectl(self, *arguments: str, stdin: str = "", code: int = 0, env: dict[str, str] | None = None) -> str:
        """What kubectl prints, both streams where it is to fail with `code`."""
        home = {"HOME": str(self.kubeconfig.parent), **(env or {})}
        done = kubectl(self.kubeconfig, *arguments, stdin=stdin, env=home, seconds=BOUND_SECONDS)
        assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr if code else done.stdout


def kubectl(
    kubeconfig: Path, *arguments: str, stdin: str, env: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """What kubectl said and how it ended. env: beside what this process has."""
    return subprocess.run(
        [kubectl_binary(), f"--kubeconfig={kubeconfig}", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **env},
        check=False,
    )


def kubectl_binary() -> str:
    """Return the path of kubectl. Skip the test if it is not installed."""
    found = find_binary("kubectl") or shutil.which("kubectl")
    if not found:
        pytest.skip("no kubectl in the store of setup-envtest or on $PATH: setup-envtest use")
    return str(found)


@contextlib.contextmanager
def running_local_cluster(*, real: bool) -> Iterator[LocalCluster]:
    """All of it, ready: the node of this machine and the simulated ones take Pods. Gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="kajitori-local_cluster-"))
    try:
        if not real:
            with _in_thread(_embedded(folder)) as kubeconfig:
                yield LocalCluster(kubeconfig, is_real=False, blobs=folder / BLOBS)
            return
        require_binaries("kube-apiserver", "etcd", "kube-scheduler")
        authority = client_certificate(folder)
        with (
            running_real_server(
                f"--kubelet-client-certificate={folder}/client.crt", f"--kubelet-client-key={folder}/client.key"
            ) as cluster,
            cluster.scheduler(),
        ):
            server = ServerSettings(client_ca=authority)
            around = _around(cluster.config, cluster.kubeconfig, server, folder, address=unicast_address())
            with _in_thread(around) as kubeconfig:
                yield LocalCluster(kubeconfig, is_real=True, blobs=folder / BLOBS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[Path]:
    async with EmbeddedCluster(EmbeddedSettings(folder / "cluster", in_memory=True)) as cluster:
        certificate, key = issue_serving(cluster.certificates, folder, NODE, ("127.0.0.1",))
        server = ServerSettings(certificate=certificate, key=key, client_ca=cluster.certificates.ca)
        async with (
            KubeClient(cluster.client_config()) as client,
            _working(ControllerManager(client, cluster.volumes, workload=RUN_WORKLOAD)),
            _around(
                cluster.client_config(), cluster.kubeconfig, server, folder, serving=(certificate, key)
            ) as kubeconfig,
        ):
            yield kubeconfig


@contextlib.asynccontextmanager
async def _around(
    config: KubeConfig,
    kubeconfig: Path,
    server: ServerSettings,
    folder: Path,
    *,
    address: str = "127.0.0.1",
    serving: tuple[Path, Path] | None = None,
) -> AsyncIterator[Path]:
    """Nodes and the controller of runs, for whatever API server; kubelets answer at this address, those of simulated
    nodes with this certificate and key."""
    settings = KubeletSettings(NODE, folder / "kubelet", address=address, server=server)
    simulated = SimSettings(
        count=2,
        prefix="gpu-",
        gpus=8,
        gpu_product="NVIDIA-H100-80GB-HBM3",
        remove_not_ready_taint=True,
        address=address,
    )
    async with KubeClient(config) as client:
        await install(client)
        kubelet, nodes = (
            Kubelet(client, settings, adapter=RunPods()),
            SimulatedNodes(client, simulated, serving=serving),
        )
        policy = PolicyFile(None, without_file=parse_policy(POLICY))
        async with Mirror(client) as mirror, _working(kubelet), _working(nodes):
            await asyncio.wait_for(mirror.wait_synced(), BOUND_SECONDS)
            kept = KeptLogs(await open_blobs((folder / BLOBS).as_uri()))
            async with _working(run_controller(client, mirror, ClusterView(mirror, policy), kept_logs=kept)):
                await asyncio.wait_for(_ready(mirror), BOUND_SECONDS)
                yield kubeconfig
                await kubelet.end_all(1.0)


async def _ready(mirror: Mirror) -> None:
    changed = asyncio.Event()
    mirror.on_change(lambda *_: changed.set())
    while len([one for one in mirror.nodes.values() if one.is_ready and not one.spec.taints]) < 3:
        changed.clear()
        await changed.wait()


@contextlib.asynccontextmanager
async def _working(part: ControllerManager | Kubelet | SimulatedNodes | RunController) -> AsyncIterator[None]:
    """A part at work; what it dies of comes out at the end."""
    stop = asyncio.Event()
    task = asyncio.create_task(part.run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


@contextlib.contextmanager
def _in_thread(manager: contextlib.AbstractAsyncContextManager[Path]) -> Iterator[Path]:
    """Holds an async context open in the event loop of another thread."""
    started: threading.Event = threading.Event()
    told: list[Path | BaseException] = []
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def hold() -> None:
        end = asyncio.Event()
        ends.append((asyncio.get_running_loop(), end))
        async with manager as value:
            told.append(value)
            started.set()
            await end.wait()

    def work() -> None:
        try:
            asyncio.run(hold())
        except BaseException as error:
            told.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=work, name="local_cluster")
    thread.start()
    try:
        started.wait(BOUND_SECONDS)
        first = told[0] if told else None
        if not isinstance(first, Path):
            raise RuntimeError("the local_cluster did not start") from first
        yield first
    finally:
        for loop, end in ends:
            if thread.is_alive():
                loop.call_soon_threadsafe(end.set)
        thread.join(BOUND_SECONDS)
    failed = [one for one in told if isinstance(one, BaseException)]
    if failed:
        raise RuntimeError("the local_cluster failed") from failed[0]


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def local_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """One for all tests of this group: give each a namespace of its own.

    Of session scope, so that all tests on one kind of server come before those on the other.
    """
    name = f"local_cluster-{request.param}"
    yield SHARED_SERVERS.get(name, lambda: running_local_cluster(real=request.param == "real"))
    SHARED_SERVERS.end(name)
