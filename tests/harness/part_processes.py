"""Parts of the platform as processes that start in milliseconds and are there to be killed.

They are forks of one process that has imported all they need, so that a test may kill hundreds of them.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from kajitori.cluster.view import ClusterView
from kajitori.configuration.policy_file import PolicyFile
from kajitori.controllers.leadership import Leadership
from kajitori.core.leadership import Terms
from kajitori.embedded.cluster import EmbeddedCluster, EmbeddedSettings
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.entrypoints.process import run_loop
from kajitori.entrypoints.run_adapter import RUN_WORKLOAD, RunPods
from kajitori.entrypoints.run_controller import run_controller
from kajitori.kube.client import KubeClient
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.watch import WatchSettings

IMPATIENT = WatchSettings(base_seconds=0.05, cap_seconds=0.2)
"""For whoever watches a server that is killed again and again."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ControllerPart:
    """A run controller alone in a process. With `terms` it leads only while it holds the Lease in `lease_namespace`."""

    kubeconfig: Path
    policy: Path
    name: str = "kajitori"
    """Its user agent: the API server writes it down beside whatever it changes."""
    terms: Terms | None = None
    lease_namespace: str = ""

    async def run(self) -> None:
        """Works until it is killed."""
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

            async def work(stop: asyncio.Event) -> None:
                await run_controller(client, mirror, view).run(stop)

            await (leadership.lead(work, forever) if leadership else work(forever))


@dataclass(frozen=True)
class ServerPart:
    """An embedded cluster: API server, binder and the other controllers, on what the folder holds."""

    folder: Path
    port: int

    async def run(self) -> None:
        """Works until it is killed."""
        settings = EmbeddedSettings(self.folder, port=self.port)
        async with EmbeddedCluster(settings) as cluster, KubeClient(cluster.client_config()) as client:
            await cluster.run_controllers(client, asyncio.Event(), workload=RUN_WORKLOAD)


@dataclass(frozen=True)
class KubeletPart:
    """This machine as a node whose Pods are processes."""

    kubeconfig: Path
    settings: KubeletSettings

    async def run(self) -> None:
        """Works until it is killed."""
        async with KubeClient(KubeConfig.from_file(self.kubeconfig)) as client:
            await Kubelet(client, self.settings, adapter=RunPods()).run(asyncio.Event())


Part = ControllerPart | ServerPart | KubeletPart


class Fork:
    """One part at work in a process of its own."""

    def __init__(self, part: Part) -> None:
        self._process = _CONTEXT.Process(target=_work, args=(part,), daemon=True)
        self._process.start()

    @property
    def exit_code(self) -> int | None:
        """None while it works."""
        return self._process.exitcode

    def kill(self) -> None:
        """SIGKILL, and it is gone."""
        self._process.kill()
        self._process.join()
        self._process.close()

    def pause(self) -> None:
        """SIGSTOP: it does nothing from now on, and doesn't know."""
        os.kill(self._process.pid or 0, signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        os.kill(self._process.pid or 0, signal.SIGCONT)


def _work(part: Part) -> None:
    """Whatever ends the test ends this."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    run_loop(part.run(), may_lead=isinstance(part, ControllerPart))


_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pytest", __name__])
