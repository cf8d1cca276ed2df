"""Names in a policy that a cluster lacks: Kubernetes objects, labels and resources of nodes, GPU types.

Patterns, image names, folders of nodes, NFS servers and schedulers cannot be looked up, so they are not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from kajitori.core.documents.faults import path_of
from kajitori.core.policy.model import Policy
from kajitori.core.policy.runs.mounts import Volume
from kajitori.core.suggestions import first_few, nearest
from kajitori.errors import Fault

MAX_LOOKUPS = 500
"""Largest number of objects that are looked up for one policy."""

MISSING = "Missing"
"""Code of the faults."""

_LABELS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Named:
    """An object that a policy names, or, without a name, the default object of a kind."""

    field: str
    kind: str
    """Kind of Kubernetes object, for example StorageClass."""
    name: str = ""
    namespace: str = ""

    @property
    def text(self) -> str:
        """The object as a message names it."""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.kind} {self.name}{where}" if self.name else f"default {self.kind}"


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """A node, or a node that a pool may add."""

    labels: Mapping[str, str]
    resources: frozenset[str]
    """Names of the resources that it has for Pods."""
    is_present: bool = True
    gpu_types: frozenset[str] | None = None
    """The types of its GPUs if they are devices of dynamic resource allocation; None if labels tell the type."""

    def types(self, policy: Policy) -> set[str]:
        """Return the types of its GPUs, as far as they are known."""
        if self.gpu_types is not None:
            return set(self.gpu_types)
        return {policy.gpu.type_of(self.labels)} if policy.gpu.resource in self.resources else set()


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Names in a policy that the cluster lacks (`faults`), and differences that may be intended or are not certain
    (`notes`)."""

    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: Shortfall) -> Shortfall:
        return Shortfall(self.faults + other.faults, self.notes + other.notes)


# ---------------------------------------------------------------------------------------------------- objects

_WAYS_OUT = {
    "StorageClass": "create it, or name one of `kubectl get storageclasses`",
    "PriorityClass": "create it with preemptionPolicy Never, or leave className out",
    "RuntimeClass": "create it, or name one of `kubectl get runtimeclasses`",
    "Namespace": "create it, or name one of `kubectl get namespaces`",
    "Service": "correct the server's name, or create the Service (deploy/server.yaml)",
    "PersistentVolumeClaim": "create the claim in that namespace, or change the volume",
    "ConfigMap": "create it in that namespace, or change the volume",
    "Secret": "create it in that namespace: kaji secret create",
}


def named_objects(policy: Policy, namespace: str) -> list[Named]:
    """Return the objects that a policy names. Objects of a run's namespace are looked for in `namespace`."""
    found = list(_cluster_objects(policy))
    for name, volume in policy.volumes.items():
        found += _named_sources(("volumes", name), volume, namespace)
    found += [
        Named(path_of("images", ("pullSecrets", index)), "Secret", name, namespace)
        for index, name in enumerate(policy.images.pull_secrets)
    ]
    if policy.preflight.image is not None:
        tests = policy.preflight.namespace
        found.append(Named("preflight.namespace", "Namespace", tests))
        for index, use in enumerate(policy.preflight.volumes):
            if use.name in policy.volumes:
                found += _named_sources(("preflight", "volumes", index), policy.volumes[use.name], tests)
    return found


def _cluster_objects(policy: Policy) -> Iterator[Named]:
    checkpoint = policy.checkpoint
    if checkpoint.kind == "claim":
        yield Named("checkpoint.storageClass", "StorageClass", checkpoint.storage_class or "")
    for word, priority in policy.priorities.items():
        yield Named(path_of("priorities", (word, "className")), "PriorityClass", priority.class_name)
    if policy.inject.runtime_class is not None:
        yield Named("inject.runtimeClass", "RuntimeClass", policy.inject.runtime_class)
    for index, guarantee in enumerate(policy.guarantees):
        yield Named(path_of("guarantees", (index, "namespace")), "Namespace", guarantee.namespace)
    name, _, rest = (urlsplit(policy.start.server or "").hostname or "").partition(".")
    service_namespace, _, domain = rest.partition(".")
    if domain == "svc" or domain.startswith("svc."):
        yield Named("start.server", "Service", name, service_namespace)
    if policy.network.enforced and "namespace" in policy.network.dns.model_fields_set:
        yield Named("network.dns.namespace", "Namespace", policy.network.dns.namespace)


def _named_sources(where: tuple[str | int, ...], volume: Volume, namespace: str) -> Iterator[Named]:
    sources = (
        ("claim", "PersistentVolumeClaim", volume.claim),
        ("configMap", "ConfigMap", volume.config_map),
        ("secret", "Secret", volume.secret),
    )
    for field, kind, name in sources:
        if name is not None:
            path = where if where[0] == "preflight" else (*where, field)
            yield Named(path_of("", path), kind, name, namespace)


def missing_object(named: Named) -> Fault:
    """Return the fault of an object that the cluster does not have."""
    if not named.name:
        message = f"no {named.kind} is named, and the cluster has no default one"
        return Fault(named.field, message, hint=f"name one of `kubectl get {named.kind.lower()}es`", code=MISSING)
    message = f"the cluster has no {named.text}"
    return Fault(named.field, message, named.name, _WAYS_OUT[named.kind], MISSING)


def preempting_class(named: Named) -> Fault:
    """Return the fault of a PriorityClass that lets Pods preempt others."""
    message = f"the {named.text} lets single Pods preempt others, which tears gangs apart"
    hint = "name a class with preemptionPolicy Never, or leave className out"
    return Fault(named.field, message, named.name, hint)


def missing_resolvers(policy: Policy) -> Shortfall:
    """Return the fault of DNS resolvers that do not exist; a note if the policy leaves them to the default."""
    dns = policy.network.dns
    labels = ",".join(f"{key}={value}" for key, value in dns.labels.items())
    message = f"no Pod in namespace {dns.namespace} has {labels}, so restricted runs cannot resolve names"
    if "dns" not in policy.network.model_fields_set:
        return Shortfall(notes=(f"network.dns: {message}",))
    hint = "name the labels of the cluster's DNS Pods: kubectl get pods -A --show-labels"
    return Shortfall((Fault("network.dns.labels", message, labels, hint, MISSING),))


# ------------------------------------------------------------------------------------------------------ nodes


def lacking_nodes(policy: Policy, present: Sequence[CheckedNode]) -> Shortfall:
    """Return the labels, resources and GPU types in the policy that no node of the cluster has.

    Fields that the policy leaves out are not checked. Nodes that pools can still get count as present. If the cluster
    grows automatically (nodesOnDemand), everything is a note, because a node that is still to come may have it.
    """
    if not present and not policy.node_pools:
        return Shortfall(notes=("the cluster has no nodes yet: labels, resources and GPU types are not checked",))
    nodes = [*present, *_nodes_to_come(policy)]
    faults = [
        *_faults_of_labels(policy, nodes),
        *_faults_of_resources(policy, nodes),
        *_gpu_types(policy, nodes),
        *_faults_of_topology(policy, nodes),
        *_volumes_of_tests(policy),
        *_pool_labels(policy, present),
    ]
    if policy.nodes_on_demand:
        return Shortfall(notes=tuple(f"{fault.field}: {fault.message} now" for fault in faults)) + _shortfall_of_nodes(
            policy, nodes
        )
    return Shortfall(tuple(faults)) + _shortfall_of_nodes(policy, nodes)


def _nodes_to_come(policy: Policy) -> Iterator[CheckedNode]:
    for pool in policy.node_pools.values():
        gpus = {policy.gpu.resource} if pool.node.gpus else set()
        yield CheckedNode(pool.all_labels, frozenset(gpus), is_present=False)


def _faults_of_labels(policy: Policy, nodes: Sequence[CheckedNode]) -> Iterator[Fault]:
    selectors: list[tuple[tuple[str | int, ...], Mapping[str, str]]] = [
        (("inject", "nodeSelector"), policy.inject.node_selector),
        *((("binding", "directlyOn", i), labels) for i, labels in enumerate(policy.binding.directly_on)),
    ]
    if policy.preflight.image is not None:
        selectors.append((("preflight", "nodes"), policy.preflight.nodes))
    for where, labels in selectors:
        unknown = [
            (key, value) for key, value in labels.items() if not any(_has_label(node, key, value) for node in nodes)
        ]
        for key, value in unknown:
            yield _no_node(path_of("", (*where, key)), f"label {key}={value}", value, _hint_for_label(nodes, key))
        together = any(all(_has_label(node, *label) for label in labels.items()) for node in nodes)
        if not unknown and not together:
            yield _no_node(path_of("", where), "all of these labels at once", "", "leave out one of them")


def _has_label(node: CheckedNode, key: str, value: str) -> bool:
    return node.labels.get(key) == value


def _no_node(field: str, missing: str, value: str, hint: str) -> Fault:
    return Fault(field, f"no node has {missing}", value, hint, MISSING)


def _hint_for_label(nodes: Iterable[CheckedNode], key: str) -> str:
    """Return a hint for a label that no node has: the label's values, or the most similar label."""
    nodes = list(nodes)
    values = sorted({node.labels[key] for node in nodes if key in node.labels})
    if values:
        return f"nodes have {key} with {first_few(values, _LABELS_SHOWN)}"
    near = nearest(key, {label for node in nodes for label in node.labels})
    return f"did you mean {near}?" if near else "label the nodes (kubectl label node), or correct the policy"


def _faults_of_resources(policy: Policy, nodes: Sequence[CheckedNode]) -> Iterator[Fault]:
    asked = [(("inject", "resources", name), name) for name in policy.inject.resources]
    asked += [(("gpu", "resources", name), name) for name in policy.gpu.resources]
    found = {name for node in nodes for name in node.resources}
    can_tell = any(node.is_present for node in nodes)  # nodes to come have more resources than a pool lists
    for where, name in asked:
        if can_tell and name not in found:
            hint = "correct the name, or install the device plugin that offers it"
            yield _no_node(path_of("", where), f"the resource {name}", name, hint)
    if "resource" in policy.gpu.model_fields_set and policy.gpu.resource not in found:
        hint = "correct the name, or install the device plugin that offers it"
        yield _no_node("gpu.resource", f"the resource {policy.gpu.resource}", policy.gpu.resource, hint)


def _gpu_types(policy: Policy, nodes: Sequence[CheckedNode]) -> Iterator[Fault]:
    with_gpus = [node for node in nodes if policy.gpu.resource in node.resources]
    if "type_labels" in policy.gpu.model_fields_set:
        for index, key in enumerate(policy.gpu.type_labels):
            if not any(node.labels.get(key) for node in with_gpus):
                hint = _hint_for_label(with_gpus, key)
                yield _no_node(path_of("gpu", ("typeLabels", index)), f"GPUs and the label {key}", key, hint)
    types = sorted({name for node in nodes for name in node.types(policy)} - {""})
    for index, guarantee in enumerate(policy.guarantees):
        if guarantee.gpu_type is not None and guarantee.gpu_type not in types:
            hint = f"the cluster has {first_few(types, _LABELS_SHOWN)}" if types else "no node has GPUs of a known type"
            field = path_of("guarantees", (index, "gpuType"))
            yield _no_node(field, f"GPUs of type {guarantee.gpu_type}", guarantee.gpu_type, hint)


def _faults_of_topology(policy: Policy, nodes: Sequence[CheckedNode]) -> Iterator[Fault]:
    if "topology" in policy.model_fields_set:
        for index, key in enumerate(policy.topology):
            if not any(key in node.labels for node in nodes):
                yield _no_node(path_of("topology", (index,)), f"the label {key}", key, _hint_for_label(nodes, key))


def _volumes_of_tests(policy: Policy) -> Iterator[Fault]:
    for index, use in enumerate(policy.preflight.volumes):
        if use.name is not None and use.name not in policy.volumes:
            near = nearest(use.name, policy.volumes)
            hint = f"did you mean {near}?" if near else "add it to volumes"
            field = path_of("preflight", ("volumes", index, "name"))
            yield Fault(field, f"the policy has no volume {use.name}", use.name, hint, MISSING)


def _pool_labels(policy: Policy, present: Sequence[CheckedNode]) -> Iterator[Fault]:
    """Yield the labels that a pool promises and none of its existing nodes has."""
    for name, pool in policy.node_pools.items():
        members = [node for node in present if pool.has(dict(node.labels))]
        for key, value in pool.labels.items() if members else ():
            if not any(_has_label(node, key, value) for node in members):
                field = path_of("nodePools", (name, "labels", key))
                yield _no_node(
                    field, f"label {key}={value} among the pool's nodes", value, _hint_for_label(members, key)
                )


def _shortfall_of_nodes(policy: Policy, nodes: Sequence[CheckedNode]) -> Shortfall:
    """Note GPU types and pools that no node belongs to. They may be meant for nodes that are still to come."""
    present = {name for node in nodes for name in node.types(policy)}
    notes = []
    if "types" in policy.gpu.model_fields_set:
        unused = [name for name in policy.gpu.types if name not in present]
        notes += [f"gpu.types: no node has GPUs of type {first_few(unused, _LABELS_SHOWN)}"] if unused else []
    for name, pool in policy.node_pools.items():
        if not any(node.is_present and pool.has(dict(node.labels)) for node in nodes):
            notes.append(f"{path_of('nodePools', (name,))}: no node has its labels (nodeSelector) now")
    return Shortfall(notes=tuple(notes))
