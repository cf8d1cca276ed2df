"""`kaji node`: this machine as a node of an existing cluster."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from kajitori.agent.servers import Servers
from kajitori.configuration.options.nodes import NodeOptions
from kajitori.configuration.tls_files import TrustedAuthorities
from kajitori.core.formats.quantities import parse_cpu_millis, parse_spec_memory_bytes
from kajitori.embedded.kubelet.engine import detection as engines
from kajitori.embedded.kubelet.kubelet import Kubelet
from kajitori.embedded.kubelet.settings import KubeletSettings, ServerSettings
from kajitori.embedded.kubelet.uninstall import uninstall
from kajitori.entrypoints.logs import say
from kajitori.entrypoints.parts.run_adapter import RunPods
from kajitori.entrypoints.parts.telemetry import telemetry
from kajitori.entrypoints.process import GPU_TYPE_LABEL, existing, node_name, run_until_told, stop_signal


def node(options: NodeOptions) -> int:
    """Run a kubelet that makes this machine a node of an existing cluster."""

    async def work() -> None:
        stop = stop_signal()
        async with existing(options.kubeconfig, options.context) as client:
            settings = _kubelet_settings(options)
            engine = await engines.find(options.engine)
            kubelet = Kubelet(client, settings, adapter=RunPods(), engine=engine)
            say(f"This machine is node {settings.node_name}. {engines.described(options.engine, engine)}".rstrip())
            async with telemetry(kubelet.running_containers, _telemetry_servers(options), settings.node_name):
                await kubelet.run(stop)

    return run_until_told(work(), options)


def remove(data: Path, force: bool) -> list[str]:
    """Remove everything that the kubelet with this data folder left on this machine; return a list of it."""
    return asyncio.run(uninstall(data, force=force))


def _telemetry_servers(options: NodeOptions) -> Servers | None:
    """Return the Web APIs to which telemetry is reported; None without any."""
    if not options.report:
        return None
    trust = TrustedAuthorities("--report-ca", options.report_ca) if options.report_ca is not None else None
    return Servers(options.report, options.report_token, trust)


def _kubelet_settings(options: NodeOptions) -> KubeletSettings:
    labels = dict(label.split("=", 1) for label in options.labels)
    if options.gpu_type:
        labels[GPU_TYPE_LABEL] = options.gpu_type
    taints = []
    for text in options.taints:
        pair, _, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        taints.append({"key": key, "value": value, "effect": effect})
    return KubeletSettings(
        node_name=options.name or node_name(socket.gethostname()),
        root_dir=options.data,
        labels=labels,
        taints=tuple(taints),
        cpu_millis=parse_cpu_millis(options.cpus) if options.cpus else None,
        memory_bytes=parse_spec_memory_bytes(options.memory) if options.memory else None,
        gpus=options.gpus,
        max_pods=options.max_pods,
        max_processes=options.max_processes,
        address=options.address,
        server=ServerSettings(port=options.port, client_ca=options.client_ca),
        pod_network=options.pod_network,
        pod_cidr=options.pod_cidr,
    )
