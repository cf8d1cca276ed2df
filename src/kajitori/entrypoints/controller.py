"""`kaji controller`: the run controller alone, for an existing cluster."""

from __future__ import annotations

import asyncio

from kajitori.controllers.runs import RunController
from kajitori.entrypoints.leader import candidate
from kajitori.entrypoints.process import run_until_told, say, stop_signal
from kajitori.entrypoints.stores import blobs_of
from kajitori.kube.client import KubeClient
from kajitori.kube.cluster import ClusterView
from kajitori.kube.config import KubeConfig
from kajitori.kube.mirror import Mirror
from kajitori.policyfile import PolicyFile
from kajitori.settings import ControllerOptions
from kajitori.store.code import CodeStore
from kajitori.store.logs import KeptLogs


def controller(options: ControllerOptions) -> int:
    """The run controller alone, for an existing cluster. Several may run; one leads."""

    async def work() -> None:
        stop = stop_signal()
        config = KubeConfig.discover(options.kubeconfig, options.context)
        policy = PolicyFile(options.policy, required=True)
        blobs = await blobs_of(options.blobs)
        kept_logs = KeptLogs(blobs) if blobs is not None else None
        code = CodeStore(blobs) if blobs is not None else None
        leadership = await candidate(config, options.namespace, options.identity)
        async with KubeClient(config, write_permit=leadership.permit) as client, Mirror(client) as mirror:
            await mirror.wait_synced()
            view = ClusterView(mirror, policy)
            say("Kajitori's controller is at work.")

            async def lead(over: asyncio.Event) -> None:
                running = RunController(
                    client, mirror, view, namespace=options.namespace, kept_logs=kept_logs, code=code
                )
                await running.run(over)

            await leadership.lead(lead, stop)

    return run_until_told(work(), options.log_level, may_lead=True)
