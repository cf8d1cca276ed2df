"""Fixtures of running API servers and clusters. tests/conftest.py makes them known to all tests.

Each exists on the embedded server and, if its programs are found, on a real kube-apiserver, which tests share.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.harness.binaries import require_binaries
from tests.harness.cluster import Cluster, control_plane
from tests.harness.local_cluster import LocalCluster, running_local_cluster
from tests.harness.platform.deployed import grant_controller
from tests.harness.servers.embedded_server import embedded_server
from tests.harness.servers.identity_provider import sign_in_flags
from tests.harness.servers.kube_server import CONTROLLER, USERS, KubeServer
from tests.harness.servers.real_server import RealServer, running_real_server
from tests.harness.servers.shared_servers import SHARED_SERVERS

from kajitori.kube.resources import NAMESPACES, PODS

REAL = (pytest.mark.real, pytest.mark.xdist_group("real"))
"""Marks of tests that share the fixture `real_server`: all run in one worker, so that only one server is started."""

KUBE_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "taint-eviction-controller",
)
"""Controllers of kube-controller-manager that change Pods, nodes, whole namespaces or roles. The others use processor
time for objects that these tests do not read: addresses, certificates, accounts."""


@pytest.fixture(scope="module")
def real_server() -> RealServer:
    """A real API server without scheduler and controllers, shared by tests: use a namespace per test."""
    require_binaries("kube-apiserver", "etcd")
    return SHARED_SERVERS.get("real_server", running_real_server)


@pytest.fixture(scope="module")
def with_scheduler(real_server: RealServer) -> Iterator[RealServer]:
    """`real_server` with kube-scheduler while the tests of this module run."""
    require_binaries("kube-scheduler")
    with real_server.scheduler():
        yield real_server


@pytest.fixture(scope="module")
def with_controller_manager(real_server: RealServer) -> Iterator[RealServer]:
    """`real_server` with kube-controller-manager while the tests of this module run."""
    require_binaries("kube-controller-manager")
    with real_server.controller_manager():
        yield real_server


@pytest.fixture(params=["embedded", pytest.param("real", marks=REAL)])
async def kube_server(request: pytest.FixtureRequest) -> AsyncIterator[KubeServer]:
    """An API server alone: an embedded one of this test's own, then `real_server`. Nothing schedules or runs Pods."""
    if request.param == "real":
        yield request.getfixturevalue("real_server")
        return
    async with embedded_server(users=USERS) as embedded:
        yield embedded


@pytest.fixture
async def own_namespace(kube_server: KubeServer) -> AsyncIterator[str]:
    """A namespace of `kube_server` for this test alone; it and its Pods are deleted at the end."""
    name = f"test-{secrets.token_hex(4)}"
    async with kube_server.client() as client:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            yield name
        finally:
            await client.delete_collection(PODS, name, label_selector="", grace_seconds=0)
            await client.delete(NAMESPACES, name)


@pytest.fixture(scope="module")
def real_control_plane() -> RealServer:
    """A real API server, scheduler and controller manager, shared by tests of runs, which count free nodes.

    Run controllers have only the permissions that the manifests in deploy/ give them. Nodes that do not renew their
    leases count as silent after 20 s, where Kubernetes' default is 50.
    """
    require_binaries("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager")
    return SHARED_SERVERS.get("real_control_plane", _running_control_plane)


@contextlib.contextmanager
def _running_control_plane() -> Iterator[RealServer]:
    fast = ("--kube-api-qps=500", "--kube-api-burst=1000")
    manager = (f"--controllers={','.join(KUBE_CONTROLLERS)}", "--node-monitor-grace-period=20s")
    with (
        running_real_server(*sign_in_flags()) as server,
        server.scheduler(*fast),
        server.controller_manager(*manager, *fast),
    ):
        with ThreadPoolExecutor(1) as thread:  # the calling thread may run an event loop
            thread.submit(asyncio.run, _grant_controller(server)).result()
        yield server


async def _grant_controller(server: RealServer) -> None:
    async with server.client() as client:
        await grant_controller(client, CONTROLLER)


def real_server_of(request: pytest.FixtureRequest) -> RealServer | None:
    """Return `real_control_plane` if the fixture's parameter is "real", else None."""
    server: RealServer | None = request.getfixturevalue("real_control_plane") if request.param == "real" else None
    return server


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster with eight simulated nodes and a namespace for this test; the test starts the controllers of runs."""
    async with control_plane(real_server_of(request), tmp_path) as server, Cluster(server, tmp_path).running() as there:
        yield there


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def local_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A cluster in another thread with this machine as a node, shared by tests: use a namespace per test.

    It has session scope so that all tests on one kind of server come before those on the other.
    """
    name = f"local-cluster-{request.param}"
    yield SHARED_SERVERS.get(name, lambda: running_local_cluster(real=request.param == "real"))
    SHARED_SERVERS.end(name)
