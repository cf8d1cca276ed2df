"""Containers as plain processes of this machine's own software."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kajitori import __version__
from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.containers import environment as environments
from kajitori.embedded.kubelet.containers.launch import Launch
from kajitori.embedded.kubelet.machine.detection import Machine, MountAbility
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.pods import admission, messages
from kajitori.embedded.kubelet.pods.runtimes.runtime import Prepared, Say
from kajitori.embedded.kubelet.settings import KubeletSettings


class ProcessRuntime:
    """Runs each container as a process below a shim; an image is only a name."""

    scheme = "process"
    version = __version__
    can_isolate = False

    def __init__(
        self,
        settings: KubeletSettings,
        machine: Machine,
        variable_prefix: str,
        *,
        memory_bytes: int,
        max_processes: int,
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._variable_prefix = variable_prefix
        self._memory_bytes = memory_bytes
        self._max_processes = max_processes

    @property
    def mounts(self) -> MountAbility:
        return self._machine.mounts

    async def ensure_image(self, pod: Manifest, container: Mapping[str, Any], attempt: int, say: Say) -> None:
        if attempt == 0:
            image = container.get("image", "")
            words = "is taken by its name: this node runs plain processes of its own software"
            say("Pulled", f'Image "{image}" {words}', False)

    async def images(self) -> list[dict[str, Any]]:
        return []

    def base_environment(self, uid: int | None) -> dict[str, str]:
        inherited = environments.base_environment(self._settings.inherited_variables, uid)
        return inherited | dict(self._settings.extra_env)

    def launch(self, prepared: Prepared) -> Launch:
        pod, spec, program = prepared.pod, prepared.spec, prepared.program
        uid, gid = user_of(prepared)
        limit, request = pods.container_limit(spec), pods.container_request(spec)
        groups = self._machine.cgroups.for_container(
            prepared.container_id,
            cpu_request_millis=request.cpu_millis,
            # A local program works for 0.1 s; with a small container's share of a core that would take seconds.
            cpu_limit_millis=0 if program is not None else limit.cpu_millis,
            memory_limit_bytes=limit.memory_bytes,
            max_processes=self._max_processes,
        )
        changes_user = (uid, gid) != (None, None) and os.geteuid() == 0
        owner = (uid, gid) if changes_user and uid is not None and gid is not None else None
        environment = messages.with_message_file(
            prepared.environment, spec, prepared.message_file, owner, self._variable_prefix
        )
        return Launch(
            argv=program.argv if program is not None else environments.command_line(spec, prepared.environment),
            environment=environment,
            working_dir=prepared.working_dir or _working_directory(environment),
            log_path=prepared.log_path,
            log_max_bytes=self._settings.log_max_bytes,
            log_max_files=self._settings.log_max_files,
            uid=uid if changes_user else None,
            gid=gid if changes_user else None,
            groups=admission.supplemental_groups(pod),
            open_files=self._settings.open_files,
            oom_score_adjustment=oom_score(pod, spec, self._memory_bytes),
            memory_limit_bytes=limit.memory_bytes,
            cgroups=groups,
            mount_namespace=prepared.namespace,
            network_namespace=prepared.network_namespace,
            host_name=pods.hostname(pod),
            tty=bool(spec.get("tty")),
            stdin=bool(spec.get("stdin")),
        )

    async def clean(self, living: Mapping[int, Path]) -> int:
        return 0

    async def stop(self) -> None:
        return None


def user_of(prepared: Prepared) -> tuple[int | None, int | None]:
    """Return the user and group of a process; None means the kubelet's own."""
    if prepared.program is not None:
        # A local program runs as the kubelet's own user, who may be the only one who can read the program's files.
        return None, None
    uid, gid = admission.identity(prepared.pod, prepared.spec)
    return uid, _primary_group(uid) if uid is not None and gid is None else gid


def oom_score(pod: Manifest, spec: Mapping[str, Any], node_bytes: int) -> int | None:
    """Return the `oom_score_adj` that Kubernetes sets; None for guaranteed Pods, which keep the kubelet's value."""
    quality = pods.qos_class(pod)
    if quality == "Guaranteed":
        return None
    if quality == "BestEffort":
        return 1000
    asked = pods.container_request(spec).memory_bytes
    return min(max(3, 1000 - 1000 * asked // max(1, node_bytes)), 999)


def _working_directory(environment: Mapping[str, str]) -> str:
    home = environment.get("HOME", "/")
    return home if Path(home).is_dir() else "/"


def _primary_group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid
