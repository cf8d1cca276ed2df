"""A Pod's volumes on this machine: the place of each, and the files that have to be written into it."""

from __future__ import annotations

import base64
import contextlib
import math
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.cluster import Cluster
from kajitori.embedded.kubelet.containers.environment import PodFacts, field_value, resource_value
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.volumes.atomic_files import Payload, write_volume
from kajitori.errors import KajitoriError, NotFound
from kajitori.kube import resources
from kajitori.kube.clock import steady_seconds

SUPPORTED = ("configMap", "secret", "projected", "downwardAPI", "emptyDir", "hostPath", "persistentVolumeClaim")
DEFAULT_MODE = 0o644
SHARED_MEMORY = Path("/dev/shm")


class VolumeNotReady(KajitoriError):
    """A volume can't be set up yet. The kubelet tries again, as with Kubernetes' FailedMount."""

    code = "FailedMount"


@dataclass(frozen=True)
class Volume:
    name: str
    path: Path
    """Path of its content on this machine."""
    kind: str
    read_only: bool = False


def kind_of(volume: Mapping[str, Any]) -> str:
    """Return the field name of the volume's source; a volume without a source is an emptyDir."""
    return next((field for field in volume if field != "name"), "emptyDir")


class Volumes:
    """Sets up and removes volumes, in one folder per Pod."""

    def __init__(
        self, cluster: Cluster, *, open_below: Path | None = None, clock: Callable[[], float] = steady_seconds
    ) -> None:
        self._cluster = cluster
        self._open_below = open_below
        self._clock = clock
        self._tokens: dict[tuple[str, str], tuple[float, str]] = {}

    async def prepare(self, pod: Manifest, folder: Path, facts: PodFacts) -> dict[str, Volume]:
        """Set up all volumes of the Pod, ready to be mounted. A second call refreshes ConfigMaps, Secrets and tokens.

        Raises VolumeNotReady naming the volume.
        """
        found = {}
        for spec in pod["spec"].get("volumes") or ():
            try:
                found[spec["name"]] = await self._prepare(pod, spec, folder / spec["name"], facts)
            except (OSError, ValueError) as error:
                raise VolumeNotReady(f'volume "{spec["name"]}": {error}') from error
            except NotFound as error:
                raise VolumeNotReady(f'volume "{spec["name"]}": {error.message}') from error
        return found

    def remove(self, pod: Manifest, folder: Path) -> None:
        """Remove everything that belonged to the Pod alone; never follow a symlink out of it."""
        for spec in pod["spec"].get("volumes") or ():
            if kind_of(spec) == "emptyDir" and (spec.get("emptyDir") or {}).get("medium") == "Memory":
                with contextlib.suppress(OSError):
                    shutil.rmtree(_shared_memory_folder(pod, spec["name"]), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        for key in [key for key in self._tokens if key[0] == pods.uid(pod)]:
            del self._tokens[key]

    async def _prepare(self, pod: Manifest, spec: Mapping[str, Any], path: Path, facts: PodFacts) -> Volume:
        kind = kind_of(spec)
        source = spec.get(kind) or {}
        if kind == "emptyDir":
            if source.get("medium") == "Memory" and os.access(SHARED_MEMORY, os.W_OK):
                path = _shared_memory_folder(pod, spec["name"])
            _make_folder(path, _owner_group(pod))
            return Volume(spec["name"], path, kind)
        if kind == "hostPath":
            return Volume(spec["name"], _host_path(source, self._open_below), kind)
        if kind == "persistentVolumeClaim":
            return await self._claimed_volume(pod, spec["name"], source)
        sources = source.get("sources") or () if kind == "projected" else [{kind: source}]
        default_mode = int(source.get("defaultMode") or DEFAULT_MODE)
        payload: dict[str, tuple[bytes, int]] = {}
        for one in sources:
            payload.update(await self._projected_payload(pod, one, default_mode, facts))
        write_volume(path, payload)
        return Volume(spec["name"], path, kind, read_only=True)

    async def _projected_payload(self, pod: Manifest, source: Mapping[str, Any], mode: int, facts: PodFacts) -> Payload:
        namespace = pod["metadata"].get("namespace", "default")
        if (config := source.get("configMap")) is not None:
            found = await self._read(resources.CONFIG_MAPS, namespace, config["name"], bool(config.get("optional")))
            content = {name: text.encode() for name, text in (found.get("data") or {}).items()}
            content |= {name: base64.b64decode(text) for name, text in (found.get("binaryData") or {}).items()}
            return _select(content, config, mode, f'configmap "{config["name"]}"')
        if (secret := source.get("secret")) is not None:
            name = secret.get("secretName") or secret.get("name", "")
            found = await self._read(resources.SECRETS, namespace, name, bool(secret.get("optional")))
            content = {key: base64.b64decode(text) for key, text in (found.get("data") or {}).items()}
            return _select(content, secret, mode, f'secret "{name}"')
        if (downward := source.get("downwardAPI")) is not None:
            return {item["path"]: _downward_file(pod, item, mode, facts) for item in downward.get("items") or ()}
        if (token := source.get("serviceAccountToken")) is not None:
            return {token["path"]: ((await self._account_token(pod, token)).encode(), mode)}
        raise VolumeNotReady(f"projected volume with source {sorted(source)} is not supported")

    async def _read(self, resource: resources.Resource, namespace: str, name: str, optional: bool) -> dict[str, Any]:
        try:
            return await self._cluster.get(resource, name, namespace)
        except NotFound:
            if optional:
                return {}
            raise

    async def _account_token(self, pod: Manifest, source: Mapping[str, Any]) -> str:
        """Return a token of the Pod's service account, bound to the Pod; renew it after four fifths of its lifetime."""
        metadata, spec = pod["metadata"], pod["spec"]
        key = (pods.uid(pod), str(source.get("audience") or ""))
        renew_at, token = self._tokens.get(key, (-math.inf, ""))
        if self._clock() < renew_at:
            return token
        account, namespace = spec.get("serviceAccountName") or "default", metadata.get("namespace", "default")
        lifetime = int(source.get("expirationSeconds") or 3600)
        asked_at = self._clock()
        answer = await self._cluster.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [source["audience"]] if source.get("audience") else [],
                    "expirationSeconds": lifetime,
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                },
            },
        )
        token = str(answer["status"]["token"])
        # The expirationTimestamp is of no use, since another machine's clock made it.
        granted_seconds = float((answer.get("spec") or {}).get("expirationSeconds") or lifetime)
        self._tokens[key] = (asked_at + granted_seconds * 0.8, token)
        return token

    async def _claimed_volume(self, pod: Manifest, name: str, source: Mapping[str, Any]) -> Volume:
        namespace = pod["metadata"].get("namespace", "default")
        claim = await self._cluster.get(resources.CLAIMS, source["claimName"], namespace)
        bound_to = (claim.get("spec") or {}).get("volumeName")
        if not bound_to or (claim.get("status") or {}).get("phase") != "Bound":
            raise VolumeNotReady(f'persistentvolumeclaim "{source["claimName"]}" is not bound to a volume yet')
        volume = (await self._cluster.get(resources.PERSISTENT_VOLUMES, bound_to))["spec"]
        read_only = bool(source.get("readOnly"))
        if "hostPath" in volume:
            return Volume(name, _host_path(volume["hostPath"], self._open_below), "persistentVolumeClaim", read_only)
        if "local" in volume:
            path = _host_path({"path": volume["local"]["path"], "type": "Directory"}, None)
            return Volume(name, path, "persistentVolumeClaim", read_only)
        raise VolumeNotReady(
            f'persistentvolume "{bound_to}" is of a kind that the process kubelet has no driver for; '
            "supported are hostPath and local"
        )


def _select(content: Mapping[str, bytes], source: Mapping[str, Any], mode: int, what: str) -> Payload:
    items: Iterable[Mapping[str, Any]] | None = source.get("items")
    if not items:
        return {name: (data, mode) for name, data in content.items()}
    chosen = {}
    for item in items:
        if item["key"] not in content:
            if source.get("optional"):
                continue
            raise VolumeNotReady(f"{what} has no key {item['key']!r}")
        chosen[item["path"]] = (content[item["key"]], int(item.get("mode") or mode))
    return chosen


def _downward_file(pod: Manifest, item: Mapping[str, Any], mode: int, facts: PodFacts) -> tuple[bytes, int]:
    if item.get("fieldRef"):
        text = field_value(pod, item["fieldRef"]["fieldPath"], facts)
    else:
        text = resource_value(pod, {}, item["resourceFieldRef"], facts)
    return text.encode(), int(item.get("mode") or mode)


def _host_path(source: Mapping[str, Any], open_below: Path | None) -> Path:
    path, kind = Path(source["path"]), str(source.get("type") or "")
    if kind in ("", "DirectoryOrCreate") and not path.exists():
        path.mkdir(parents=True, exist_ok=True)
        if open_below is not None and path.is_relative_to(open_below) and _is_private(path.parent):
            # Like an empty volume: the user of a container is often that of the image, and not this kubelet's.
            path.chmod(0o777)
    if kind == "FileOrCreate" and not path.exists():
        path.touch(0o644)
    mode = path.stat().st_mode
    wanted = {
        "Directory": stat.S_ISDIR,
        "DirectoryOrCreate": stat.S_ISDIR,
        "File": stat.S_ISREG,
        "FileOrCreate": stat.S_ISREG,
        "Socket": stat.S_ISSOCK,
        "CharDevice": stat.S_ISCHR,
        "BlockDevice": stat.S_ISBLK,
    }.get(kind)
    if wanted is not None and not wanted(mode):
        raise VolumeNotReady(f"hostPath {path} is not of type {kind}")
    return path


def _is_private(folder: Path) -> bool:
    """Return whether only one user of this machine may enter the folder or a folder above it."""
    return any(not each.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH) for each in (folder, *folder.parents))


def _shared_memory_folder(pod: Manifest, name: str) -> Path:
    """Return a folder in memory, inside one that only this kubelet's user may enter. Raises OSError if another user
    created that."""
    ours = SHARED_MEMORY / f"kajitori-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        ours.mkdir(mode=0o700)
    status = ours.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{ours} belongs to another user")
    return ours / f"{pods.uid(pod)}-{name}"


def _owner_group(pod: Manifest) -> int | None:
    group = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return int(group) if group is not None else None


def _make_folder(path: Path, group: int | None) -> None:
    """Create a folder in which every user of the Pod may write; its parent is closed to others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o777)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_uid == os.geteuid():
            os.fchmod(fd, 0o777 if group is None else 0o2777)
            if group is not None and os.geteuid() == 0:
                os.fchown(fd, -1, group)
    finally:
        os.close(fd)
