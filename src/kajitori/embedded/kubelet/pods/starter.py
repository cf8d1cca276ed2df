"""Prepares the start of a container: volumes, ConfigMaps, environment, mounts and limits, up to the launch of its
shim."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.adapter import Isolation, LocalProgram
from kajitori.embedded.kubelet.containers import environment as environments
from kajitori.embedded.kubelet.containers.launch import Launch
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.network import peers
from kajitori.embedded.kubelet.network.names import with_names
from kajitori.embedded.kubelet.network.packet_paths import NetworkPods
from kajitori.embedded.kubelet.network.resolvers import resolver_file
from kajitori.embedded.kubelet.pods import admission
from kajitori.embedded.kubelet.pods.context import Context
from kajitori.embedded.kubelet.pods.records import PodFolders, PodRecord
from kajitori.embedded.kubelet.pods.runtimes.runtime import Prepared, Runtime, Say
from kajitori.embedded.kubelet.pods.slot import Slot
from kajitori.embedded.kubelet.volumes.mount_plan import (
    HOSTS_PATH,
    mounts_hosts_file,
    plan_mounts,
    relocated_environment,
    relocated_folder,
    written_hosts_file,
)
from kajitori.embedded.kubelet.volumes.pod_volumes import Volume
from kajitori.errors import KajitoriError, NotFound
from kajitori.kube import resources

log = logging.getLogger(__name__)


LOCALHOST = "127.0.0.1\tlocalhost\n"


class WaitingForPeer(KajitoriError):
    """A fellow Pod that the environment names has no address yet."""

    code = "WaitingForPeer"


class Starter:
    """Prepares the launches of one Pod's containers."""

    def __init__(self, context: Context, folders: PodFolders) -> None:
        self._context = context
        self._folders = folders
        self._volumes: dict[str, Volume] | None = None

    async def refresh_volumes(self, pod: Manifest, record: PodRecord) -> None:
        """Set up the Pod's volumes, or refresh their contents. Raises VolumeNotReady."""
        facts = self._context.facts(record.pod_ip)
        self._volumes = await self._context.volumes.prepare(pod, self._folders.volumes, facts)

    def check_mounts(self, pod: Manifest) -> list[str]:
        """Return notes for the user about the Pod's mounts. Raises MountsUnavailable before a container is started."""
        notes: list[str] = []
        relocatable = self._context.adapter.relocatable_volumes(pod)
        for spec in pods.all_containers(pod):
            program = self._context.adapter.local_program(pod, spec)
            ability = (self._context.processes if program is not None else self._context.runtime).mounts
            plan = plan_mounts(spec, self._volumes or {}, ability, Path("/"), {}, relocatable=relocatable)
            notes += plan.notes
            if not ability.possible and self._context.adapter.networks(pod):
                notes.append(f"programs do not find the names in the run's networks: {ability.why_not}")
        return list(dict.fromkeys(notes))

    async def launch(self, pod: Manifest, record: PodRecord, slot: Slot) -> Launch:
        """Prepare the next attempt of a container.

        Raises VolumeNotReady, ConfigError, MountsUnavailable, NetworkError or WaitingForPeer; nothing was started then.
        """
        context, spec = self._context, slot.spec
        if self._volumes is None:
            await self.refresh_volumes(pod, record)
        relocatable = context.adapter.relocatable_volumes(pod)
        program = context.adapter.local_program(pod, spec)
        runtime = context.processes if program is not None else context.runtime
        mounts = runtime.mounts
        gpus = _gpus_of(spec, record)
        environment = await self._environment(pod, record, spec, program, runtime)
        working_dir = spec.get("workingDir") or ""
        if not mounts.possible:
            volumes, prefix = self._volumes or {}, context.adapter.variable_prefix
            environment = relocated_environment(environment, spec, volumes, relocatable, prefix)
            working_dir = relocated_folder(working_dir, spec, volumes, relocatable)
        resolves = mounts.possible and mounts_hosts_file(spec)
        named = {} if resolves else peers.named_peers(pod, environment)
        addresses = await self._peer_addresses(pod, record, set(named.values()))
        environment = peers.substitute(pod, environment, addresses, named)
        is_isolated = program is None and context.adapter.isolation(pod) is Isolation.LOOPBACK
        network_namespace = await self._join_network(pod, runtime, is_isolated=is_isolated)
        scratch = self._folders.own / "scratch"
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        hosts_file = self._hosts_file(pod, record, slot, addresses) if mounts.possible else None
        # An engine finds the name servers of its containers itself.
        resolvers = resolver_file() if network_namespace and runtime is context.processes else None
        plan = plan_mounts(spec, self._volumes or {}, mounts, scratch, environment, hosts_file, relocatable, resolvers)
        attempt = slot.attempt + 1
        prepared = Prepared(
            pod=pod,
            spec=spec,
            container_id=slot.container_id(attempt),
            folder=self._folders.container(slot.name, attempt),
            log_path=self._folders.log(slot.name, attempt),
            program=program,
            environment=environment,
            working_dir=working_dir,
            namespace=plan.namespace,
            message_file=self._folders.message(slot.name, attempt),
            gpus=gpus,
            network_namespace=network_namespace,
            is_isolated=is_isolated,
        )
        launch = runtime.launch(prepared)
        if not network_namespace:
            await self._write_packet_paths(pod, [group.path for group in launch.cgroups if group.version == 2])
        return launch

    async def _environment(
        self,
        pod: Manifest,
        record: PodRecord,
        spec: Mapping[str, Any],
        program: LocalProgram | None,
        runtime: Runtime,
    ) -> dict[str, str]:
        """Return the environment of the container's program, or of the local program that runs in its place."""
        context = self._context
        user, group = admission.identity(pod, spec)
        base = runtime.base_environment(user if program is None else None)
        configs = await self._referenced_configs(pod, spec)
        environment = environments.container_environment(pod, spec, base, configs, context.facts(record.pod_ip))
        environment |= context.gpus.environment(_gpus_of(spec, record))
        if program is None:
            return environment
        is_process = context.runtime is context.processes
        return program.environment(environment, user, group, mounts=runtime.mounts.possible, is_process=is_process)

    async def _join_network(self, pod: Manifest, runtime: Runtime, *, is_isolated: bool) -> str:
        """Return the network namespace that the container joins; empty if it uses the machine's network."""
        network = self._context.network
        if pod["spec"].get("hostNetwork"):
            return ""
        namespace, _ = await network.attach(pods.uid(pod))
        if is_isolated and (network.can_isolate or not runtime.can_isolate):
            return await network.isolate(pods.uid(pod))
        return namespace

    async def ensure_image(self, pod: Manifest, slot: Slot, say: Say) -> None:
        """Return when the image of the container's next attempt can be used. Raises ImageNotReady."""
        program = self._context.adapter.local_program(pod, slot.spec)
        runtime = self._context.processes if program is not None else self._context.runtime
        await runtime.ensure_image(pod, slot.spec, slot.attempt + 1, say)

    async def _write_packet_paths(self, pod: Manifest, groups: list[str]) -> None:
        packet_paths = NetworkPods(self._context.settings.root_dir, self._context.adapter)
        try:
            await asyncio.to_thread(packet_paths.write_groups, pod, groups)
        except OSError as error:  # a failure to count traffic must not keep a container from starting
            log.warning("traffic of Pod %s is counted as the node's own: %s", pod["metadata"]["name"], error)

    async def _referenced_configs(
        self, pod: Manifest, spec: Mapping[str, Any]
    ) -> dict[tuple[str, str], dict[str, str] | None]:
        found: dict[tuple[str, str], dict[str, str] | None] = {}
        namespace = pod["metadata"].get("namespace", "default")
        for kind, name in environments.referenced_configs(spec):
            resource = resources.CONFIG_MAPS if kind == "ConfigMap" else resources.SECRETS
            try:
                data = (await self._context.cluster.get(resource, name, namespace)).get("data") or {}
            except NotFound:
                found[kind, name] = None
                continue
            if kind == "Secret":
                data = {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
            found[kind, name] = data
        return found

    async def _peer_addresses(self, pod: Manifest, record: PodRecord, hosts: set[str]) -> dict[str, str]:
        found = {}
        for host in sorted(hosts):
            address = await peers.find_address(self._context.cluster, pod, host, record.pod_ip)
            if address is None:
                raise WaitingForPeer(f"waiting for the address of {host}, which the environment names")
            found[host] = address
        return found

    def names(self, pod: Manifest) -> str:
        """Return the lines of /etc/hosts for other Pods that this one finds by name."""
        namespace = pod["metadata"].get("namespace", "default")
        return self._context.names.text(namespace, self._context.adapter.networks(pod))

    def _hosts_file(self, pod: Manifest, record: PodRecord, slot: Slot, addresses: Mapping[str, str]) -> Path:
        """Write the /etc/hosts of a container, and return its path.

        A local program gets a file without the names of other Pods, because it may copy what it finds into the file
        that a later container asks for.
        """
        is_program = self._context.adapter.local_program(pod, slot.spec) is not None
        path = self._folders.own / "hosts-of-program" if is_program else self._folders.hosts
        text = self._own_hosts(pod, slot)
        if text is None:
            text = peers.hosts_text(pod, record.pod_ip, addresses, _read_hosts(HOSTS_PATH) or LOCALHOST)
        path.write_text(text if is_program else with_names(self.names(pod), text))
        path.chmod(0o644)
        return path

    def _own_hosts(self, pod: Manifest, slot: Slot) -> str | None:
        """Return the /etc/hosts that the Pod's local program wrote for this container; None if it wrote none."""
        relocatable = self._context.adapter.relocatable_volumes(pod)
        place = written_hosts_file(slot.spec, self._volumes or {}, relocatable)
        return _read_hosts(str(place)) if place is not None else None


def _read_hosts(path: str) -> str | None:
    """Return the text of a file; None if it can't be read, or is a link: a Pod's program may have made that."""
    try:
        with open(path, encoding="utf-8", errors="replace", opener=_opened_itself) as file:
            return file.read()
    except OSError:
        return None


def _opened_itself(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | (0 if path == HOSTS_PATH else os.O_NOFOLLOW))


def _gpus_of(spec: Mapping[str, Any], record: PodRecord) -> list[str]:
    """Return the GPUs that a container sees: those of its Pod, if it requests any."""
    return record.gpus if pods.container_request(spec).gpus else []
