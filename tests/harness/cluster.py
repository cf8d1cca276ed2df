"""A cluster with simulated nodes, a mirror and run controllers, for one test of the life of runs.

`cluster` is parametrised over both kinds of server: the embedded one with its binder, and a real kube-apiserver with a
real kube-scheduler and kube-controller-manager. What a test leaves behind is cleaned up.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from tests.harness.deployed import grant_controller
from tests.harness.embedded_server import embedded_server
from tests.harness.identity_provider import sign_in_flags
from tests.harness.real_server import CONTROLLER, RealServer, require_binaries, running_real_server, unicast_address
from tests.harness.shared_servers import SHARED_SERVERS

from kajitori.blobs.logs import KeptLogs
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.settings import LEASE_NAMESPACE
from kajitori.core.admission.owner_policy import POLICY_NAME
from kajitori.core.policy.file import own_machine_policy, parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.words import names
from kajitori.core.words.node_lists import expand
from kajitori.embedded.apiserver.certificates import issue_serving
from kajitori.embedded.controller_manager import ControllerManager
from kajitori.embedded.kubelet.eviction import available_memory_bytes
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.embedded.simulator import SimSettings, SimulatedNodes
from kajitori.entrypoints.run_adapter import RUN_WORKLOAD, RunPods
from kajitori.entrypoints.run_controller import run_controller
from kajitori.errors import AlreadyExists, Forbidden, KajitoriError, NotFound
from kajitori.kube.client import KubeClient, PatchKind
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import Pod
from kajitori.kube.platform.install import install
from kajitori.kube.resources import NAMESPACES, NODES, PODS, VALIDATING_BINDINGS, Resource
from kajitori.kube.runs import RUNS, RunObject
from kajitori.kube.watch import WatchSettings

PATIENCE_SECONDS = 60.0
"""How long anything may take on a machine that does much else."""
NODES_COUNT = 8
GPUS = 8
SIM = "sim.kajitori.dev/"
POLICY: dict[str, Any] = {"start": {"pause": "1s", "longestPause": "2s", "deadline": "20s", "restartGrace": "1s"}}
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
    "taint-eviction-controller",
)
"""Of kube-controller-manager: those that touch Pods, nodes, whole namespaces and roles. The others make objects out of
kinds that no run has, or that nobody reads here (addresses, certificates, accounts), and cost time."""

T = TypeVar("T")


class Cluster:
    """One test's view of a cluster: its own namespace, eight nodes of eight GPUs, one controller or several."""

    def __init__(
        self,
        client: KubeClient,
        kubeconfig: Path,
        folder: Path,
        *,
        controllers: KubeConfig | None = None,
        watching: WatchSettings | None = None,
    ) -> None:
        """`controllers`: who controllers are that are not given a client of their own, if not who the client is."""
        self.client = client
        self.controllers = controllers or client.config
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.namespace = f"test-{secrets.token_hex(4)}"
        self.mirror = Mirror(client, settings=watching)
        self.serving: tuple[Path, Path] | None = None
        """Certificate and key of the simulated nodes' kubelet API, where the API server looks at them."""
        self.address = "127.0.0.1"
        """Where that API is."""
        self.kept_logs: KeptLogs | None = None
        """Where controllers that start from now on keep what members said; nowhere unless a test wants it."""
        self.use_policy()
        self._changed = asyncio.Event()
        self._controllers: dict[asyncio.Task[None], asyncio.Event] = {}
        self._theirs = client
        self._silenced: set[str] = set()

    # ---------------------------------------------------------------------------------------------- life

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Cluster]:
        """With nodes that are ready and a mirror; without a controller."""
        await install(self.client)
        await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        with contextlib.suppress(AlreadyExists):
            await self.client.create(NAMESPACES, {"metadata": {"name": LEASE_NAMESPACE}})
        async with self.nodes("gpu-", NODES_COUNT), KubeClient(self.controllers) as self._theirs, self.mirror:
            self.mirror.on_change(self._note)
            await asyncio.wait_for(self.mirror.wait_synced(), PATIENCE_SECONDS)
            await self.until(
                lambda: len([n for n in self.mirror.nodes.values() if n.is_ready and not n.spec.taints]) >= 8,
                "eight nodes ready",
            )
            try:
                yield self
            finally:
                await self._clean_up()

    @contextlib.asynccontextmanager
    async def nodes(self, prefix: str, count: int) -> AsyncIterator[None]:
        """As many simulated nodes, of eight GPUs each."""
        settings = SimSettings(
            count=count,
            prefix=prefix,
            gpus=GPUS,
            gpu_product="NVIDIA-H100-80GB-HBM3",
            heartbeat_seconds=5.0,
            remove_not_ready_taint=True,
            address=self.address,
        )
        stop = asyncio.Event()
        playing = asyncio.create_task(SimulatedNodes(self.client, settings, serving=self.serving).run(stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(playing, return_exceptions=True)

    async def _clean_up(self) -> None:
        await self.stop_controllers()
        for node in list(self._silenced):
            await self.revive(node)
        for (namespace, name), run in list(self.mirror.runs.items()):
            if namespace == self.namespace:
                with contextlib.suppress(NotFound):
                    await self.client.delete(RUNS, name, namespace)
                    if run.metadata.finalizers:
                        await self.client.patch(RUNS, name, {"metadata": {"finalizers": None}}, namespace)
        await self.client.delete_collection(PODS, self.namespace, label_selector="", grace_seconds=0)
        await self.until(lambda: not any(space == self.namespace for space, _ in self.mirror.pods), "Pods gone")
        for node in list(self.mirror.nodes):
            if not node.startswith("gpu-"):
                await self.client.delete(NODES, node)

    def use_policy(self, **rules: Any) -> None:
        """Further rules for controllers that start from now on."""
        self.policy_document = POLICY | rules
        self.policy = PolicyFile(None, without_file=parse_policy(self.policy_document))

    def use_policy_file(self, **rules: Any) -> Path:
        """The same, from a file that may change while controllers run; answers which."""
        self.use_policy(**rules)
        path = self.folder / "policy.yaml"
        path.write_text(yaml.safe_dump(self.policy_document))
        self.policy = PolicyFile(path)
        return path

    def start_controller(
        self, node_patience: timedelta = timedelta(seconds=0.5), *, client: KubeClient | None = None
    ) -> asyncio.Task[None]:
        """One more controller, with its own memory of things and maybe a client; they share a mirror."""
        stop = asyncio.Event()
        view = ClusterView(self.mirror, self.policy)
        controller = run_controller(
            client or self._theirs, self.mirror, view, node_patience=node_patience, kept_logs=self.kept_logs
        )
        task = asyncio.create_task(controller.run(stop))
        self._controllers[task] = stop
        return task

    async def stop_controller(self, task: asyncio.Task[None]) -> None:
        """Ends it in an orderly way."""
        self._controllers.pop(task).set()
        await task

    async def stop_controllers(self) -> None:
        """Ends all there are."""
        for task in list(self._controllers):
            await self.stop_controller(task)

    async def kill_controller(self, task: asyncio.Task[None]) -> None:
        """Ends it between any two of its calls."""
        del self._controllers[task]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    # ---------------------------------------------------------------------------------------------- waiting

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        self._changed.set()

    def touch(self) -> None:
        """Something changed that the mirror does not show: whoever waits looks again."""
        self._changed.set()

    async def until(self, condition: Callable[[], T], what: str, *, seconds: float = PATIENCE_SECONDS) -> T:
        """What the condition answers once that is true; asked after every change in the cluster."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            left = deadline - time.monotonic()
            assert left > 0, f"waited {seconds:.0f} s for {what}; {self.describe()}"
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(left, 1.0))
        return found

    def describe(self) -> str:
        """Runs and Pods of this test, for whoever reads a failure."""
        runs = [
            (name, status.phase, status.reason, status.message, status.attempts) if (status := run.status) else (name,)
            for (namespace, name), run in self.mirror.runs.items()
            if namespace == self.namespace
        ]
        pods = [
            (name, pod.status.phase, pod.spec.node_name, pod.metadata.deletion_timestamp)
            for (namespace, name), pod in self.mirror.pods.items()
            if namespace == self.namespace
        ]
        trouble = f"; the mirror is {self.mirror.age_seconds():.0f} s behind: {self.mirror.trouble}"
        return f"runs {runs}, Pods {pods[:20]}{trouble if self.mirror.trouble else ''}"

    # ---------------------------------------------------------------------------------------------- runs

    async def submit(self, name: str, **spec: Any) -> dict[str, Any]:
        """Creates a Run as `kubectl apply` does: small members unless the spec says otherwise. Answers the object."""
        defaults = {"image": "bert:3", "command": ["train"], "resources": {"cpu": 1, "memory": "1Gi"}, "grace": "2s"}
        document = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name},
            "spec": {**defaults, **spec},
        }
        return await self.client.create(RUNS, document, self.namespace)

    async def change(self, name: str, **spec: Any) -> None:
        """Changes a Run's spec."""
        await self.client.patch(RUNS, name, {"spec": spec}, self.namespace)

    async def give(self, name: str, owner: str) -> None:
        """Makes somebody the owner of a run, as if he had submitted it: what keeps owners is not in force meanwhile."""
        with contextlib.suppress(NotFound):
            await self.client.delete(VALIDATING_BINDINGS, POLICY_NAME)
        change = {"metadata": {"annotations": {names.ANNOTATION_OWNER: owner}}}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                with contextlib.suppress(Forbidden):  # a real API server notices a moment later
                    await self.client.patch(RUNS, name, change, self.namespace)
                    break
                await asyncio.sleep(0.1)
        await install(self.client)

    def run(self, name: str) -> RunObject | None:
        """The Run as the mirror shows it."""
        return self.mirror.runs.get((self.namespace, name))

    def status(self, name: str) -> RunStatus:
        """A Run's status, empty where it has none yet."""
        run = self.run(name)
        return (run.status if run else None) or RunStatus()

    async def reaches(
        self, name: str, phase: Phase, *, attempt: int = 0, seconds: float = PATIENCE_SECONDS
    ) -> RunStatus:
        """The status once the run is in that phase, and where given in that attempt."""

        def there() -> RunStatus | None:
            status = self.status(name) if self.run(name) else None
            if status is None or status.phase is not phase or not (run := self.run(name)) or run.status is None:
                return None
            number = status.attempt.number if status.attempt else 0
            return status if not attempt or number == attempt else None

        found = await self.until(there, f"{name} {phase} (attempt {attempt or 'any'})", seconds=seconds)
        assert found is not None
        return found

    def pods(self, name: str, attempt: int | None = None) -> list[Pod]:
        """Pods that carry a run's label, by rank."""
        found = [
            pod
            for (namespace, _), pod in self.mirror.pods.items()
            if namespace == self.namespace
            and pod.metadata.labels.get(names.LABEL_RUN) == name
            and attempt in (None, int(pod.metadata.labels.get(names.LABEL_ATTEMPT, "0")))
        ]
        return sorted(found, key=lambda pod: int(pod.metadata.labels.get(names.LABEL_RANK, "0")))

    def nodes_of(self, name: str) -> list[str]:
        """The planned nodes of a run's attempt, in rank order."""
        attempt = self.status(name).attempt
        return expand(attempt.nodes) if attempt else []

    # ---------------------------------------------------------------------------------------------- what goes wrong

    async def behave(self, pod: str, **annotations: str) -> None:
        """Tells a simulated Pod what becomes of it: exit_code="1", oom="true"."""
        said = {f"{SIM}{key.replace('_', '-')}": value for key, value in annotations.items()}
        await self.client.patch(PODS, pod, {"metadata": {"annotations": said}}, self.namespace)

    async def succeed(self, name: str) -> None:
        """Every member of the run ends with exit code 0."""
        pods = self.pods(name, self.status(name).attempts)
        await asyncio.gather(*(self.behave(pod.metadata.name, exit_code="0") for pod in pods))

    async def silence(self, node: str) -> None:
        """The node stops answering, and whoever watches over nodes has noticed."""
        self._silenced.add(node)
        await self.client.patch(NODES, node, {"metadata": {"annotations": {f"{SIM}silent": "true"}}})
        await self._write_ready(node, "Unknown", "NodeStatusUnknown")

    async def revive(self, node: str) -> None:
        """The node answers again."""
        self._silenced.discard(node)
        with contextlib.suppress(KajitoriError):
            annotations = {f"{SIM}silent": None, names.ANNOTATION_HEALTH: None}
            await self.client.patch(NODES, node, {"metadata": {"annotations": annotations}})
            await self._write_ready(node, "True", "KubeletReady")

    async def _write_ready(self, node: str, status: str, reason: str) -> None:
        condition = {"type": "Ready", "status": status, "reason": reason}
        patch = {"status": {"conditions": [condition]}}
        await self.client.patch(NODES, node, patch, kind=PatchKind.STRATEGIC, subresource="status")


@contextlib.asynccontextmanager
async def this_machine(
    cluster: Cluster, *, available_memory: Callable[[], int] = available_memory_bytes, **settings: Any
) -> AsyncIterator[dict[str, str]]:
    """This machine as one more node, whose Pods are processes; a node selector for it."""
    selector = {"kajitori.dev/machine": "this"}
    kubelet_settings = KubeletSettings(
        "here", cluster.folder / "kubelet", labels=selector, address="127.0.0.1", **settings
    )
    kubelet = Kubelet(cluster.client, kubelet_settings, available_memory=available_memory, adapter=RunPods())
    stop = asyncio.Event()
    task = asyncio.create_task(kubelet.run(stop))
    cluster.policy = PolicyFile(
        None,
        without_file=own_machine_policy(
            str(cluster.folder),
            mounts=False,
            checkpoint_root=str(cluster.folder / "ckpt"),
            folders=(str(cluster.folder),),
        ),
    )
    try:
        await cluster.until(
            lambda: (node := cluster.mirror.nodes.get("here")) and node.is_ready, "this machine is ready"
        )
        await cluster.client.patch(NODES, "here", {"spec": {"taints": None}})
        yield selector
    finally:
        await kubelet.end_all(1.0)
        stop.set()
        await task


@pytest.fixture(scope="module")
def real_control_plane() -> RealServer:
    """A real API server, scheduler and controller manager, for these tests alone: they count what is free on all nodes.
    Controllers of runs have no more rights there than the manifests under deploy/ give them.

    Nodes that do not renew their leases are noticed after 20 s, where Kubernetes' default is 50.
    """
    require_binaries("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager")
    return SHARED_SERVERS.get("real_control_plane", _running_runs_server)


@contextlib.contextmanager
def _running_runs_server() -> Iterator[RealServer]:
    fast = ("--kube-api-qps=500", "--kube-api-burst=1000")
    manager = (f"--controllers={','.join(CONTROLLERS)}", "--node-monitor-grace-period=20s")
    with (
        running_real_server(*sign_in_flags()) as cluster,
        cluster.scheduler(*fast),
        cluster.controller_manager(*manager, *fast),
    ):
        with ThreadPoolExecutor(1) as thread:  # the calling thread may run an event loop
            thread.submit(asyncio.run, _let_control(cluster)).result()
        yield cluster


async def _let_control(cluster: RealServer) -> None:
    async with cluster.client() as client:
        await grant_controller(client, CONTROLLER)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster without a controller, on each kind of server."""
    if request.param == "real":
        real: RealServer = request.getfixturevalue("real_control_plane")
        async with real.client() as client:
            there = Cluster(client, real.kubeconfig, tmp_path, controllers=real.config_of(CONTROLLER))
            there.address = unicast_address()
            async with there.running():
                yield there
        return
    async with embedded_server() as embedded, KubeClient(KubeConfig.from_file(embedded.kubeconfig)) as client:
        stop = asyncio.Event()
        managing = asyncio.create_task(ControllerManager(client, tmp_path / "volumes", workload=RUN_WORKLOAD).run(stop))
        try:
            there = Cluster(client, embedded.kubeconfig, tmp_path)
            there.serving = issue_serving(embedded.certificates, tmp_path / "sim", "sim", ("127.0.0.1",))
            async with there.running():
                yield there
        finally:
            stop.set()
            await managing
