"""Everything between the decision to start a container and its shim: volumes, configuration, environment, mounts,
limits."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.adapter import Isolation
from kajitori.embedded.kubelet.containers import environment as environments
from kajitori.embedded.kubelet.containers.container import Launch
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.network import peers
from kajitori.embedded.kubelet.network.packet_paths import NetworkPods
from kajitori.embedded.kubelet.pods import admission, messages
from kajitori.embedded.kubelet.pods.context import Context
from kajitori.embedded.kubelet.pods.records import PodFolders, PodRecord
from kajitori.embedded.kubelet.pods.slot import Slot
from kajitori.embedded.kubelet.volumes.mount_plan import (
    mounts_hosts_file,
    plan_mounts,
    relocated_environment,
    relocated_folder,
)
from kajitori.embedded.kubelet.volumes.pod_volumes import Volume
from kajitori.errors import KajitoriError, NotFound
from kajitori.kube import resources

log = logging.getLogger(__name__)


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
            ability = self._context.machine.mounts
            plan = plan_mounts(spec, self._volumes or {}, ability, Path("/"), {}, relocatable=relocatable)
            notes += plan.notes
        return list(dict.fromkeys(notes))

    async def launch(self, pod: Manifest, record: PodRecord, slot: Slot) -> Launch:
        """Prepare the next attempt of a container.

        Raises VolumeNotReady, ConfigError, MountsUnavailable, NetworkError or WaitingForPeer; nothing was started then.
        """
        context, spec, settings = self._context, slot.spec, self._context.settings
        if self._volumes is None:
            await self.refresh_volumes(pod, record)
        mounts, relocatable = context.machine.mounts, context.adapter.relocatable_volumes(pod)
        program = context.adapter.local_program(pod, spec)
        # A local program runs as the kubelet's own user, who may be the only one who can read the program's files.
        uid, gid = (None, None) if program is not None else admission.identity(pod, spec)
        if uid is not None and gid is None:
            gid = _primary_group(uid)
        base = environments.base_environment(settings.inherited_variables, uid) | dict(settings.extra_env)
        configs = await self._configs(pod, spec)
        environment = environments.container_environment(pod, spec, base, configs, context.facts(record.pod_ip))
        if pods.container_request(spec).gpus or not record.gpus:
            environment |= context.gpus.environment(record.gpus)
        else:
            environment |= context.gpus.environment([])
        if program is not None:
            user, group = admission.identity(pod, spec)
            environment = program.environment(environment, user, group, mounts=mounts.possible)
        working_dir = spec.get("workingDir") or _home(environment)
        if not mounts.possible:
            volumes, prefix = self._volumes or {}, context.adapter.variable_prefix
            environment = relocated_environment(environment, spec, volumes, relocatable, prefix)
            working_dir = relocated_folder(working_dir, spec, volumes, relocatable)
        argv = program.argv if program is not None else environments.command_line(spec, environment)
        resolves = mounts.possible and mounts_hosts_file(spec)
        named = {} if resolves else peers.named_peers(pod, environment)
        addresses = await self._addresses(pod, record, set(named.values()))
        environment = peers.substitute(pod, environment, addresses, named)

        network_namespace = ""
        if not pod["spec"].get("hostNetwork"):
            network_namespace, _ = await context.network.attach(pods.uid(pod))
            if program is None and context.adapter.isolation(pod) is Isolation.LOOPBACK:
                network_namespace = await context.network.isolate(pods.uid(pod))
        attempt_folder = self._folders.container(slot.name, slot.attempt + 1)
        scratch = self._folders.own / "scratch"
        scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        plan = plan_mounts(
            spec,
            self._volumes or {},
            mounts,
            scratch,
            environment,
            self._hosts_file(pod, record, addresses) if mounts.possible else None,
            relocatable,
        )
        limit, request = pods.container_limit(spec), pods.container_request(spec)
        groups = context.machine.cgroups.for_container(
            slot.container_id(slot.attempt + 1),
            cpu_request_millis=request.cpu_millis,
            # A local program works for 0.1 s; with a small container's share of a core that would take seconds.
            cpu_limit_millis=0 if program is not None else limit.cpu_millis,
            memory_limit_bytes=limit.memory_bytes,
            max_processes=context.max_processes,
        )
        if not network_namespace:
            await self._write_packet_paths(pod, [group.path for group in groups if group.version == 2])
        supplemental = (pod["spec"].get("securityContext") or {}).get("supplementalGroups") or []
        fs_group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
        changes_user = (uid, gid) != (None, None) and os.geteuid() == 0
        owner = (uid, gid) if changes_user and uid is not None and gid is not None else None
        message = self._folders.message(slot.name, slot.attempt + 1)
        environment = messages.with_message_file(environment, spec, message, owner, context.adapter.variable_prefix)
        return Launch(
            argv=argv,
            environment=environment,
            working_dir=working_dir,
            log_path=self._folders.log(slot.name, int(attempt_folder.name)),
            log_max_bytes=settings.log_max_bytes,
            log_max_files=settings.log_max_files,
            uid=uid if changes_user else None,
            gid=gid if changes_user else None,
            groups=[int(group) for group in (*supplemental, *([fs_group] if fs_group is not None else ()))],
            open_files=settings.open_files,
            oom_score_adjustment=_oom_score(pod, spec, context.capacity.memory_bytes),
            memory_limit_bytes=limit.memory_bytes,
            cgroups=groups,
            mount_namespace=plan.namespace,
            network_namespace=network_namespace,
            host_name=pods.hostname(pod),
            tty=bool(spec.get("tty")),
            stdin=bool(spec.get("stdin")),
        )

    async def _write_packet_paths(self, pod: Manifest, groups: list[str]) -> None:
        packet_paths = NetworkPods(self._context.settings.root_dir, self._context.adapter)
        try:
            await asyncio.to_thread(packet_paths.write_groups, pod, groups)
        except OSError as error:  # a failure to count traffic must not keep a container from starting
            log.warning("traffic of Pod %s is counted as the node's own: %s", pod["metadata"]["name"], error)

    async def _configs(self, pod: Manifest, spec: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, str] | None]:
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

    async def _addresses(self, pod: Manifest, record: PodRecord, hosts: set[str]) -> dict[str, str]:
        found = {}
        for host in sorted(hosts):
            address = await peers.find_address(self._context.cluster, pod, host, record.pod_ip)
            if address is None:
                raise WaitingForPeer(f"waiting for the address of {host}, which the environment names")
            found[host] = address
        return found

    def _hosts_file(self, pod: Manifest, record: PodRecord, addresses: Mapping[str, str]) -> Path:
        path = self._folders.own / "hosts"
        try:
            machine_hosts = Path("/etc/hosts").read_text()
        except OSError:
            machine_hosts = "127.0.0.1\tlocalhost\n"
        path.write_text(peers.hosts_text(pod, record.pod_ip, addresses, machine_hosts))
        path.chmod(0o644)
        return path


def _home(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME", "/")
    return home if Path(home).is_dir() else "/"


def _primary_group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _oom_score(pod: Manifest, spec: Mapping[str, Any], node_bytes: int) -> int | None:
    """Return the `oom_score_adj` that Kubernetes sets; None for guaranteed Pods, which keep the kubelet's value."""
    quality = pods.qos_class(pod)
    if quality == "Guaranteed":
        return None
    if quality == "BestEffort":
        return 1000
    asked = pods.container_request(spec).memory_bytes
    return min(max(3, 1000 - 1000 * asked // max(1, node_bytes)), 999)
