"""Which mounts a container gets; without mount namespaces, which of them are not needed because the path is the
same.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kajitori.embedded.kubelet.containers.environment import expand
from kajitori.embedded.kubelet.machine.detection import MountAbility
from kajitori.embedded.kubelet.volumes.pod_volumes import SHARED_MEMORY, Volume
from kajitori.errors import KajitoriError

SERVICE_ACCOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


class MountsUnavailable(KajitoriError):
    """A volume can't appear at its mount path on this node, now or later."""

    code = "MountsUnavailable"


@dataclass(frozen=True)
class MountPlan:
    """`namespace` is what the shim is told, None where no mount is needed; `notes` are what the user should know."""

    namespace: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()


def plan_mounts(
    container: Mapping[str, Any],
    volumes: Mapping[str, Volume],
    ability: MountAbility,
    scratch: Path,
    environment: Mapping[str, str],
    hosts_file: Path | None = None,
    own_folders: Collection[str] = (),
) -> MountPlan:
    """The mounts of one container. `scratch` is an empty folder of its own; `hosts_file` becomes its `/etc/hosts`;
    volumes that are `own_folders` are found without being mounted.

    Raises MountsUnavailable, which says why and what would work, and names every volume that is in the way.
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
        return _without_namespace([mount for mount in mounts if mount["name"] not in own_folders], ability)
    if hosts_file is not None and not any(mount["target"] == "/etc/hosts" for mount in mounts):
        mounts.append({"source": str(hosts_file), "sub_path": "", "target": "/etc/hosts", "read_only": True})
    if not mounts:
        return MountPlan()
    return MountPlan({"user_namespace": ability.user_namespace, "scratch": str(scratch), "mounts": mounts})


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
