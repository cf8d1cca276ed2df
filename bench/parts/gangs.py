"""Shared by benchmarks of gangs: a platform in this process, simulated nodes in another, and submitting a run."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from bench.parts.processes import ROOT
from tests.harness.binaries import find_binary
from tests.harness.platform.parts import working
from tests.harness.waiting import until

from kajitori.api.serving.server import ApiServer
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import Policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import NODES, PODS

PATIENCE_SECONDS = 600.0
GPUS = 8
EXIT_CODE = "sim.kajitori.dev/exit-code"
POOL_LABEL = {"bench.kajitori.dev/pool": "all"}
"""Policy binds Pods directly if they select nodes by this label."""
DIRECTLY = {"binding": {"directlyOn": [POOL_LABEL]}}


@dataclass(frozen=True, slots=True)
class Platform:
    """A mirror, a controller that has settled, and the Web API at an address."""

    client: KubeClient
    mirror: Mirror
    url: str
    namespace: str

    async def submit(self, name: str, spec: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """`POST /v1/runs`. Raises RuntimeError with the answer if it is refused."""
        document = {"name": name, "namespace": self.namespace, "spec": spec}
        headers = {"Authorization": f"Bearer {self.client.config.credentials.token}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            asked = http.post(f"{self.url}/v1/runs", json=document, params={"dryRun": "true"} if dry_run else {})
            async with asked as answer:
                if answer.status not in (200, 201):
                    raise RuntimeError(f"{answer.status}: {await answer.text()}")

    def status(self, name: str) -> RunStatus:
        """Return a Run's status as the mirror shows it, empty if there is none yet."""
        run = self.mirror.runs.get((self.namespace, name))
        return (run.status if run else None) or RunStatus()

    async def runs(self, name: str, *, attempt: int) -> None:
        """Wait until all members of that attempt run."""

        def there() -> bool:
            status = self.status(name)
            return status.phase is Phase.RUNNING and bool(status.attempt) and status.attempts == attempt

        await wait_until(there)

    def pods(self, prefix: str) -> list[Pod]:
        """Return the Pods with this prefix in their name."""
        return [pod for (_, name), pod in self.mirror.pods.items() if name.startswith(prefix)]


@contextlib.asynccontextmanager
async def platform(client: KubeClient, policy: Policy, namespace: str) -> AsyncIterator[Platform]:
    """Run a mirror, a run controller and a Web API until the end of the context."""
    policy_file = PolicyFile(None, without_file=policy)
    async with Mirror(client) as mirror:
        await mirror.wait_synced()
        cluster = ClusterView(mirror, policy_file)
        app = web_app(ApiDependencies(client=client, mirror=mirror, policy=policy_file))
        async with working(run_controller(client, mirror, cluster)), ApiServer(app) as web:
            cluster.table()
            yield Platform(client, mirror, web.url, namespace)


@contextlib.contextmanager
def simulated_nodes(kubeconfig: Path, count: int, *options: str, gpus: int = GPUS) -> Iterator[None]:
    """Run `kaji sim` in a separate process: nodes with this many GPUs, otherwise as the options say."""
    command = [sys.executable, "-m", "kajitori.cli", "sim", "--kubeconfig", str(kubeconfig), "--nodes", str(count)]
    command += ["--gpus", str(gpus), *(("--gpu-type", "h100") if gpus else ())]
    command += ["--cpus", "96", "--memory", "1Ti", "--untaint"]
    process = subprocess.Popen([*command, "--heartbeat", "0", "--log-level", "warning", *options], cwd=ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


async def label_nodes(there: Platform, count: int) -> None:
    """Wait until this many nodes are ready, and put them into the pool with direct binding."""

    def ready() -> int:
        return sum(node.is_ready and not node.spec.taints for node in there.mirror.nodes.values())

    await wait_until(lambda: ready() == count)
    patch = {"metadata": {"labels": POOL_LABEL}}
    await asyncio.gather(*(there.client.patch(NODES, node, patch) for node in list(there.mirror.nodes)))


async def fail(there: Platform, pod: str) -> None:
    """End the program of one simulated member with exit code 1."""
    await there.client.patch(PODS, pod, {"metadata": {"annotations": {EXIT_CODE: "1"}}}, there.namespace)


def lacks(*binaries: str) -> bool:
    """Return whether one of these programs is missing on this machine, and say which."""
    missing = [name for name in binaries if find_binary(name) is None]
    if missing:
        print(f"no {', no '.join(missing)}: get them with setup-envtest, or set $KUBEBUILDER_ASSETS", file=sys.stderr)
    return bool(missing)


async def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds. It is checked rarely, so that the checks do not distort the measurement."""
    await until(holds, seconds=PATIENCE_SECONDS, every=0.02)


def spec_of(members: int, **more: Any) -> dict[str, Any]:
    """Return the spec of a gang of whole nodes."""
    return {
        "image": "registry.example/bert:3",
        "command": ["python", "train.py"],
        "replicas": members,
        "resources": {"cpu": 8, "memory": "64Gi", "gpu": GPUS, "gpuType": "h100", "wholeNode": True},
        **more,
    }
