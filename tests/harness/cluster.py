"""A running cluster for tests of the life of runs: nodes, a mirror, and controllers of runs.

    async with control_plane(None, folder) as server, Cluster(server, folder).running() as cluster:
        cluster.start_controller()
        await cluster.submit("bert", replicas=2)
        await cluster.reaches("bert", Phase.RUNNING)

The server is an embedded one, or a real kube-apiserver with kube-scheduler and kube-controller-manager. All parts run
in this process; parts that a test kills are in part_processes.py. What a test leaves behind is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml
from tests.harness.commands import Completed, kubectl
from tests.harness.platform.parts import HERE, embedded_controllers, process_kubelet, simulated_nodes
from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.kube_server import KubeServer
from tests.harness.waiting import PATIENCE_SECONDS, until

from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.questions import Questions
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.platform.install import install
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.cluster.view import ClusterView
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.admission.owner_policy import POLICY_NAME
from kajitori.core.formats.node_lists import expand
from kajitori.core.naming import names
from kajitori.core.policy.file import own_machine_policy, parse_policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.embedded.kubelet.eviction import available_memory_bytes
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.errors import AlreadyExists, Forbidden, KajitoriError, NotFound
from kajitori.history.store import History
from kajitori.kube.client import KubeClient
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import NAMESPACES, NODES, PODS, SERVICES, VALIDATING_BINDINGS, Resource
from kajitori.kube.watch import WatchSettings
from kajitori.openid.authentication_config import AuthenticationConfiguration

NODES_COUNT = 8
SIM = "sim.kajitori.dev/"
"""Prefix of the annotations that simulated nodes and Pods obey."""
THIS_MACHINE = {"kajitori.dev/machine": "this"}
"""Label of the node that is this machine, and node selector for it."""
POLICY: dict[str, Any] = {"start": {"pause": "1s", "longestPause": "2s", "deadline": "20s", "restartGrace": "1s"}}

T = TypeVar("T")


@contextlib.asynccontextmanager
async def control_plane(
    real: KubeServer | None, folder: Path, authentication: AuthenticationConfiguration | None = None
) -> AsyncIterator[KubeServer]:
    """Yield `real`; without it, run an embedded API server with scheduler and controllers in this process. See
    `embedded_server` for `authentication`."""
    if real is not None:
        yield real
        return
    async with (
        embedded_server(authentication=authentication, encrypted=False) as server,
        server.client() as client,
        embedded_controllers(client, folder / "volumes"),
    ):
        yield server


class Cluster:
    """One test's view of a cluster: its own namespace, nodes of eight GPUs each, any number of run controllers."""

    def __init__(
        self,
        server: KubeServer,
        folder: Path,
        *,
        policy: dict[str, Any] = POLICY,
        watching: WatchSettings | None = None,
    ) -> None:
        self.server = server
        self.client = server.client()
        self.folder = folder
        self.namespace = f"test-{secrets.token_hex(4)}"
        self.mirror = Mirror(self.client, settings=watching)
        self.kept_logs: KeptLogs | None = None
        """Store of logs for controllers that start from now on."""
        self.history: History | None = None
        self.questions: Questions | None = None
        """History that controllers write that start from now on."""
        self.policy_path = folder / "policy.yaml"
        """The policy, after `use_policy_file`."""
        self._base_policy = policy
        self.use_policy()
        self._changed = asyncio.Event()
        self._controllers: dict[asyncio.Task[None], asyncio.Event] = {}
        self._controllers_client = self.client
        self._silenced: set[str] = set()
        self.kubelet: Kubelet | None = None
        """The kubelet of `this_machine`."""

    # ---------------------------------------------------------------------------------------------- life

    @contextlib.asynccontextmanager
    async def running(self, nodes: int = NODES_COUNT) -> AsyncIterator[Cluster]:
        """Run simulated nodes, which are ready, and the mirror; the test starts controllers."""
        async with self.client, KubeClient(self.server.controller_config) as self._controllers_client:
            await install(self.client)
            await self.client.create(NAMESPACES, {"metadata": {"name": self.namespace}})
            with contextlib.suppress(AlreadyExists):
                await self.client.create(NAMESPACES, {"metadata": {"name": LEASE_NAMESPACE}})
            async with simulated_nodes(self.server, self.client, nodes), self.mirror:
                self.mirror.on_change(self._note)
                await asyncio.wait_for(self.mirror.wait_synced(), PATIENCE_SECONDS)
                await self.until(lambda: self._ready_nodes() >= nodes, f"{nodes} nodes are ready")
                try:
                    yield self
                finally:
                    await self._clean_up()

    def _ready_nodes(self) -> int:
        return sum(node.is_ready and not node.spec.taints for node in self.mirror.nodes.values())

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
        """Add rules to the policy of controllers that start from now on."""
        self.policy_document = self._base_policy | rules
        self.policy = PolicyFile(None, without_file=parse_policy(self.policy_document))

    def use_policy_file(self, **rules: Any) -> Path:
        """Like `use_policy`, but in a file that a test may change while controllers run. Return its path."""
        self.use_policy(**rules)
        self.policy_path.write_text(yaml.safe_dump(self.policy_document))
        self.policy = PolicyFile(self.policy_path)
        return self.policy_path

    def start_controller(
        self,
        node_patience: timedelta = timedelta(seconds=0.5),
        *,
        client: KubeClient | None = None,
        mirror: Mirror | None = None,
    ) -> asyncio.Task[None]:
        """Start one more controller, by default with the cluster's client for controllers and its mirror."""
        stop, mirror = asyncio.Event(), mirror or self.mirror
        controller = run_controller(
            client or self._controllers_client,
            mirror,
            ClusterView(mirror, self.policy),
            node_patience=node_patience,
            kept_logs=self.kept_logs,
            history=self.history,
            questions=self.questions,
        )
        task = asyncio.create_task(controller.run(stop))
        self._controllers[task] = stop
        return task

    async def stop_controller(self, task: asyncio.Task[None]) -> None:
        """Stop a controller in an orderly way."""
        self._controllers.pop(task).set()
        await task

    async def stop_controllers(self) -> None:
        """Stop all controllers in an orderly way."""
        for task in list(self._controllers):
            await self.stop_controller(task)

    async def kill_controller(self, task: asyncio.Task[None]) -> None:
        """Cancel a controller between any two of its calls."""
        del self._controllers[task]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    # ---------------------------------------------------------------------------------------------- waiting

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        self._changed.set()

    def touch(self) -> None:
        """Check the conditions of `until` again, because of a change that the mirror does not show."""
        self._changed.set()

    async def until(self, condition: Callable[[], T], what: str, *, seconds: float = PATIENCE_SECONDS) -> T:
        """Return the first true value of `condition`, which is checked after every change in the cluster."""
        explain = lambda: f"{what}; {self.describe()}"  # noqa: E731
        return await until(condition, explain, seconds=seconds, every=1.0, changed=self._changed)

    def describe(self) -> str:
        """Return the runs and Pods of this test, for the message of a failure."""
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
        """Create a Run as `kubectl apply` does, with small members by default. Return the object."""
        defaults = {"image": "bert:3", "command": ["train"], "resources": {"cpu": 1, "memory": "1Gi"}, "grace": "2s"}
        return await self.client.create(RUNS, run_document(name, {**defaults, **spec}), self.namespace)

    async def change(self, name: str, **spec: Any) -> None:
        """Change a Run's spec."""
        await self.client.patch(RUNS, name, {"spec": spec}, self.namespace)

    async def give(self, name: str, owner: str) -> None:
        """Make a user the owner of a run. The admission policy that protects owners is switched off for that time."""
        with contextlib.suppress(NotFound):
            await self.client.delete(VALIDATING_BINDINGS, POLICY_NAME)
        change = {"metadata": {"annotations": {names.ANNOTATION_OWNER: owner}}}

        async def changed() -> bool:
            with contextlib.suppress(Forbidden):  # a real API server notices a moment later
                await self.client.patch(RUNS, name, change, self.namespace)
                return True
            return False

        await until(changed, "the policy is not in force")
        await install(self.client)

    def run(self, name: str) -> RunObject | None:
        """Return the Run as the mirror shows it."""
        return self.mirror.runs.get((self.namespace, name))

    def status(self, name: str) -> RunStatus:
        """Return a Run's status, empty if it has none yet."""
        run = self.run(name)
        return (run.status if run else None) or RunStatus()

    async def reaches(
        self, name: str, phase: Phase, *, attempt: int = 0, seconds: float = PATIENCE_SECONDS
    ) -> RunStatus:
        """Return the status once the run is in that phase, and in that attempt if one is given."""

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
        """Return the Pods that have a run's label, by rank."""
        found = [
            pod
            for (namespace, _), pod in self.mirror.pods.items()
            if namespace == self.namespace
            and pod.metadata.labels.get(names.LABEL_RUN) == name
            and attempt in (None, int(pod.metadata.labels.get(names.LABEL_ATTEMPT, "0")))
        ]
        return sorted(found, key=lambda pod: int(pod.metadata.labels.get(names.LABEL_RANK, "0")))

    def nodes_of(self, name: str) -> list[str]:
        """Return the planned nodes of a run's attempt, in rank order."""
        attempt = self.status(name).attempt
        return expand(attempt.nodes) if attempt else []

    # ---------------------------------------------------------------------------------------------- what goes wrong

    async def behave(self, pod: str, **annotations: str) -> None:
        """Tell a simulated Pod what it does: exit_code="1", oom="true"."""
        behaviour = {f"{SIM}{key.replace('_', '-')}": value for key, value in annotations.items()}
        await self.client.patch(PODS, pod, {"metadata": {"annotations": behaviour}}, self.namespace)

    async def succeed(self, name: str) -> None:
        """End every member of the run with exit code 0."""
        pods = self.pods(name, self.status(name).attempts)
        await asyncio.gather(*(self.behave(pod.metadata.name, exit_code="0") for pod in pods))

    async def silence(self, node: str) -> None:
        """Let a node stop responding, and mark it as Kubernetes does."""
        self._silenced.add(node)
        await self.client.patch(NODES, node, {"metadata": {"annotations": {f"{SIM}silent": "true"}}})
        await self._write_ready(node, "Unknown", "NodeStatusUnknown")

    async def revive(self, node: str) -> None:
        """Let a node respond again."""
        self._silenced.discard(node)
        with contextlib.suppress(KajitoriError):
            annotations = {f"{SIM}silent": None, names.ANNOTATION_HEALTH: None}
            await self.client.patch(NODES, node, {"metadata": {"annotations": annotations}})
            await self._write_ready(node, "True", "KubeletReady")

    @contextlib.asynccontextmanager
    async def nodes(self, prefix: str, count: int, **settings: Any) -> AsyncIterator[None]:
        """Run further simulated nodes."""
        async with simulated_nodes(self.server, self.client, count, prefix=prefix, **settings):
            yield

    # ---------------------------------------------------------------------------------------------- other ways in

    async def kubectl(self, *arguments: str, stdin: str = "") -> Completed:
        """Run kubectl as the administrator in this test's namespace."""
        return await asyncio.to_thread(
            kubectl, self.server.kubeconfig, f"--namespace={self.namespace}", *arguments, stdin=stdin
        )

    async def apply(self, name: str, spec: dict[str, Any]) -> Completed:
        """Create or change a Run with `kubectl apply`."""
        return await self.kubectl("apply", "-f", "-", stdin=run_manifest(name, spec))

    async def left_behind(self) -> list[str]:
        """Return the Runs, Pods and Services in this test's namespace, as the API server has them now."""
        found = []
        for resource in (RUNS, PODS, SERVICES):
            listing = await self.client.list(resource, self.namespace)
            found += [f"{resource.plural}/{item['metadata']['name']}" for item in listing.items]
        return found

    async def _write_ready(self, node: str, status: str, reason: str) -> None:
        condition = {"type": "Ready", "status": status, "reason": reason}
        patch = {"status": {"conditions": [condition]}}
        await self.client.patch(NODES, node, patch, kind=PatchKind.STRATEGIC, subresource="status")


def run_manifest(name: str, spec: dict[str, Any]) -> str:
    """Return a Run in JSON, which takes a hundredth of the time of YAML to write and to read."""
    return json.dumps(run_document(name, spec))


def run_document(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a Run as users write it."""
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}


@contextlib.asynccontextmanager
async def this_machine(
    cluster: Cluster,
    *,
    available_memory: Callable[[], int] = available_memory_bytes,
    rules: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[dict[str, str]]:
    """Run this machine as one more node, with a policy for it. Its Pods are processes. Yields a node selector.

    rules: sections that replace those of this policy.
    """
    folder = cluster.folder
    own: dict[str, Any] = {"labels": THIS_MACHINE, "address": "127.0.0.1"}
    own |= {"server": cluster.server.kubelet_api(HERE)}
    kubelet = KubeletSettings(HERE, folder / "kubelet", **own | settings)
    checkpoints = str(folder / "ckpt")
    policy = own_machine_policy(str(folder), mounts=False, checkpoint_root=checkpoints, folders=(str(folder),))
    replaced = {section: getattr(parse_policy(rules), section) for section in rules} if rules else {}
    cluster.policy = PolicyFile(None, without_file=policy.model_copy(update=replaced))
    async with process_kubelet(cluster.client, kubelet, available_memory=available_memory) as running:
        cluster.kubelet = running
        await cluster.until(lambda: (node := cluster.mirror.nodes.get(HERE)) and node.is_ready, "this machine is ready")
        await cluster.client.patch(NODES, HERE, {"spec": {"taints": None}})
        yield THIS_MACHINE
