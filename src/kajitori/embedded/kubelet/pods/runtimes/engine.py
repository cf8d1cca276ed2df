"""Containers from real images, run by the engine of Docker or Podman on this machine."""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.containers import environment as environments
from kajitori.embedded.kubelet.containers.launch import EngineContainer, Launch
from kajitori.embedded.kubelet.engine.client import EngineClient
from kajitori.embedded.kubelet.engine.detection import Engine
from kajitori.embedded.kubelet.engine.images import (
    LOOK_AGAIN_SECONDS,
    ImageNotReady,
    Images,
    images_in_status,
    pull_policy,
)
from kajitori.embedded.kubelet.machine.detection import MountAbility
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.pods import admission, messages
from kajitori.embedded.kubelet.pods.runtimes import libpod
from kajitori.embedded.kubelet.pods.runtimes.engine_gpus import GpuAccess
from kajitori.embedded.kubelet.pods.runtimes.process import oom_score
from kajitori.embedded.kubelet.pods.runtimes.runtime import Prepared, Say, engine_name
from kajitori.embedded.kubelet.settings import KubeletSettings
from kajitori.errors import KajitoriError, NotFound, Unavailable
from kajitori.kube import resources

log = logging.getLogger(__name__)

LABEL_ROOT = "kajitori.kubelet"
LABEL_FOLDER = "kajitori.folder"
LABEL_POD = "io.kubernetes.pod.name"
LABEL_NAMESPACE = "io.kubernetes.pod.namespace"
LABEL_UID = "io.kubernetes.pod.uid"
LABEL_CONTAINER = "io.kubernetes.container.name"
"""Labels of our containers; those of the Pod are the ones that other kubelets set."""
CPU_PERIOD_MICROSECONDS = 100_000


class EngineRuntime:
    """Runs each container through the engine; a shim creates it, keeps its log and waits for its end."""

    can_isolate = True

    def __init__(
        self,
        engine: Engine,
        settings: KubeletSettings,
        cluster: Cluster,
        gpus: GpuAccess,
        *,
        memory_bytes: int,
        max_processes: int,
    ) -> None:
        self.engine = engine
        self.scheme = engine.name
        self.version = engine.version
        self._settings = settings
        self._cluster = cluster
        self._gpus = gpus
        self._memory_bytes = memory_bytes
        self._max_processes = max_processes
        self._client = EngineClient(engine.socket, engine.api)
        self._images = Images(self._client)

    @property
    def mounts(self) -> MountAbility:
        return MountAbility(True)

    async def ensure_image(self, pod: Manifest, container: Mapping[str, Any], attempt: int, say: Say) -> None:
        owner = f"{pods.uid(pod)}/{container['name']}/{attempt}"
        auths = await self._registry_credentials(pod)
        try:
            image = container.get("image") or ""
            found = await self._images.ensure(image, pull_policy(container), owner, auths, say)
        except Unavailable as error:
            raise ImageNotReady("ContainerCreating", error.message, 4 * LOOK_AGAIN_SECONDS) from error
        except ImageNotReady:
            raise
        except KajitoriError as error:
            raise ImageNotReady("InvalidImageName", error.message, 60 * LOOK_AGAIN_SECONDS) from error
        refuse_root(pod, container, str((found.get("Config") or {}).get("User") or ""))

    async def images(self) -> list[dict[str, Any]]:
        try:
            return images_in_status(await self._client.images())
        except KajitoriError:
            return []  # the engine starts again; the next report has them

    def base_environment(self, uid: int | None) -> dict[str, str]:
        return dict(self._settings.extra_env)

    def launch(self, prepared: Prepared) -> Launch:
        spec = prepared.spec
        messages.create(prepared.message_file)
        labels = {
            LABEL_ROOT: str(self._settings.root_dir.resolve()),
            LABEL_FOLDER: str(prepared.folder.resolve()),
            LABEL_POD: prepared.pod["metadata"]["name"],
            LABEL_NAMESPACE: prepared.pod["metadata"].get("namespace", "default"),
            LABEL_UID: pods.uid(prepared.pod),
            LABEL_CONTAINER: spec["name"],
        }
        body = container_body(prepared, labels, oom_score(prepared.pod, spec, self._memory_bytes))
        self._gpus.give(body, prepared.gpus, named=bool(pods.container_request(spec).gpus))
        if self._max_processes:
            body["HostConfig"]["PidsLimit"] = self._max_processes
        return Launch(
            argv=(),
            environment={},
            working_dir="/",
            log_path=prepared.log_path,
            log_max_bytes=self._settings.log_max_bytes,
            log_max_files=self._settings.log_max_files,
            memory_limit_bytes=pods.container_limit(spec).memory_bytes,
            tty=bool(spec.get("tty")),
            stdin=bool(spec.get("stdin")),
            engine=self._engine_container(engine_name(prepared), body),
        )

    def _engine_container(self, name: str, body: dict[str, Any]) -> EngineContainer:
        create = f"{self.engine.api}/containers/create"
        if self.engine.name == "podman" and "DeviceRequests" in body["HostConfig"]:
            create, body = libpod.CREATE, libpod.specification(name, body)
        return EngineContainer(self.engine.socket, self.engine.name, name, body, self.engine.api, create)

    async def clean(self, living: Mapping[int, Path]) -> int:
        """Remove the engine's containers of this kubelet's folder that no shim holds. They may be left by a crash
        between two steps, by a restored backup, or by a restart of the machine."""
        kept = {str(folder) for folder in living.values()}
        removed = 0
        try:
            ours = await self._client.containers(f"{LABEL_ROOT}={self._settings.root_dir.resolve()}")
        except KajitoriError as error:
            log.warning("containers of an earlier start may be left in %s: %s", self.engine, error.message)
            return 0
        for found in ours:
            if (found.get("Labels") or {}).get(LABEL_FOLDER) in kept:
                continue
            try:
                await self._client.remove(str(found["Id"]))
                removed += 1
            except KajitoriError as error:
                log.warning("a container of an earlier start is left in %s: %s", self.engine, error.message)
        return removed

    async def stop(self) -> None:
        await self._images.stop()

    async def _registry_credentials(self, pod: Manifest) -> dict[str, Mapping[str, Any]]:
        """Return credentials by registry: those of the user's `docker login`, and the Pod's imagePullSecrets over
        them."""
        found = _auths_in(_own_login())
        for reference in pod["spec"].get("imagePullSecrets") or ():
            namespace = pod["metadata"].get("namespace", "default")
            try:
                data = (await self._cluster.get(resources.SECRETS, reference["name"], namespace)).get("data") or {}
            except NotFound:
                continue  # as in Kubernetes: the pull may work without it
            if ".dockerconfigjson" in data:
                found |= _auths_in(base64.b64decode(data[".dockerconfigjson"]))
        return found


def container_body(prepared: Prepared, labels: Mapping[str, str], oom_score: int | None) -> dict[str, Any]:
    """Return the body of the engine's request to create a container; command and arguments follow Kubernetes' rules."""
    pod, spec, environment = prepared.pod, prepared.spec, prepared.environment
    limit, request = pods.container_limit(spec), pods.container_request(spec)
    stdin, tty = bool(spec.get("stdin")), bool(spec.get("tty"))
    host: dict[str, Any] = {
        "NetworkMode": _network_mode(prepared),
        "Mounts": [*_mount_bodies(prepared), _message_mount(prepared)],
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "CpuShares": max(2, request.cpu_millis * 1024 // 1000) if request.cpu_millis else 0,
        "GroupAdd": [str(group) for group in admission.supplemental_groups(pod)],
        **_security_settings(pod, spec),
    }
    for field, mode in (("hostPID", "PidMode"), ("hostIPC", "IpcMode")):
        if pod["spec"].get(field):
            host[mode] = "host"
    if oom_score is not None and os.geteuid() == 0:
        host["OomScoreAdj"] = oom_score
    if limit.memory_bytes:
        host["Memory"] = host["MemorySwap"] = limit.memory_bytes
    if limit.cpu_millis:
        host["CpuPeriod"] = CPU_PERIOD_MICROSECONDS
        host["CpuQuota"] = limit.cpu_millis * CPU_PERIOD_MICROSECONDS // 1000
    body: dict[str, Any] = {
        "Image": spec.get("image") or "",
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": dict(labels),
        "Tty": tty,
        "OpenStdin": stdin,
        "StdinOnce": stdin and not tty,
        "AttachStdin": stdin,
        "AttachStdout": True,
        "AttachStderr": True,
        "Healthcheck": {"Test": ["NONE"]},  # probes are the kubelet's, as on other nodes
        "HostConfig": host,
    }
    if spec.get("command"):
        body["Entrypoint"] = [environments.expand(word, environment) for word in spec["command"]]
        body["Cmd"] = []  # the image's arguments belong to its own entrypoint
    if spec.get("args"):
        body["Cmd"] = [environments.expand(word, environment) for word in spec["args"]]
    if prepared.working_dir:
        body["WorkingDir"] = prepared.working_dir
    if prepared.network_namespace:
        body["Hostname"] = pods.hostname(pod)
    uid, gid = admission.identity(pod, spec)
    if uid is not None:
        body["User"] = f"{uid}:{gid}" if gid is not None else str(uid)
    return body


def refuse_root(pod: Manifest, spec: Mapping[str, Any], image_user: str) -> None:
    """Raise ConfigError if the container must not run as root, and would."""
    if not admission.effective(pod, spec, "runAsNonRoot"):
        return
    uid, _ = admission.identity(pod, spec)
    name = image_user.partition(":")[0] if uid is None else str(uid)
    if name in ("", "0", "root"):
        raise environments.ConfigError("container has runAsNonRoot and its image runs as root", hint="give runAsUser")
    if not name.isdigit():
        message = f"container has runAsNonRoot and its image has a user by name ({name}), who may be root"
        raise environments.ConfigError(message, hint="give runAsUser")


def _network_mode(prepared: Prepared) -> str:
    if prepared.network_namespace:
        return f"ns:{prepared.network_namespace}"
    return "none" if prepared.is_isolated else "host"


def _mount_bodies(prepared: Prepared) -> list[dict[str, Any]]:
    found = []
    for mount in (prepared.namespace or {}).get("mounts") or ():
        source = _mount_source(Path(mount["source"]), str(mount.get("sub_path") or ""))
        found.append(_bind(source, str(mount["target"]), read_only=bool(mount["read_only"])))
    return found


def _mount_source(volume: Path, sub_path: str) -> Path:
    """Return the real folder or file of a mount. Raises ConfigError if a symlink leads out of the volume."""
    root = volume.resolve()
    if not sub_path:
        return root
    source = (root / sub_path).resolve()
    if source != root and root not in source.parents:
        raise environments.ConfigError(f"subPath {sub_path!r} leads out of its volume")
    if not source.exists():
        source.mkdir(parents=True, mode=0o755)
    return source


def _message_mount(prepared: Prepared) -> dict[str, Any]:
    target = prepared.spec.get("terminationMessagePath") or messages.DEFAULT_PATH
    return _bind(prepared.message_file, target, read_only=False)


def _bind(source: Path, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": read_only}


def _security_settings(pod: Manifest, spec: Mapping[str, Any]) -> dict[str, Any]:
    context = spec.get("securityContext") or {}
    capabilities = context.get("capabilities") or {}
    # Without this option SELinux would deny containers the mounted folders, and their labels belong to the machine.
    options = ["label=disable"]
    if context.get("allowPrivilegeEscalation") is False:
        options.append("no-new-privileges")
    if (admission.effective(pod, spec, "seccompProfile") or {}) == {"type": "Unconfined"}:
        options.append("seccomp=unconfined")
    return {
        "CapAdd": _capability_names(capabilities.get("add")),
        "CapDrop": _capability_names(capabilities.get("drop")),
        "ReadonlyRootfs": bool(context.get("readOnlyRootFilesystem")),
        "SecurityOpt": options,
        "Privileged": bool(context.get("privileged")),
    }


def _capability_names(capabilities: Sequence[str] | None) -> list[str]:
    return [str(name).removeprefix("CAP_") for name in capabilities or ()]


def _own_login() -> bytes:
    folder = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
    try:
        return (Path(folder) / "config.json").read_bytes()
    except OSError:
        return b"{}"


def _auths_in(document: bytes) -> dict[str, Mapping[str, Any]]:
    try:
        auths = json.loads(document).get("auths") or {}
        return {str(name).removesuffix("/"): dict(entry) for name, entry in auths.items() if entry}
    except (ValueError, AttributeError, TypeError):
        return {}
