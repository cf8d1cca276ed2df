"""A cluster with this machine as a node, in a thread, so that tests may use clients that block: kubectl, for example.

It has an API server (embedded or real), a scheduler, the kubelet of this machine, simulated nodes and a run controller.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.harness.binaries import require_binaries
from tests.harness.cluster import Cluster, control_plane, this_machine
from tests.harness.commands import kubectl, output_of
from tests.harness.platform.deployed import grant_controller
from tests.harness.platform.parts import HERE
from tests.harness.servers.kube_server import CONTROLLER, KubeServer
from tests.harness.servers.real_server import running_real_server
from tests.harness.waiting import PATIENCE_SECONDS

from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.stores.opening import open_blobs

BLOBS = "blobs"
NODE = HERE
"""The node that is this machine."""
POLICY = {"start": {"pause": "1s", "longestPause": "2s", "deadline": "30s", "restartGrace": "5s"}}


@dataclass(frozen=True)
class LocalCluster:
    """A running cluster with this machine as a node."""

    server: KubeServer
    blobs: Path
    """Folder of the blob store."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.server.kubeconfig

    @property
    def is_real(self) -> bool:
        """Whether the API server is a real one."""
        return self.server.is_real

    def kubectl(self, *arguments: str, stdin: str = "", code: int = 0, env: dict[str, str] | None = None) -> str:
        """Return what kubectl prints; both streams if it is expected to fail with `code`."""
        return output_of(kubectl(self.kubeconfig, *arguments, stdin=stdin, env=env, seconds=90.0), code)


@contextlib.contextmanager
def running_local_cluster(*, real: bool) -> Iterator[LocalCluster]:
    """Run such a cluster; yields when its nodes accept Pods."""
    folder = Path(tempfile.mkdtemp(prefix="kajitori-local-"))
    try:
        with contextlib.ExitStack() as closing:
            server: KubeServer | None = None
            if real:
                require_binaries("kube-apiserver", "etcd", "kube-scheduler")
                running = closing.enter_context(running_real_server())
                closing.enter_context(running.scheduler())
                server = running
            yield closing.enter_context(_in_thread(_parts(server, folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def _parts(real: KubeServer | None, folder: Path) -> AsyncIterator[LocalCluster]:
    async with (
        control_plane(real, folder) as server,
        Cluster(server, folder, policy=POLICY).running(nodes=2) as cluster,
        this_machine(cluster, labels={}, address=server.node_address),
    ):
        if server.is_real:
            await grant_controller(cluster.client, CONTROLLER)
        cluster.use_policy()
        cluster.kept_logs = KeptLogs(await open_blobs((folder / BLOBS).as_uri()))
        cluster.start_controller()
        yield LocalCluster(server, folder / BLOBS)


@contextlib.contextmanager
def _in_thread(manager: contextlib.AbstractAsyncContextManager[LocalCluster]) -> Iterator[LocalCluster]:
    """Hold an async context open in the event loop of another thread."""
    started = threading.Event()
    results: list[LocalCluster | BaseException] = []
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def hold() -> None:
        end = asyncio.Event()
        ends.append((asyncio.get_running_loop(), end))
        async with manager as cluster:
            results.append(cluster)
            started.set()
            await end.wait()

    def work() -> None:
        try:
            asyncio.run(hold())
        except BaseException as error:
            results.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=work, name="local cluster")
    thread.start()
    try:
        started.wait(2 * PATIENCE_SECONDS)
        first = results[0] if results else None
        if not isinstance(first, LocalCluster):
            raise RuntimeError("the local cluster did not start") from first
        yield first
    finally:
        for loop, end in ends:
            if thread.is_alive():
                loop.call_soon_threadsafe(end.set)
        thread.join(2 * PATIENCE_SECONDS)
    failed = [result for result in results if isinstance(result, BaseException)]
    if failed:
        raise RuntimeError("the local cluster failed") from failed[0]
