"""Plans the mounts of a container.

A node without mount namespaces needs no mount if source and target are the same. For volumes that may be at another
path, it rewrites variables and the working folder.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kajitori.embedded.kubelet.containers.environment import expand
from kajitori.embedded.kubelet.machine.detection import MountAbility
from kajitori.embedded.kubelet.volumes.pod_volumes import SHARED_MEMORY, Volume
from kajitori.errors import KajitoriError

HOSTS_PATH, RESOLVERS_PATH = "/etc/hosts", "/etc/resolv.conf"
SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


class MountsUnavailable(KajitoriError):
    """A volume can't appear at its mount path on this node, and waiting does not help."""

    code = "MountsUnavailable"


@dataclass(frozen=True)
class MountPlan:
    """`namespace` goes to the shim, None if the container needs no mount; `notes` are for the user."""

    namespace: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()


def plan_mounts(
    container: Mapping[str, Any],
    volumes: Mapping[str, Volume],
    ability: MountAbility,
    scratch: Path,
    environment: Mapping[str, str],
    hosts_file: Path | None = None,
    relocatable: Collection[str] = (),
    resolver_file: Path | None = None,
) -> MountPlan:
    """Plan the mounts of one container.

    `scratch` is an empty folder for this container, `hosts_file` becomes its `/etc/hosts`, and `resolver_file` its
    `/etc/resolv.conf`. `relocatable` names the volumes that programs find without a mount.

    Raises MountsUnavailable, which names every volume that cannot be mounted, and says why and what would work.
    """
    mounts = []
    for mount in container.get("volumeMounts") or ():
        sub_path = mount.get("subPath") or ""
        if mount.get("subPathExpr"):
            sub_path = expand(mount["subPathExpr"], environment)
        volume = volumes[mount["name"]]
        mounts.append(
            {
                "name": mount["name"],
                "source": str(volume.path),
                "sub_path": posixpath.normpath(sub_path) if sub_path else "",
                "target": posixpath.normpath(mount["mountPath"]),
                "read_only": bool(mount.get("readOnly")) or volume.read_only,
                "asked_read_only": bool(mount.get("readOnly")),
                "kind": volume.kind,
            }
        )
    if not ability.possible:
        return _without_namespace([mount for mount in mounts if mount["name"] not in relocatable], ability)
    if hosts_file is not None and written_hosts_file(container, volumes, relocatable) is not None:
        mounts = [mount for mount in mounts if mount["target"] != HOSTS_PATH]  # `hosts_file` has its lines
    if hosts_file is not None and not any(mount["target"] == HOSTS_PATH for mount in mounts):
        mounts.append({"source": str(hosts_file), "sub_path": "", "target": HOSTS_PATH, "read_only": True})
    if resolver_file is not None and not any(mount["target"] == RESOLVERS_PATH for mount in mounts):
        mounts.append({"source": str(resolver_file), "sub_path": "", "target": RESOLVERS_PATH, "read_only": True})
    if not mounts:
        return MountPlan()
    return MountPlan({"user_namespace": ability.user_namespace, "scratch": str(scratch), "mounts": mounts})


def mounts_hosts_file(container: Mapping[str, Any]) -> bool:
    """Return whether the container mounts a file of its own at /etc/hosts."""
    return any(posixpath.normpath(mount["mountPath"]) == HOSTS_PATH for mount in container.get("volumeMounts") or ())


def written_hosts_file(
    container: Mapping[str, Any], volumes: Mapping[str, Volume], relocatable: Collection[str]
) -> Path | None:
    """Return the file in one of the platform's own volumes that the container mounts at /etc/hosts; None if it mounts
    none, or one of the user's."""
    for mount in container.get("volumeMounts") or ():
        if posixpath.normpath(mount["mountPath"]) == HOSTS_PATH and mount["name"] in relocatable:
            name = posixpath.basename(str(mount.get("subPath") or ""))
            return volumes[mount["name"]].path / name if name else None
    return None


def relocated_environment(
    environment: Mapping[str, str],
    container: Mapping[str, Any],
    volumes: Mapping[str, Volume],
    relocatable: Collection[str],
    variable_prefix: str,
) -> dict[str, str]:
    """Return the environment for a node that mounts nothing.

    Variables that begin with `variable_prefix` and point into a `relocatable` volume point to its folder on this
    machine.
    """
    relocated = dict(environment)
    for target, source in _relocated_mounts(container, volumes, relocatable):
        for name, value in environment.items():
            if name.startswith(variable_prefix) and (value == target or value.startswith(f"{target}/")):
                relocated[name] = source + value.removeprefix(target)
    return relocated


def relocated_folder(
    folder: str, container: Mapping[str, Any], volumes: Mapping[str, Volume], relocatable: Collection[str]
) -> str:
    """Return the working folder on a node that mounts nothing, if it is in a `relocatable` volume."""
    for target, source in _relocated_mounts(container, volumes, relocatable):
        if folder == target or folder.startswith(f"{target}/"):
            return source + folder.removeprefix(target)
    return folder


def _relocated_mounts(
    container: Mapping[str, Any], volumes: Mapping[str, Volume], relocatable: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (mount path, folder on this machine) of each mount of a `relocatable` volume."""
    for mount in container.get("volumeMounts") or ():
        if mount["name"] in relocatable:
            source = posixpath.join(str(volumes[mount["name"]].path), mount.get("subPath") or "")
            yield posixpath.normpath(mount["mountPath"]), posixpath.normpath(source)


def _without_namespace(mounts: Sequence[Mapping[str, Any]], ability: MountAbility) -> MountPlan:
    refused, notes = [], []
    for mount in mounts:
        target = str(mount["target"])
        source = posixpath.normpath(posixpath.join(mount["source"], mount["sub_path"]))
        if mount["kind"] == "projected" and target == SERVICE_ACCOUNT_PATH:
            notes.append(f"no service account token at {target}: {ability.why_not}")
        elif mount["kind"] == "emptyDir" and target == str(SHARED_MEMORY):
            notes.append(f"{target} is this machine's own")
        elif os.path.realpath(source) == os.path.realpath(target):
            if mount["asked_read_only"]:
                notes.append(f"{target} is this machine's own folder and can be written, though readOnly was asked for")
        else:
            refused.append(f"{mount['name']} ({mount['kind']}) at {target}")
    if refused:
        raise MountsUnavailable(
            f"this node can't mount volumes at other paths than their own: {', '.join(refused)}; {ability.why_not}",
            hint="mount a folder of this machine at its own path (-v $PWD:$PWD), or run the kubelet as root "
            "or where user namespaces are allowed",
        )
    return MountPlan(None, notes)
