"""Pools of nodes that can grow: the policy file's section `nodePools`, as types, and what follows from it alone."""

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
from kajitori.core.placement.snapshot import NodeFacts
from kajitori.core.words.taints import Taint
from kajitori.errors import FieldError

ATOMIC_CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
"""The class of the Kubernetes project's own autoscaler that adds nodes. It counts on what is free already and adds the
rest, all of it or nothing."""
CHECK_CLASS = "check-capacity.autoscaling.x-k8s.io"
VALID_UNTIL = "ValidUntilSeconds"

PodsOfNode = Annotated[int, Field(ge=1, le=100_000)]
MOST_NODES = 15_000


class PoolTaint(Document):
    """A taint that every node of a pool keeps."""

    key: LabelKey
    """Its key."""
    value: LabelValue = ""
    """Its value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """What it does to Pods that do not tolerate it."""


class PoolNode(Document):
    """What one node of a pool has for runs: what Kubernetes calls allocatable, less what the Pods take that are on
    every node."""

    cpu_millis: Cpu = Field(alias="cpu")
    """Cores."""
    memory_bytes: Memory = Field(alias="memory")
    """Memory."""
    gpus: int = Field(default=0, alias="gpu", ge=0, le=1024)
    """GPUs."""
    pods: PodsOfNode = 110
    """Pods."""


class NodePool(Document):
    """A pool of nodes that an autoscaler can make larger. A gang that finds no room asks for its nodes there as a
    whole, with a ProvisioningRequest (autoscaling.x-k8s.io), and takes it back when it no longer needs them. Where
    there are several pools, the first that suits is asked first; after a failure the next."""

    node_selector: dict[LabelKey, LabelValue] = Field(min_length=1)
    """Labels that tell this pool's nodes from all others. Requests ask for nodes with them."""
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Further labels that its nodes have: the type of their GPUs, say. A run that needs other labels than these and
    nodeSelector's does not ask for nodes here."""
    taints: list[PoolTaint] = Field(default_factory=list, max_length=64)
    """Taints that its nodes keep; a run that does not tolerate them asks for none. Taints that are taken away once a
    node is ready do not belong here: such a node is waited for."""
    node: PoolNode
    """What one node of it has."""
    max_nodes: int = Field(ge=1, le=MOST_NODES)
    """The pool never has more nodes than this by our doing, those counted that it has already and those that were
    asked for."""
    provisioning_class: ObjectName = ATOMIC_CLASS
    """The ProvisioningRequest's provisioningClassName: who provides, and how. Another class than the default is taken
    to add nodes for every member of a gang, whatever is free elsewhere."""
    parameters: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(max_length=255)]] = Field(
        default_factory=dict, max_length=100
    )
    """The ProvisioningRequest's parameters, as its class wants them. The default class is told the deadline as
    ValidUntilSeconds, unless that is named here."""
    ask_after_seconds: Duration = Field(default=60, alias="askAfter")
    """A run waits for so long before it asks: nodes may become free by then. Nothing is asked for if the run is
    expected to start within this time anyway."""
    deadline_seconds: DurationAboveZero = Field(default=900, alias="deadline")
    """A request whose nodes are not there after this time has failed, and is taken back; the same time again is given
    to nodes to become ready once the autoscaler says that they are provided."""
    pause_seconds: DurationAboveZero = Field(default=60, alias="pause")
    """Until the next request after one that failed; doubled with each further failure in a row."""
    longest_pause_seconds: DurationAboveZero = Field(default=1800, alias="longestPause")
    """The pause does not grow beyond this."""

    @model_validator(mode="after")
    def _makes_sense(self) -> NodePool:
        twice = sorted(self.labels.keys() & self.node_selector.keys())
        if twice:
            raise FieldError(f"{twice[0]} stands in labels and in nodeSelector", "leave it out of labels")
        if self.provisioning_class == CHECK_CLASS:
            message = f"provisioningClass {CHECK_CLASS} only asks whether there is room; it adds no nodes"
            raise FieldError(message, f"leave it out ({ATOMIC_CLASS}), or name your provider's class that adds nodes")
        if self.longest_pause_seconds < self.pause_seconds:
            raise FieldError("longestPause is shorter than pause", "raise longestPause or lower pause")
        until = self.parameters.get(VALID_UNTIL)
        if until is not None and not (until.isdecimal() and int(until)):
            raise FieldError(f"parameters.{VALID_UNTIL} {until!r:.80} is not a number of seconds", 'such as "900"')
        return self

    @property
    def all_labels(self) -> dict[str, str]:
        """What each of its nodes has."""
        return {**self.labels, **self.node_selector}

    @property
    def counts_what_is_free(self) -> bool:
        """Whether a request for a gang adds only what is missing."""
        return self.provisioning_class == ATOMIC_CLASS

    @property
    def all_parameters(self) -> dict[str, str]:
        """What a request says."""
        told = {VALID_UNTIL: str(self.deadline_seconds)} if self.counts_what_is_free else {}
        return told | self.parameters

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is one of its own."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())

    def new_node(self, name: str, gpu_type: str, topology: Iterable[str]) -> NodeFacts:
        """A node as it would come; gpu_type is what its labels tell, topology the labels of its domains."""
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
            message = f"a node could belong to {name} and to {other}: nothing in their nodeSelectors excludes that"
            raise FieldError(message, "give one label a different value in each, such as the name of the pool")
    return pools


NodePools = Annotated[dict[DnsLabel, NodePool], AfterValidator(_told_apart)]
"""By name; the first that suits is asked first."""
