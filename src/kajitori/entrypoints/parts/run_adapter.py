"""Adapts the embedded cluster to Runs: the package `embedded` itself knows nothing of Runs.

The first step of a member is an init container from this platform's own image. A node that runs plain processes cannot
run the image, but the step's program is part of this package: the machine's own Python runs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

import kajitori
from kajitori.cluster.run_object import RUNS
from kajitori.core.documents.fields import RESERVED_ENV_PREFIX
from kajitori.core.naming import first_step, names
from kajitori.embedded.controllers.disruption import Workload
from kajitori.embedded.kubelet.adapter import Isolation, PodAdapter
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.volumes.pod_volumes import kind_of

RUN_WORKLOAD = Workload(RUNS, names.LABEL_RUN_UID)
"""Runs as the embedded disruption controller sees them."""

_PACKAGES = Path(kajitori.__file__).parents[1]
_LIBRARIES = Path(zstandard.__file__).parents[1]
"""The folder of the library that unpacks code."""


class FirstStep:
    """The program of a member's first step, run by this machine's own Python."""

    argv = (sys.executable, "-P", "-S", "-m", first_step.PROGRAM)
    """`-S`, since reading the `.pth` files of all installed packages takes longer than the step's work. The environment
    has the paths of the packages that the step needs."""

    def environment(
        self,
        container_environment: Mapping[str, str],
        user: int | None,
        group: int | None,
        *,
        mounts: bool,
        is_process: bool,
    ) -> dict[str, str]:
        """Return the step's environment, which takes over only the container's variables that this platform reserves.

        The step runs as the kubelet's own user, so no variable of a Pod may make it run another program or write
        elsewhere. If the member's program has another `user` and `group` than the kubelet, a variable names them.
        """
        own = {name: value for name, value in container_environment.items() if name.startswith(RESERVED_ENV_PREFIX)}
        own |= {"PYTHONPATH": f"{_PACKAGES}:{_LIBRARIES}", first_step.FOLDER_ENV: first_step.FOLDER}
        own.pop(first_step.OWNER_ENV, None)
        if is_process:
            own[first_step.PRIVATE_ENV] = "1"
        if user is not None and os.geteuid() == 0:
            own[first_step.OWNER_ENV] = f"{user}:{group if group is not None else user}"
        if not mounts:  # the step cannot replace /etc/hosts, so names of members would not resolve
            own[first_step.BY_ADDRESS_ENV] = "1"
        return own


class RunPods(PodAdapter):
    """Adapts members of Runs to a node that runs plain processes."""

    variable_prefix = RESERVED_ENV_PREFIX

    def relocatable_volumes(self, pod: Manifest) -> frozenset[str]:
        """Return the names of the volumes that only variables of this platform point to."""
        listed = (pod["metadata"].get("annotations") or {}).get(first_step.ANNOTATION_OWN_FOLDERS, "")
        return frozenset(name for name in listed.split(",") if name)

    def local_program(self, pod: Manifest, container: Mapping[str, Any]) -> FirstStep | None:
        """Return the first step's program for a first step: one that writes only into an emptyDir of the Pod."""
        if container["name"] != first_step.CONTAINER:
            return None
        empty_folders = {volume["name"] for volume in pod["spec"].get("volumes") or () if kind_of(volume) == "emptyDir"}
        mounted_whole = {
            mount["name"]
            for mount in container.get("volumeMounts") or ()
            if mount.keys() <= {"name", "mountPath", "readOnly"} and mount["mountPath"] == first_step.FOLDER
        }
        return FirstStep() if self.relocatable_volumes(pod) & empty_folders & mounted_whole else None

    def isolation(self, pod: Manifest) -> Isolation:
        """Return how the Pod of a run with `--network none` is restricted."""
        wanted = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_ISOLATION, "")
        if not wanted:
            return Isolation.NONE
        return Isolation.LOOPBACK if wanted == names.ISOLATION_LOOPBACK else Isolation.GROUP

    network_prefix = names.NETWORK_PREFIX

    def networks(self, pod: Manifest) -> Sequence[str]:
        """Return the Services of the networks of the Pod's run."""
        listed = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_NETWORKS, "")
        return [service for service in listed.split(",") if service]

    def traffic_labels(self, pod: Manifest) -> Mapping[str, str]:
        """Return the run that the Pod belongs to, its UID and its user; empty for a Pod of no run.

        Only the owner reference counts, since any creator of a Pod can choose its labels.
        """
        owners = pod["metadata"].get("ownerReferences") or ()
        run = next((owner for owner in owners if owner.get("controller") and owner.get("kind") == names.KIND), None)
        if run is None:
            return {}
        user = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_OWNER, "")
        labels = {"run": run.get("name", ""), "runUid": run.get("uid", ""), "user": user}
        return {name: value for name, value in labels.items() if value}
