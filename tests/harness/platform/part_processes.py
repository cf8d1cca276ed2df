"""Parts of a running cluster as separate processes, which start in milliseconds and which a test may kill.

They are forks of a process that has imported everything they need, so that a test can kill hundreds of them. Parts in
this process are in parts.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import multiprocessing
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.harness.servers.kube_server import KubeServer
from tests.harness.waiting import until

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.leadership import Leadership
from kajitori.core.leadership import LeaseTimings
from kajitori.embedded.apiserver.certificates import ensure_certificates
from kajitori.embedded.cluster import EmbeddedCluster, EmbeddedSettings
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.entrypoints.parts.run_adapter import RUN_WORKLOAD, RunPods
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.entrypoints.process import run_loop
from kajitori.errors import KajitoriError
from kajitori.history.store import History
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NODES
from kajitori.kube.watch import WatchSettings

IMPATIENT = WatchSettings(base_seconds=0.05, cap_seconds=0.2)
"""For a mirror of a server that is killed again and again."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ControllerPart:
    """A run controller alone in a process. With `terms` it leads only while it holds the Lease in `lease_namespace`."""

    kubeconfig: Path
    policy: Path
    name: str = "kajitori"
    """Its user agent, which the API server records as the manager of the fields that it changes."""
    terms: LeaseTimings | None = None
    lease_namespace: str = ""
    history: Path | None = None
    """File of the history that it writes."""

    async def run(self) -> None:
        """Work until the process is killed."""
        config, forever = KubeConfig.from_file(self.kubeconfig), asyncio.Event()
        leadership = None
        if self.terms is not None:
            leadership = Leadership(config, self.lease_namespace, self.name, terms=self.terms)
        permit = leadership.permit if leadership else None
        async with (
            KubeClient(config, user_agent=self.name, write_permit=permit) as client,
            Mirror(client, settings=IMPATIENT) as mirror,
        ):
            view = ClusterView(mirror, PolicyFile(self.policy))
            history = History(f"sqlite://{self.history}") if self.history is not None else None

            async def work(stop: asyncio.Event) -> None:
                await run_controller(client, mirror, view, history=history).run(stop)

            await (leadership.lead(work, forever) if leadership else work(forever))


@dataclass(frozen=True)
class ServerPart:
    """An embedded cluster: API server, binder and the other controllers. Its objects are stored in the folder."""

    folder: Path
    port: int

    async def started(self) -> KubeServer:
        """Wait until the server responds."""
        kubeconfig = self.folder / "kubeconfig"

        async def responds() -> KubeConfig | None:
            with contextlib.suppress(OSError, KajitoriError):
                config = KubeConfig.from_file(kubeconfig)
                async with KubeClient(config) as client:
                    await client.list(NODES)
                return config
            return None

        config = await until(responds, "the server responds", every=0.02)
        assert config is not None
        certificates = ensure_certificates(self.folder / "pki")
        return KubeServer(config=config, kubeconfig=kubeconfig, is_real=False, tokens={}, certificates=certificates)

    async def run(self) -> None:
        """Work until the process is killed."""
        settings = EmbeddedSettings(self.folder, port=self.port)
        async with EmbeddedCluster(settings) as cluster, KubeClient(cluster.client_config()) as client:
            await cluster.run_controllers(client, asyncio.Event(), workload=RUN_WORKLOAD)


@dataclass(frozen=True)
class KubeletPart:
    """A kubelet: this machine as a node, with processes as Pods."""

    kubeconfig: Path
    settings: KubeletSettings

    async def run(self) -> None:
        """Work until the process is killed."""
        async with KubeClient(KubeConfig.from_file(self.kubeconfig)) as client:
            await Kubelet(client, self.settings, adapter=RunPods()).run(asyncio.Event())


Part = ControllerPart | ServerPart | KubeletPart


class PartProcess:
    """One part in a process of its own."""

    def __init__(self, part: Part) -> None:
        self._process = _CONTEXT.Process(target=_work, args=(part,), daemon=True)
        self._process.start()

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the part runs."""
        return self._process.exitcode

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self._process.kill()
        self._process.join()
        self._process.close()

    def pause(self) -> None:
        """Send SIGSTOP."""
        os.kill(self._process.pid or 0, signal.SIGSTOP)

    def go_on(self) -> None:
        """Send SIGCONT."""
        os.kill(self._process.pid or 0, signal.SIGCONT)


class PartProcesses:
    """Processes of parts, by name. All are killed at the end of the context."""

    def __init__(self) -> None:
        self._parts: dict[str, Part] = {}
        self._processes: dict[str, PartProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def add(self, name: str, part: Part) -> None:
        """Start a part."""
        self._parts[name] = part
        self.start(name)

    def start(self, name: str) -> None:
        """Start a killed part again."""
        self._processes[name] = PartProcess(self._parts[name])

    def kill(self, name: str) -> None:
        """Kill a part, which must not have ended before."""
        process = self._processes.pop(name)
        assert process.exit_code is None, f"{name} ended by itself with {process.exit_code}"
        process.kill()

    def pause(self, name: str) -> None:
        """Send SIGSTOP to a part."""
        self._processes[name].pause()

    def go_on(self, name: str) -> None:
        """Send SIGCONT to a part."""
        self._processes[name].go_on()

    def kill_all(self) -> None:
        """Kill all parts."""
        while self._processes:
            self._processes.popitem()[1].kill()


def _work(part: Part) -> None:
    """Run the part; it dies with the process of the test."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    run_loop(part.run(), may_lead=isinstance(part, ControllerPart))


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pytest", __name__])
