"""Telemetry of the members that a process kubelet runs: the agent's parts, with the kubelet as the source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from kajitori.agent.servers import Servers
from kajitori.agent.telemetry.gpus.choice import choose_gpus
from kajitori.agent.telemetry.gpus.readings import GpuSource
from kajitori.agent.telemetry.members import LocalMember
from kajitori.agent.telemetry.reporting import TelemetryReporting
from kajitori.agent.telemetry.samples import MemberSamples, Sampling
from kajitori.core.naming import names
from kajitori.embedded.kubelet.pods.inspection import RunningContainer


class KubeletMembers:
    """The members of runs among the containers of a process kubelet."""

    def __init__(self, containers: Callable[[], Sequence[RunningContainer]]) -> None:
        self._containers = containers

    def members(self) -> Sequence[LocalMember]:
        """Return the members with running programs."""
        return [
            LocalMember(
                namespace=found.pod["metadata"].get("namespace", "default"),
                pod=found.pod["metadata"]["name"],
                uid=found.pod["metadata"]["uid"],
                pids=found.pids,
                cgroups=found.cgroups,
                log=found.log,
                gpus=found.gpus,
                memory_limit_bytes=found.memory_limit_bytes,
                tensorboard=(found.pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_TENSORBOARD, ""),
            )
            for found in self._containers()
            if found.name == names.MEMBER_CONTAINER
        ]


@asynccontextmanager
async def telemetry(
    containers: Callable[[], Sequence[RunningContainer]],
    servers: Servers | None,
    node: str,
    gpus: GpuSource | None = None,
) -> AsyncIterator[None]:
    """Sample and report a kubelet's members while the context lasts; without servers, do nothing."""
    if servers is None:
        yield
        return
    samples = MemberSamples(KubeletMembers(containers), gpus or await asyncio.to_thread(choose_gpus))
    sampling, reporting = Sampling(samples), TelemetryReporting(servers, node, samples)
    sampling.start()
    reporting.start()
    try:
        yield
    finally:
        await asyncio.to_thread(reporting.stop)
        await asyncio.to_thread(sampling.stop)
