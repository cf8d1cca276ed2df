"""The first step of members of ours, on a node whose containers are plain processes.

Its image cannot be run, but its program is this package's own: this machine's Python runs it. Where nothing can be
mounted, what it makes lies in the Pod's own folder, and the variables that point there say so.
"""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import zstandard

import kajitori
from kajitori.core.documents.fields import RESERVED_ENV_PREFIX
from kajitori.core.words import first_step
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.volumes.pod_volumes import Volume, kind_of

_PACKAGES = Path(kajitori.__file__).parents[1]
_LIBRARIES = Path(zstandard.__file__).parents[1]
"""Where code that is unpacked finds what it needs."""


def own_folders(pod: Manifest) -> frozenset[str]:
    """Names of the Pod's volumes that need not be mounted: variables of ours tell where they lie."""
    said = (pod["metadata"].get("annotations") or {}).get(first_step.ANNOTATION_OWN_FOLDERS, "")
    return frozenset(name for name in said.split(",") if name)


def is_first_step(pod: Manifest, container: Mapping[str, Any]) -> bool:
    """Whether the container is the first step of a member of ours: one that writes into an empty folder of the Pod's
    own, and nowhere else."""
    own = own_folders(pod)
    empty = {volume["name"] for volume in pod["spec"].get("volumes") or () if kind_of(volume) == "emptyDir"}
    whole = [
        mount for mount in container.get("volumeMounts") or () if mount.keys() <= {"name", "mountPath", "readOnly"}
    ]
    folders = {mount["name"] for mount in whole if mount["mountPath"] == first_step.FOLDER}
    return container["name"] == first_step.CONTAINER and bool(own & empty & folders)


def command() -> list[str]:
    """Its command line, whatever is first on the path. What it needs besides the standard library is named to it: a
    look through all that is installed takes longer than its work."""
    return [sys.executable, "-P", "-S", "-m", first_step.PROGRAM]


def environment(said: Mapping[str, str], uid: int | None, gid: int | None) -> dict[str, str]:
    """What it finds: of what the Pod says our own variables alone, since it runs as the kubelet's own user, and nothing
    in a Pod may make another program of it, or let it write elsewhere. With user and group of the program, where these
    are not the kubelet's own."""
    found = {name: value for name, value in said.items() if name.startswith(RESERVED_ENV_PREFIX)}
    found |= {"PYTHONPATH": f"{_PACKAGES}:{_LIBRARIES}", first_step.FOLDER_ENV: first_step.FOLDER}
    found.pop(first_step.OWNER_ENV, None)
    if uid is not None and os.geteuid() == 0:
        found[first_step.OWNER_ENV] = f"{uid}:{gid if gid is not None else uid}"
    return found


def without_mounts(
    environment: Mapping[str, str], container: Mapping[str, Any], volumes: Mapping[str, Volume], own: Collection[str]
) -> dict[str, str]:
    """The environment where nothing is mounted: variables of ours that point into the Pod's own folders point to where
    these lie on this machine, and the hostfile is to name addresses, since names of members do not resolve."""
    moved = dict(environment)
    for mount in container.get("volumeMounts") or ():
        if mount["name"] not in own:
            continue
        target, source = posixpath.normpath(mount["mountPath"]), _source(mount, volumes)
        for name, value in environment.items():
            if name.startswith(RESERVED_ENV_PREFIX) and (value == target or value.startswith(f"{target}/")):
                moved[name] = source + value.removeprefix(target)
    if container["name"] == first_step.CONTAINER and own:
        moved[first_step.BY_ADDRESS_ENV] = "1"
    return moved


def working_dir(said: str, container: Mapping[str, Any], volumes: Mapping[str, Volume], own: Collection[str]) -> str:
    """The folder to start in where nothing is mounted: what lies in the Pod's own folders is there on this machine."""
    for mount in container.get("volumeMounts") or ():
        target = posixpath.normpath(mount["mountPath"])
        if mount["name"] in own and (said == target or said.startswith(f"{target}/")):
            return _source(mount, volumes) + said.removeprefix(target)
    return said


def _source(mount: Mapping[str, Any], volumes: Mapping[str, Volume]) -> str:
    return posixpath.normpath(posixpath.join(str(volumes[mount["name"]].path), mount.get("subPath") or ""))


def mounts_etc_hosts(container: Mapping[str, Any]) -> bool:
    """Whether the container brings an /etc/hosts of its own, where names of fellow members stand."""
    paths = (mount["mountPath"] for mount in container.get("volumeMounts") or ())
    return any(posixpath.normpath(path) == first_step.ETC_HOSTS for path in paths)
