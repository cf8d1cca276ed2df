"""Decides which node a Pod fits on: kube-scheduler's filters and scores, as functions of the state.

Not supported, and refused by name: required affinity between Pods, mandatory topology spread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kajitori.core.formats.quantities import QuantityError, parse_cpu_millis, parse_memory_bytes
from kajitori.core.kubernetes.pod_amounts import Amounts, pod_amounts
from kajitori.core.kubernetes.selectors import holds
from kajitori.core.kubernetes.taints import Taint, Toleration
from kajitori.embedded.objects import Container, Node, NodeSelectorTerm, Pod, PodSpec, Requirement, is_true

NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
HARD_EFFECTS = ("NoSchedule", "NoExecute")
LABEL_SIMULATED = "sim.kajitori.dev/pool"
"""The label that every simulated node has; containers on these nodes run nothing."""

ENOUGH_CANDIDATES = 100
"""Number of feasible nodes at which the search ends, as in kube-scheduler (`minFeasibleNodesToFind`)."""

HostPort = tuple[str, str, int]
"""Protocol, address of the host, port."""
Expression = tuple[str, str, tuple[str, ...]]
"""Key, operator, values."""


@dataclass(frozen=True, slots=True)
class Term:
    expressions: tuple[Expression, ...]
    fields: tuple[Expression, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        if not self.expressions and not self.fields:
            return False
        return all(holds(*e, labels) for e in self.expressions) and all(
            holds(*f, {"metadata.name": name}) for f in self.fields
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """The resources and conditions that a Pod requires of a node. Hashable: Pods with equal demands get equal answers.

    `amounts` are in millicores for `cpu`, bytes for `memory`, counts for other resources.
    """

    amounts: tuple[tuple[str, int], ...] = ()
    ports: frozenset[HostPort] = frozenset()
    selector: tuple[tuple[str, str], ...] = ()
    required: tuple[Term, ...] | None = None
    preferred: tuple[tuple[int, Term], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[tuple[Term, ...], ...] = ()
    """Node affinity of each volume that the Pod's claims are bound to."""
    unsupported: str = ""
    """Requirements of the Pod that this scheduler does not support; empty if it supports all."""

    @property
    def prefers_real_nodes(self) -> bool:
        """Whether a node that runs containers is better than a simulated one: the Pod asks for no device such as a GPU,
        and states no preference of its own."""
        return not self.preferred and not any("/" in resource for resource, _ in self.amounts)

    @property
    def pinned_to(self) -> frozenset[str] | None:
        """The only node names that can fit, if required affinity on `metadata.name` limits them; else None."""
        if self.required is None:
            return None
        names: set[str] = set()
        for term in self.required:
            allowed = [set(values) for key, op, values in term.fields if key == "metadata.name" and op == "In"]
            if not allowed:
                return None
            names |= set.intersection(*allowed)
        return frozenset(names)


@dataclass(slots=True)
class NodeState:
    """A node, and the resources that the Pods on it use."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Amounts
    max_pods: int
    simulated: bool = False
    used: Amounts = field(default_factory=dict)
    pods: int = 0
    ports: Counter[HostPort] = field(default_factory=Counter)

    @classmethod
    def of(cls, node: Node) -> NodeState:
        """Return the state of an empty node. A node that is not ready counts as tainted, even before the taint is
        written."""
        taints = [Taint(t.key, t.value, t.effect) for t in node.spec.taints or ()]
        if not is_true(node.status.conditions, "Ready") and not any(t.key == NOT_READY.key for t in taints):
            taints.append(NOT_READY)
        allocatable = allocatable_of(node)
        return cls(
            name=node.metadata.name,
            labels=node.metadata.labels or {},
            taints=tuple(taints),
            unschedulable=node.spec.unschedulable,
            allocatable=allocatable,
            max_pods=allocatable.pop("pods", 0),
            simulated=LABEL_SIMULATED in (node.metadata.labels or {}),
        )

    def take(self, demand: Demand) -> None:
        """Count a Pod as placed here."""
        self.pods += 1
        self.ports.update(demand.ports)
        for resource, quantity in demand.amounts:
            self.used[resource] = self.used.get(resource, 0) + quantity

    def release(self, demand: Demand) -> None:
        """Undo `take`."""
        self.pods -= 1
        self.ports -= Counter(demand.ports)
        for resource, quantity in demand.amounts:
            self.used[resource] = self.used.get(resource, 0) - quantity


@dataclass(frozen=True, slots=True)
class Choice:
    """A node, or why there is none in kube-scheduler's words."""

    node: str = ""
    message: str = ""


def amount(resource: str, quantity: str | int | float) -> int:
    """Return a quantity as an integer: millicores for `cpu`, bytes or a count otherwise. Raises QuantityError."""
    return parse_cpu_millis(quantity) if resource == "cpu" else parse_memory_bytes(quantity)


def allocatable_of(node: Node) -> Amounts:
    """Return the node's resources for Pods, `pods` included; an unreadable quantity counts as nothing."""
    amounts = {}
    for resource, quantity in (node.status.allocatable or node.status.capacity or {}).items():
        try:
            amounts[resource] = amount(resource, quantity)
        except QuantityError:
            continue
    return amounts


def requests(spec: PodSpec) -> Amounts:
    """Return the resources that the scheduler counts for a Pod. Raises QuantityError."""
    return pod_amounts(
        map(_container_requests, spec.containers),
        ((_container_requests(one), one.restart_policy == "Always") for one in spec.init_containers or ()),
        _amounts_of((spec.resources.requests if spec.resources is not None else None) or {}),
        _amounts_of(spec.overhead or {}),
    )


def demand_of(pod: Pod, volumes: Iterable[tuple[Term, ...]] = (), by_devices: Collection[str] = ()) -> Demand:
    """Return the Pod's demand. `volumes` has the node affinity of each of its volumes, and `by_devices` the extended
    resources that devices stand for."""
    given = (pod.status.extended_resource_claim_status or {}).get("requestMappings") or ()
    by_devices = {*by_devices, *(mapping["resourceName"] for mapping in given)}
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    unsupported = _unsupported_fields(spec)
    try:
        amounts = requests(spec)
    except QuantityError as fault:
        amounts, unsupported = {}, f"a request can't be read: {fault.message}"
    return Demand(
        amounts=tuple((k, v) for k, v in sorted(amounts.items()) if v > 0 and k not in by_devices),
        ports=_host_ports(spec),
        selector=tuple(sorted((spec.node_selector or {}).items())),
        required=None if required is None else tuple(term(t) for t in required.node_selector_terms),
        preferred=tuple((p.weight, term(p.preference)) for p in (affinity.preferred if affinity else ())),
        tolerations=tuple(Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in spec.tolerations or ()),
        volumes=tuple(volumes),
        unsupported=unsupported,
    )


def term(written: NodeSelectorTerm) -> Term:
    """Return a node selector term in a hashable form."""
    return Term(
        tuple(_expression_of(e) for e in written.match_expressions),
        tuple(_expression_of(f) for f in written.match_fields),
    )


def choose_node(demand: Demand, nodes: Mapping[str, NodeState], order: Sequence[str] = (), offset: int = 0) -> Choice:
    """Return the node for a Pod: the best score among those that pass every filter.

    The search begins at `offset` in `order`. On a large cluster it ends after ENOUGH_CANDIDATES feasible nodes, so it
    has to begin elsewhere each time. For a Pod that names its nodes, only these are searched.
    """
    if demand.unsupported:
        return Choice(message=f"0/{len(nodes)} nodes are available: {demand.unsupported}.")
    if not nodes:
        return Choice(message="no nodes available to schedule pods")
    reasons: Counter[str] = Counter()
    feasible: list[NodeState] = []
    pinned = demand.pinned_to
    if pinned is not None:
        names: Sequence[str] = [name for name in sorted(pinned) if name in nodes]
        if elsewhere := len(nodes) - len(names):
            reasons["node(s) didn't match Pod's node affinity/selector"] = elsewhere
        offset = 0
    else:
        names = order or list(nodes)
    for i in range(len(names)):
        node = nodes[names[(i + offset) % len(names)]]
        faults = misfits(demand, node)
        reasons.update(faults)
        if not faults:
            feasible.append(node)
            if len(feasible) >= ENOUGH_CANDIDATES:
                break
    if not feasible:
        counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return Choice(message=f"0/{len(nodes)} nodes are available: {counted}.")
    if len(feasible) == 1:
        return Choice(feasible[0].name)
    return Choice(min(feasible, key=lambda node: (_score_of(demand, node), node.name)).name)


def misfits(demand: Demand, node: NodeState) -> list[str]:
    """Return why the Pod does not fit on the node; empty if it fits.

    As in kube-scheduler, only the first failing filter is named, except that every missing resource is named.
    """
    if node.unschedulable and not _is_tolerated(UNSCHEDULABLE, demand.tolerations):
        return ["node(s) were unschedulable"]
    for taint in node.taints:
        if (
            taint.effect in HARD_EFFECTS
            and taint.key != UNSCHEDULABLE.key
            and not _is_tolerated(taint, demand.tolerations)
        ):
            return [f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"]
    if not matches_node(demand, node.name, node.labels):
        return ["node(s) didn't match Pod's node affinity/selector"]
    for terms in demand.volumes:
        if not any(t.matches(node.name, node.labels) for t in terms):
            return ["node(s) didn't match PersistentVolume's node affinity"]
    if any(_ports_collide(wanted, taken) for wanted in demand.ports for taken in node.ports):
        return ["node(s) didn't have free ports for the requested pod ports"]
    faults = ["Too many pods"] if node.pods + 1 > node.max_pods else []
    for resource, quantity in demand.amounts:
        if quantity > node.allocatable.get(resource, 0) - node.used.get(resource, 0):
            faults.append(f"Insufficient {resource}")
    return faults


def matches_node(demand: Demand, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether node selector and required node affinity hold."""
    if any(labels.get(key) != value for key, value in demand.selector):
        return False
    return demand.required is None or any(t.matches(name, labels) for t in demand.required)


def _score_of(demand: Demand, node: NodeState) -> tuple[int, int, float]:
    """Return the node's score, smaller is better: soft taints, preferred affinity, then the share of resources
    in use."""
    soft = sum(t.effect == "PreferNoSchedule" and not _is_tolerated(t, demand.tolerations) for t in node.taints)
    preferred = sum(weight for weight, wanted in demand.preferred if wanted.matches(node.name, node.labels))
    shares = [
        node.used.get(resource, 0) / node.allocatable[resource]
        for resource in ("cpu", "memory")
        if node.allocatable.get(resource)
    ]
    return soft, -preferred, sum(shares)


def _is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(t.tolerates(taint) for t in tolerations)


def _ports_collide(wanted: HostPort, taken: HostPort) -> bool:
    if wanted[0] != taken[0] or wanted[2] != taken[2]:
        return False
    return wanted[1] == taken[1] or "0.0.0.0" in (wanted[1], taken[1])


def _host_ports(spec: PodSpec) -> frozenset[HostPort]:
    ports = set()
    for container in (*spec.containers, *(c for c in spec.init_containers or () if c.restart_policy == "Always")):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                ports.add((port.protocol or "TCP", port.host_ip or "0.0.0.0", number))
    return frozenset(ports)


def _unsupported_fields(spec: PodSpec) -> str:
    asked = []
    if spec.affinity and spec.affinity.pod_affinity and spec.affinity.pod_affinity.required:
        asked.append("required pod affinity (spec.affinity.podAffinity)")
    if spec.affinity and spec.affinity.pod_anti_affinity and spec.affinity.pod_anti_affinity.required:
        asked.append("required pod anti-affinity (spec.affinity.podAntiAffinity)")
    if any(c.when_unsatisfiable != "ScheduleAnyway" for c in spec.topology_spread_constraints or ()):
        asked.append("mandatory topology spread (spec.topologySpreadConstraints)")
    return f"the embedded cluster's binder does not support {', '.join(asked)}" if asked else ""


def _container_requests(container: Container) -> Amounts:
    """Return a container's requests. A limit without a request counts as the request, as in the API server's
    defaulting."""
    if container.resources is None:
        return {}
    return _amounts_of({**(container.resources.limits or {}), **(container.resources.requests or {})})


def _amounts_of(quantities: Mapping[str, str | int | float]) -> Amounts:
    return {resource: amount(resource, quantity) for resource, quantity in quantities.items()}


def _expression_of(requirement: Requirement) -> Expression:
    return requirement.key, requirement.operator, tuple(requirement.values)
