"""Volumes and volume mounts of members."""

from __future__ import annotations

from kajitori.core.formats.quantities import format_memory
from kajitori.core.naming import first_step, names
from kajitori.core.pods import mpi
from kajitori.core.pods.manifests import CHECKPOINT_ENV, Manifest, put
from kajitori.core.pods.resolved import Findings, Resolved, RunIdentity
from kajitori.core.policy.model import Policy
from kajitori.core.policy.runs.mounts import Volume
from kajitori.core.spec.parts import SHM_PATH
from kajitori.core.spec.run import RunSpec


class Mounts:
    """Collector of volumes and volume mounts; one volume for each mount."""

    def __init__(self) -> None:
        self.volumes: list[Manifest] = []
        self.mounts: list[Manifest] = []

    def add(
        self, name: str, path: str, source: Manifest, *, read_only: bool = False, sub_path: str | None = None
    ) -> None:
        """Add a volume and mount it at a path. `source` has the volume's type and its settings."""
        mount: Manifest = {"name": name, "mountPath": path}
        put(mount, "readOnly", read_only)
        put(mount, "subPath", sub_path)
        self.volumes.append({"name": name, **source})
        self.mounts.append(mount)


def mount_everything(
    mounts: Mounts, spec: RunSpec, policy: Policy, resolved: Resolved, run: RunIdentity, findings: Findings
) -> str:
    """Add all mounts of a spec, and return the path of the checkpoint, or an empty text without one."""
    if resolved.shm_bytes:
        limit = format_memory(resolved.shm_bytes)
        mounts.add("shm", SHM_PATH, {"emptyDir": {"medium": "Memory", "sizeLimit": limit}})
        if policy.mounts.own_path_only:
            message = f"{SHM_PATH} is the machine's own, so its size is not limited"
            findings.add("ShmOfTheMachine", message, "spec.resources.shm")
    checkpoint_path = _mount_checkpoint(mounts, spec, policy, run, findings)
    for index, use in enumerate(spec.volumes):
        field = f"spec.volumes[{index}]"
        read_only = use.read_only
        sub_path = None
        if use.host_path is not None:
            source: Manifest = {"hostPath": {"path": use.host_path}}
        else:
            volume = policy.volumes[use.name or ""]
            source, sub_path = _volume_source(volume), volume.sub_path
            if volume.read_only and not use.read_only:
                read_only = True
                findings.add("VolumeReadOnly", f"the volume {use.name} is mounted read-only", f"{field}.readOnly")
        if read_only and policy.mounts.own_path_only:
            message = f"{use.path} is not a mount but the folder itself, so programs can write to it"
            findings.add("ReadOnlyNotEnforced", message, f"{field}.readOnly")
        mounts.add(f"volume-{index}", use.path, source, read_only=read_only, sub_path=sub_path)
    for index, secret in enumerate(spec.secrets):
        if secret.path is not None:
            source = {"secret": {"secretName": secret.name}}
            mounts.add(f"secret-{index}", secret.path, source, read_only=True)
    return checkpoint_path


def mount_first_step_files(
    mounts: Mounts, spec: RunSpec, policy: Policy, resolved: Resolved, *, meets_others: bool
) -> None:
    """Mount the folder that the first step fills, and from it /etc/hosts, /etc/passwd, the run's code and its files if
    needed. The program may write to the code and the files."""
    by_mpi = spec.launcher == "mpi"
    mounts.add(first_step.VOLUME, first_step.FOLDER, {"emptyDir": {}}, read_only=not by_mpi)
    if spec.files is not None:
        mounts.volumes.append({"name": first_step.FILES_VOLUME, "emptyDir": {}})
        for index, file in enumerate(spec.files.items):
            place = f"{first_step.UNPACKED_FILES}/{first_step.file_name(index)}"
            mounts.mounts.append({"name": first_step.FILES_VOLUME, "mountPath": file.path, "subPath": place})
    own_paths = {mount["mountPath"] for mount in mounts.mounts}
    if by_mpi and first_step.ETC_PASSWD not in own_paths and mpi.needs_passwd(policy, resolved):
        users: Manifest = {"name": first_step.VOLUME, "mountPath": first_step.ETC_PASSWD, "readOnly": True}
        mounts.mounts.append(users | {"subPath": first_step.PASSWD_FILE})
    if meets_others and first_step.ETC_HOSTS not in own_paths:
        hosts: Manifest = {"name": first_step.VOLUME, "mountPath": first_step.ETC_HOSTS, "readOnly": True}
        mounts.mounts.append(hosts | {"subPath": first_step.ETC_HOSTS_FILE})
    if spec.code is not None:
        code: Manifest = {"name": first_step.VOLUME, "mountPath": spec.code.path, "subPath": first_step.CODE_FOLDER}
        mounts.mounts.append(code)


METRICS_VOLUME, METRICS_FOLDER = "kajitori-metrics", "/kajitori-metrics"
METRICS_FILE = f"{METRICS_FOLDER}/metrics.jsonl"


def mount_metrics(mounts: Mounts) -> None:
    """Mount the folder in which the program may write its figures, for the node's agent to read.

    It has no size limit of its own: kubelets evict a Pod that exceeds one, and figures must not end a training.
    """
    if any(mount["mountPath"] == METRICS_FOLDER for mount in mounts.mounts):
        return  # two volumes cannot be mounted at one path
    mounts.add(METRICS_VOLUME, METRICS_FOLDER, {"emptyDir": {}})


def _mount_checkpoint(mounts: Mounts, spec: RunSpec, policy: Policy, run: RunIdentity, findings: Findings) -> str:
    if spec.checkpoint is None:
        return ""
    path, rules = spec.checkpoint.path, policy.checkpoint
    if rules.kind == "claim":
        source: Manifest = {"persistentVolumeClaim": {"claimName": names.checkpoint_claim(run.name)}}
        if rules.access_mode == "ReadWriteOnce" and spec.members > 1:
            message = "its volume can be mounted on one node only (ReadWriteOnce): all members have to fit on one node"
            findings.add("CheckpointOnOneNode", message, "spec.checkpoint")
    else:
        folder = checkpoint_folder(policy, run)
        source = {"hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
        if policy.mounts.own_path_only and folder != path:
            path = folder
            message = (
                f"the checkpoint is at {folder}, not at {spec.checkpoint.path}; programs find it in {CHECKPOINT_ENV}"
            )
            findings.add("CheckpointAtOwnPath", message, "spec.checkpoint.path")
        if spec.checkpoint.size_bytes is not None:
            message = "this cluster keeps checkpoints in folders, so the size is not used"
            findings.add("CheckpointSizeUnused", message, "spec.checkpoint.size")
    mounts.add("checkpoint", path, source)
    return path


def _volume_source(volume: Volume) -> Manifest:
    if volume.claim is not None:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    if volume.host_path is not None:
        return {"hostPath": {"path": volume.host_path}}
    if volume.nfs is not None:
        return {"nfs": {"server": volume.nfs.server, "path": volume.nfs.path}}
    if volume.config_map is not None:
        return {"configMap": {"name": volume.config_map}}
    if volume.secret is not None:
        return {"secret": {"secretName": volume.secret}}
    empty: Manifest = {}
    if volume.empty_dir is not None:
        put(empty, "medium", "Memory" if volume.empty_dir.memory else "")
        put(empty, "sizeLimit", volume.empty_dir.size_bytes and format_memory(volume.empty_dir.size_bytes))
    return {"emptyDir": empty}


def checkpoint_folder(policy: Policy, run: RunIdentity) -> str:
    """Return the folder of a run's checkpoint, for policies that keep checkpoints in folders."""
    return f"{(policy.checkpoint.root or '').rstrip('/')}/{run.namespace}/{run.name}"
