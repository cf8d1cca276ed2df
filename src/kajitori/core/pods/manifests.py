"""Manifests of the objects that belong to a run: Pods, Service, NetworkPolicy, disruption budget, checkpoint claim."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kajitori.core.formats.quantities import format_memory
from kajitori.core.naming import first_step, names
from kajitori.core.pods.tickets import Ticket, sign, sign_member
from kajitori.core.spec.run import RunSpec

Manifest = dict[str, Any]

CHECKPOINT_ENV = "KAJI_CHECKPOINT_DIR"
GPU_CLAIM = "gpuClaim"
"""Key of a stored template: the spec of each member's ResourceClaim. Absent if members ask for GPUs by an extended
resource."""
CLAIM_OF_POD = "gpus"
"""Name of that claim in Pods."""
SWEEP = "array"
"""Value in place of a launcher for sweeps: their members are independent, so no launcher connects them."""


class MemberPods:
    """Builder of the Pods of one attempt from its template. It is fast, because only the parts that differ between
    ranks are built per Pod.

    The Pods share all other parts with each other and with the template, so callers must not change them.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        *,
        run_name: str,
        namespace: str,
        run_uid: str,
        attempt: int,
        world_size: int,
        port: int,
        launcher: str,
        bind_direct: bool = False,
        key: bytes | None = None,
    ) -> None:
        """`launcher` is the result of `launcher_of`. `key` signs the members, and the ticket that they present to the
        Web API in their first step. Without a key they have neither signature nor ticket."""
        self._run_name = run_name
        self._namespace = namespace
        self._attempt = attempt
        self._bind_direct = bind_direct
        self._spec: Mapping[str, Any] = template["spec"]
        if GPU_CLAIM in template:
            source = names.claim_template(run_name, _content_digest(run_uid, template[GPU_CLAIM]))
            self._spec = {**self._spec, "resourceClaims": [{"name": CLAIM_OF_POD, "resourceClaimTemplateName": source}]}
        self._container: Mapping[str, Any] = self._spec["containers"][0]
        self._labels = {
            **template["metadata"].get("labels", {}),
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_RUN: run_name,
            names.LABEL_RUN_UID: run_uid,
            names.LABEL_ATTEMPT: str(attempt),
        }
        self._metadata: Manifest = {
            "namespace": namespace,
            "ownerReferences": [owner_of_members(run_name, run_uid)],
        }
        self._annotations: Mapping[str, str] = template["metadata"].get("annotations") or {}
        self._run_uid = run_uid
        self._key = key
        member_env = {"KAJI_RUN": run_name, "KAJI_WORLD_SIZE": str(world_size), "KAJI_ATTEMPT": str(attempt)}
        self._steps: Sequence[Mapping[str, Any]] = self._spec.get("initContainers", ())
        step_env = dict(member_env)
        if key is not None:
            code, files = first_step.code_of(self._spec), first_step.files_of(self._spec)
            ticket = Ticket(namespace, run_name, run_uid, attempt, world_size, code, files)
            step_env[first_step.TICKET_ENV] = sign(ticket, key)
        if launcher == "mpi":
            ports = {first_step.MPI_PORT_ENV: str(port)}
            member_env |= ports
            step_env |= ports
        self._step_env = [{"name": name, "value": value} for name, value in step_env.items()]
        if launcher == "torchrun":
            member_env |= {"NNODES": str(world_size), "PET_NNODES": str(world_size)}
        member_env |= self._rendezvous_variables(launcher, world_size, port)
        others = [variable for variable in self._container.get("env", ()) if variable["name"] not in member_env]
        self._env = [*({"name": name, "value": value} for name, value in member_env.items()), *others]
        self._is_torchrun = launcher == "torchrun"
        self._is_sweep = launcher == SWEEP
        self._rank_names = ("KAJI_RANK", "NODE_RANK", "PET_NODE_RANK") if self._is_torchrun else ("KAJI_RANK",)

    def _rendezvous_variables(self, launcher: str, world_size: int, port: int) -> dict[str, str]:
        """Return the variables with the address of rank 0. Without a launcher, the user's own values take
        precedence."""
        if launcher in ("", SWEEP) or not port or (launcher == "none" and world_size == 1):
            return {}
        address = f"{names.pod_name(self._run_name, self._attempt, 0)}.{self._run_name}"
        meeting = {"MASTER_ADDR": address, "MASTER_PORT": str(port)}
        if launcher == "torchrun":
            pet = {"PET_MASTER_ADDR": address, "PET_MASTER_PORT": str(port)}
            # The same address for `--rdzv-backend c10d` (PET_RDZV_BACKEND=c10d); without it the rendezvous is static.
            pet |= {"PET_RDZV_ENDPOINT": f"{address}:{port}", "PET_RDZV_ID": f"{self._run_name}-{self._attempt}"}
            return meeting | pet
        written = {variable["name"] for variable in self._container.get("env", ())}
        return {name: value for name, value in meeting.items() if name not in written}

    def pod(self, rank: int, node: str) -> Manifest:
        """Return the Pod of one member, for its planned node."""
        name = names.pod_name(self._run_name, self._attempt, rank)
        index, number = str(rank), "0" if self._is_sweep else str(rank)
        env = [*({"name": variable, "value": number} for variable in self._rank_names), *self._env]
        if self._is_sweep:
            own = (_with_own_checkpoint_folder(variable, index) for variable in env)
            env = [{"name": "KAJI_ARRAY_INDEX", "value": index}, *own]
        if self._is_torchrun:
            # c10d compares its host name with the rendezvous address, and gives other members that host name.
            env.append({"name": "PET_RDZV_CONF", "value": f"is_host={rank == 0}"})
            env.append({"name": "PET_LOCAL_ADDR", "value": f"{name}.{self._run_name}"})
        spec = {
            **self._spec,
            "hostname": name,
            "subdomain": self._run_name,
            "containers": [{**self._container, "env": env}],
        }
        if self._steps:
            step_env = [{"name": "KAJI_RANK", "value": index}, *self._step_env]  # identifies the Pod to the Web API
            spec["initContainers"] = [{**step, "env": [*step_env, *step["env"]]} for step in self._steps]
        if self._bind_direct:
            spec["nodeName"] = node
        else:
            spec["affinity"] = pinned_to(node)
        metadata = {**self._metadata, "name": name, "labels": {**self._labels, names.LABEL_RANK: index}}
        annotations = self._annotations
        if self._key is not None:
            signature = sign_member(self._namespace, name, self._run_uid, self._key)
            annotations = {**annotations, names.ANNOTATION_SIGNATURE: signature}
        if annotations:
            metadata["annotations"] = annotations
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def launcher_of(spec: RunSpec) -> str:
    """Return the launcher of an attempt: the spec's, SWEEP for a sweep, empty for a service."""
    if spec.array is not None:
        return SWEEP
    return "" if spec.type == "service" else spec.launcher


def _with_own_checkpoint_folder(variable: Manifest, index: str) -> Manifest:
    """Return the variable; the one for the checkpoint gets the folder of this index, since members of a sweep share the
    volume."""
    if variable["name"] != CHECKPOINT_ENV:
        return variable
    return {"name": CHECKPOINT_ENV, "value": f"{variable['value']}/{index}"}


def owner_of_members(run_name: str, run_uid: str) -> Manifest:
    """Return the owner reference of every member to its Run."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": run_name,
        "uid": run_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pinned_to(node: str) -> Manifest:
    """Return a node affinity for one node, in the form that kube-scheduler resolves without checking other nodes."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [{"matchFields": [field]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def headless_service(*, run_name: str, namespace: str, run_uid: str, ports: Sequence[int]) -> Manifest:
    """Return the Service that gives each member a DNS name, even before it is ready. It is deleted with the run."""
    spec: Manifest = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {names.LABEL_RUN_UID: run_uid},
    }
    if ports:
        spec["ports"] = [{"name": f"port-{port}", "port": port} for port in ports]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _of_run(run_name, namespace, run_uid),
        "spec": spec,
    }


def disruption_budget(*, run_name: str, namespace: str, run_uid: str, spec: Mapping[str, Any]) -> Manifest:
    """Return the PodDisruptionBudget of a run with this spec (see `core.pods.budgets`). It is deleted with the run."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _of_run(run_name, namespace, run_uid),
        "spec": spec,
    }


def network_policy(*, run_name: str, namespace: str, run_uid: str, rules: Mapping[str, Any]) -> Manifest:
    """Return the NetworkPolicy of a run with these rules (see `core.pods.reach`). Members can always reach each other.
    The NetworkPolicy is deleted with the run."""
    members: Manifest = {"podSelector": {"matchLabels": {names.LABEL_RUN_UID: run_uid}}}
    spec = {**members, "policyTypes": list(rules["policyTypes"])}
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        if direction in rules:
            spec[direction] = [{peers: [members]}, *rules[direction]]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _of_run(run_name, namespace, run_uid),
        "spec": spec,
    }


def gpu_claim_template(template: Mapping[str, Any], *, run_name: str, namespace: str, run_uid: str) -> Manifest | None:
    """Return the ResourceClaimTemplate by which members get their GPUs; None if they need none. It is deleted with the
    run."""
    if GPU_CLAIM not in template:
        return None
    metadata = _of_run(run_name, namespace, run_uid)
    labels = {key: metadata["labels"][key] for key in (names.LABEL_MANAGED_BY, names.LABEL_RUN, names.LABEL_RUN_UID)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {**metadata, "name": names.claim_template(run_name, _content_digest(run_uid, template[GPU_CLAIM]))},
        "spec": {"metadata": {"labels": labels}, "spec": template[GPU_CLAIM]},
    }


def _content_digest(run_uid: str, spec: Mapping[str, Any]) -> str:
    """Return a digest that no other content and no earlier run of the same name has."""
    return hashlib.sha256(json.dumps([run_uid, spec], sort_keys=True).encode()).hexdigest()[:8]


def checkpoint_claim(
    *, run_name: str, namespace: str, size_bytes: int, access_mode: str, storage_class: str | None
) -> Manifest:
    """Return the PersistentVolumeClaim of a run's checkpoint. It has no owner reference, so that the next run with this
    name finds it again."""
    spec: Manifest = {
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": format_memory(size_bytes)}},
    }
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.checkpoint_claim(run_name),
            "namespace": namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_RUN: run_name},
        },
        "spec": spec,
    }


def _of_run(run_name: str, namespace: str, run_uid: str) -> Manifest:
    """Return the metadata of an object that a run has exactly one of. The object has the run's name."""
    return {
        "name": run_name,
        "namespace": namespace,
        "labels": {
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_RUN: run_name,
            names.LABEL_RUN_UID: run_uid,
        },
        "ownerReferences": [owner_reference(run_name, run_uid)],
    }


def owner_reference(run_name: str, run_uid: str) -> Manifest:
    """Return the owner reference of an object that is deleted with a run, and is no member of it."""
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": run_name, "uid": run_uid}


def priority_class() -> Manifest:
    """Return the PriorityClass of members' Pods, unless the policy names another one.

    Its value is that of Pods without a class, so that ordinary Pods do not preempt members.
    """
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": names.PRIORITY_CLASS, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}},
        "value": 0,
        "preemptionPolicy": "Never",
        "description": "Members of Kajitori's runs. Kajitori preempts whole gangs; the scheduler preempts nothing.",
    }


def put(target: Manifest, key: str, value: Any) -> None:
    """Set a field, unless its value is empty."""
    if value:
        target[key] = value
