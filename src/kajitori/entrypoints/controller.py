"""`kaji controller`: the run controller alone, for an existing cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kajitori.blobs.code import CodeStore
from kajitori.blobs.history_outbox import HistoryOutbox
from kajitori.blobs.logs import KeptLogs
from kajitori.blobs.questions import Questions
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.view import ClusterView
from kajitori.configuration.options.parts import ControllerOptions
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.tls_files import ServingCertificate, followed
from kajitori.core.pods.networks import UNKNOWN_DNS, ClusterDns, read_cluster_dns
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.parts.leader import candidate
from kajitori.entrypoints.parts.members_start import members_start
from kajitori.entrypoints.parts.run_controller import run_controller
from kajitori.entrypoints.parts.stores import blobs_of, history_of
from kajitori.entrypoints.process import run_until_told, stop_signal
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.monitoring.controller import LEADING, REQUESTS_AT_A_TIME, ControllerMetrics
from kajitori.monitoring.metrics import POLICY_FAULTS, new_registry
from kajitori.monitoring.probes import ProbeServer

STALE_SECONDS = 10.0
"""Age of a controller's view of the cluster above which the controller is not ready to lead."""


def controller(options: ControllerOptions) -> int:
    """Run the run controller alone, for an existing cluster. Several may run; one leads."""

    async def work() -> None:
        stop = stop_signal()
        config = KubeConfig.discover(options.kubeconfig, options.context)
        policy = PolicyFile(options.policy, required=True)
        blobs = await blobs_of(options.blobs)
        kept_logs = KeptLogs(blobs) if blobs is not None else None
        code = CodeStore(blobs) if blobs is not None else None
        leadership = await candidate(config, options.namespace, options.identity)
        metrics = ControllerMetrics(new_registry())
        tls = ServingCertificate.of(options.certificate, options.key)
        async with (
            KubeClient(config, write_permit=leadership.permit, on_write_error=metrics.note_write_error) as client,
            Mirror(client) as mirror,
            ProbeServer(
                metrics.registry,
                host=options.host,
                port=options.port,
                ready=lambda: _not_ready(mirror),
                tls=tls.context if tls is not None else None,
            ) as probes,
            followed(tls),
            history_of(options.history, options.history_password_file) as history,
            members_start(policy, options),
        ):
            metrics.add_mirror_gauges(lambda: mirror.synced, lambda: mirror.trouble, mirror.age_seconds)
            metrics.add_gauge(LEADING, lambda: leadership.leads)
            metrics.add_gauge(REQUESTS_AT_A_TIME, lambda: client.limiter.window.size)
            metrics.add_gauge(POLICY_FAULTS, lambda: len(policy.current().faults))
            await mirror.wait_synced()
            view = ClusterView(mirror, policy, _own_dns())
            say(f"Kajitori's controller is at work; metrics and probes: {probes.url}")

            async def lead(over: asyncio.Event) -> None:
                running = run_controller(
                    client,
                    mirror,
                    view,
                    namespace=options.namespace,
                    kept_logs=kept_logs,
                    code=code,
                    history=history,
                    outbox=HistoryOutbox(blobs) if blobs is not None else None,
                    questions=Questions(blobs) if blobs is not None else None,
                    watched=blobs,
                    metrics=metrics,
                )
                await running.run(over)

            await leadership.lead(lead, stop)

    return run_until_told(work(), options, may_lead=True)


def _own_dns() -> ClusterDns:
    """Return the DNS that this process uses: inside of a cluster it is the cluster's."""
    try:
        return read_cluster_dns(Path("/etc/resolv.conf").read_text())
    except OSError:
        return UNKNOWN_DNS


def _not_ready(mirror: Mirror) -> str:
    """Return the reason for which this controller could not lead now; empty if it could."""
    if not mirror.synced:
        return f"the cluster's state is still being read: {mirror.trouble}"
    age_seconds = mirror.age_seconds()
    stale = f"the controller's view of the cluster is {age_seconds:.0f} s old: {mirror.trouble}"
    return stale if age_seconds > STALE_SECONDS else ""
