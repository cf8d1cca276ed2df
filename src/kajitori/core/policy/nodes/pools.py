"""Policy for node pools that an autoscaler can grow: the policy file's section `nodePools`, as types."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import (
    Cpu,
    DnsLabel,
    Duration,
    DurationAboveZero,
    LabelKey,
    LabelValue,
    Memory,
    ObjectName,
)
from kajitori.core.kubernetes.taints import Taint
from kajitori.core.placement.snapshot import NodeFacts
from kajitori.errors import FieldError

ATOMIC_CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
"""Provisioning class of the Kubernetes cluster autoscaler that adds nodes. It subtracts the capacity that is free, and
adds all missing nodes or none."""
CHECK_CLASS = "check-capacity.autoscaling.x-k8s.io"
"""Provisioning class of the same autoscaler that only checks for free capacity."""
VALID_UNTIL = "ValidUntilSeconds"

PodsOfNode = Annotated[int, Field(ge=1, le=100_000)]
MOST_NODES = 15_000


class PoolTaint(Document):
    """A permanent taint of the nodes of a pool."""

    key: LabelKey
    """Key of the taint."""
    value: LabelValue = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """Effect on Pods that do not tolerate the taint."""


class PoolNode(Document):
    """Resources that one node of a pool has for runs: its allocatable resources, less the requests of the Pods that run
    on every node (DaemonSets)."""

    cpu_millis: Cpu = Field(alias="cpu")
    """Cores."""
    memory_bytes: Memory = Field(alias="memory")
    """Memory."""
    gpus: int = Field(default=0, alias="gpu", ge=0, le=1024)
    """Number of GPUs."""
    pods: PodsOfNode = 110
    """Number of Pods."""


class NodePool(Document):
    """A pool of nodes that an autoscaler can grow. If there is no room for a gang, Kajitori requests all of its nodes
    at once with a ProvisioningRequest (autoscaling.x-k8s.io), and withdraws it when it is no longer needed. If several
    pools are suitable, the first one is tried first, and the next one after a failure."""

    node_selector: dict[LabelKey, LabelValue] = Field(min_length=1)
    """Labels that identify the nodes of this pool. ProvisioningRequests select nodes with these labels."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Other labels that the nodes have, for example the type of their GPUs. A run that needs a label that is neither
    here nor in nodeSelector does not request nodes of this pool."""
    taints: list[PoolTaint] = Field(default_factory=list, max_length=64)
    """Permanent taints of the nodes. A run that does not tolerate them does not request nodes of this pool. Leave out
    taints that are removed once a node is ready: a run waits until they are gone."""
    node: PoolNode
    """Resources of one node."""
    max_nodes: int = Field(ge=1, le=MOST_NODES)
    """Kajitori requests no more nodes once the pool has this many, counting existing and requested nodes."""
    provisioning_class: ObjectName = ATOMIC_CLASS
    """provisioningClassName of the ProvisioningRequests. Any other class than the default is assumed to add nodes for
    every member of a gang, even if some existing nodes are free."""
    parameters: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(max_length=255)]] = Field(
        default_factory=dict, max_length=100
    )
    """Parameters of the ProvisioningRequests, as the class defines them. For the default class, ValidUntilSeconds is
    set to the deadline unless it is given here."""
    ask_after_seconds: Duration = Field(default=60, alias="askAfter")
    """How long a run waits before it requests nodes, since nodes may become free. It requests none if it is expected to
    start within this time anyway."""
    deadline_seconds: DurationAboveZero = Field(default=900, alias="deadline")
    """A request fails, and is withdrawn, if its nodes are not provisioned after this time. Once the autoscaler reports
    them as provisioned, the nodes have the same time again to become ready."""
    pause_seconds: DurationAboveZero = Field(default=60, alias="pause")
    """Pause before the next request after a failed one; doubled after each further failure in a row."""
    longest_pause_seconds: DurationAboveZero = Field(default=1800, alias="longestPause")
    """Upper limit of this pause."""

    @model_validator(mode="after")
    def _check_fields_together(self) -> NodePool:
        twice = sorted(self.labels.keys() & self.node_selector.keys())
        if twice:
            raise FieldError(f"{twice[0]} is in both labels and nodeSelector", "leave it out of labels")
        if self.provisioning_class == CHECK_CLASS:
            message = f"provisioningClass {CHECK_CLASS} only checks for free capacity; it adds no nodes"
            hint = f"leave it out ({ATOMIC_CLASS}), or name a class of your provider that adds nodes"
            raise FieldError(message, hint)
        if self.longest_pause_seconds < self.pause_seconds:
            raise FieldError("longestPause is shorter than pause", "raise longestPause or lower pause")
        until = self.parameters.get(VALID_UNTIL)
        if until is not None and not (until.isdecimal() and int(until)):
            message = f"parameters.{VALID_UNTIL} {until!r:.80} is not a number of seconds"
            raise FieldError(message, 'write a number in quotes, for example "900"')
        return self

    @property
    def all_labels(self) -> dict[str, str]:
        """Labels that every node of the pool has."""
        return {**self.labels, **self.node_selector}

    @property
    def adds_only_missing(self) -> bool:
        """Whether a request for a gang adds only the nodes that are missing, given what is free already."""
        return self.provisioning_class == ATOMIC_CLASS

    @property
    def all_parameters(self) -> dict[str, str]:
        """Parameters of a ProvisioningRequest for this pool."""
        added = {VALID_UNTIL: str(self.deadline_seconds)} if self.adds_only_missing else {}
        return added | self.parameters

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels belongs to the pool."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())

    def new_node(self, name: str, gpu_type: str, topology: Iterable[str]) -> NodeFacts:
        """Return a node as the autoscaler would add it. `topology` has the label keys of its topology domains."""
        labels = self.all_labels
        return NodeFacts(
            name=name,
            cpu_millis=self.node.cpu_millis,
            memory_bytes=self.node.memory_bytes,
            gpus=self.node.gpus,
            pods=self.node.pods,
            gpu_type=gpu_type,
            labels=labels,
            taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in self.taints),
            domains=tuple(labels.get(label, "") for label in topology),
        )


def _told_apart(pools: dict[str, NodePool]) -> dict[str, NodePool]:
    for (name, pool), (other, another) in itertools.combinations(pools.items(), 2):
        if all(pool.node_selector.get(key, value) == value for key, value in another.node_selector.items()):
            message = f"a node could belong to both {name} and {other}: their nodeSelectors do not exclude each other"
            raise FieldError(message, "give one label a different value in each, for example the name of the pool")
    return pools


NodePools = Annotated[dict[DnsLabel, NodePool], AfterValidator(_told_apart)]
"""Node pools by name. A run requests nodes of the first suitable one."""
