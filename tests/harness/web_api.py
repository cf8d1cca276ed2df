"""Kajitori above one cluster for all tests of a module: controller, Web API, and the ways in: `kaji`, HTTP, kubectl."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import yaml
from tests.harness.cluster import POLICY, Cluster
from tests.harness.commands import clean_environment, kaji
from tests.harness.embedded_server import embedded_server
from tests.harness.local_cluster import kubectl_binary
from tests.harness.real_server import CONTROLLER, RealServer
from tests.helpers.faulty_proxy import FaultyProxy

from kajitori.api.serving.server import ApiServer
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.words import names
from kajitori.embedded.controller_manager import ControllerManager
from kajitori.entrypoints.run_adapter import RUN_WORKLOAD
from kajitori.entrypoints.run_controller import run_controller
from kajitori.entrypoints.web_api import ApiDependencies, web_app
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.resources import PODS, SERVICES
from kajitori.kube.runs import RUNS
from kajitori.kube.watch import WatchSettings

TIMEOUT_SECONDS = 60.0
IMPATIENT = WatchSettings(base_seconds=0.1, cap_seconds=0.5)
"""For whoever waits for a watch that breaks again and again."""


@dataclass(frozen=True)
class Completed:
    """A program that has ended."""

    code: int
    out: str
    err: str


async def completed(*command: str, stdin: str = "", env: dict[str, str], cwd: Path | None = None) -> Completed:
    """Runs a program to its end."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
        cwd=cwd,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), TIMEOUT_SECONDS)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    return Completed(process.returncode or 0, out.decode(), err.decode())


@dataclass(frozen=True)
class WebApi:
    """Everything that a person has in front of him, and the cluster behind it."""

    cluster: Cluster
    http: httpx2.AsyncClient
    url: str
    token: str
    policy_file: Path
    proxy: FaultyProxy | None

    async def submit(self, name: str, spec: dict[str, Any]) -> None:
        """POST /v1/runs that succeeds."""
        answer = await self.http.post("/v1/runs", json={"name": name, "spec": spec})
        assert answer.status_code == 201, answer.text

    async def kaji(self, *arguments: str, stdin: str = "", **environment: str) -> Completed:
        """A `kaji` of its own against this Web API; further environment comes before what leads there."""
        target = {"KAJI_SERVER": self.url, "KAJI_TOKEN": self.token, "KAJI_NAMESPACE": self.cluster.namespace}
        own = clean_environment(self.cluster.folder, **target | environment)
        done = await asyncio.to_thread(kaji, *arguments, stdin=stdin, env=own, timeout=TIMEOUT_SECONDS)
        return Completed(done.returncode, done.stdout, done.stderr)

    async def kubectl(self, *arguments: str, stdin: str = "") -> Completed:
        """kubectl as admin, in the cluster's namespace."""
        return await completed(
            kubectl_binary(),
            f"--kubeconfig={self.cluster.kubeconfig}",
            f"--namespace={self.cluster.namespace}",
            *arguments,
            stdin=stdin,
            env={**os.environ, "HOME": str(self.cluster.folder)},
        )

    async def apply(self, name: str, spec: dict[str, Any]) -> Completed:
        """`kubectl apply` of a Run."""
        return await self.kubectl("apply", "-f", "-", stdin=manifest(name, spec))

    async def left_behind(self) -> list[str]:
        """Every object of ours in the namespace, as the API server has it now."""
        found = []
        for resource in (RUNS, PODS, SERVICES):
            listing = await self.cluster.client.list(resource, self.cluster.namespace)
            found += [f"{resource.plural}/{item['metadata']['name']}" for item in listing.items]
        return found


def manifest(name: str, spec: dict[str, Any]) -> str:
    """A Run in YAML."""
    document = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}
    return str(yaml.safe_dump(document))


def manifests(specs: Mapping[str, dict[str, Any]]) -> str:
    """Several Runs, by name."""
    return "---\n".join(manifest(name, spec) for name, spec in specs.items())


@contextlib.asynccontextmanager
async def running_web_api(
    folder: Path, real: RealServer | None, *, policy: dict[str, Any], faulty: bool = False
) -> AsyncIterator[WebApi]:
    """Run a controller and a Web API on `real` (the fixture `real_control_plane`), or on an embedded server of its own.

    faulty: controller and Web API reach the API server through a proxy that fails on demand (`WebApi.proxy`).
    """
    async with contextlib.AsyncExitStack() as closing:
        if real is not None:
            kubeconfig = real.kubeconfig
            client = await closing.enter_async_context(real.client())
        else:
            embedded = await closing.enter_async_context(embedded_server())
            kubeconfig = embedded.kubeconfig
            client = await closing.enter_async_context(KubeClient(KubeConfig.from_file(kubeconfig)))
            managing = ControllerManager(client, folder / "volumes", workload=RUN_WORKLOAD)
            await closing.enter_async_context(working(managing.run))
        controllers = real.config_of(CONTROLLER) if real is not None else client.config
        cluster = await closing.enter_async_context(
            Cluster(client, kubeconfig, folder, controllers=controllers).running()
        )
        policy_file = folder / "policy.yaml"
        policy_file.write_text(yaml.safe_dump(POLICY | policy))
        policies = PolicyFile(policy_file)
        proxy: FaultyProxy | None = None
        ours, mirror = client, cluster.mirror
        theirs = await closing.enter_async_context(KubeClient(controllers))
        if faulty:
            proxy = await closing.enter_async_context(FaultyProxy(client.config).running())
            ours = theirs = await closing.enter_async_context(KubeClient(proxy.config))
            mirror = await closing.enter_async_context(Mirror(ours, settings=IMPATIENT))
            await mirror.wait_synced()
        controller = run_controller(theirs, mirror, ClusterView(mirror, policies))
        await closing.enter_async_context(working(controller.run))
        app = web_app(ApiDependencies(client=ours, mirror=mirror, policy=policies, namespace=cluster.namespace))
        server = await closing.enter_async_context(ApiServer(app))
        token = client.config.credentials.token
        http = await closing.enter_async_context(
            httpx2.AsyncClient(
                base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=TIMEOUT_SECONDS
            )
        )
        yield WebApi(cluster, http, server.url, token, policy_file, proxy)


@contextlib.asynccontextmanager
async def working(part: Any) -> AsyncIterator[None]:
    """Something that works until an event is set."""
    stop = asyncio.Event()
    task = asyncio.create_task(part(stop))
    try:
        yield
    finally:
        stop.set()
        await task
