"""Answers about policy and the address registry."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kajitori.api.views.base import View
from kajitori.core.spec.status import Finding
from kajitori.errors import Fault


class RuleView(View):
    """A rule of the policy, as a sentence."""

    field: str
    """The field of the policy file that says so."""
    text: str


class RuleGroupView(View):
    """Rules about one subject."""

    title: str
    rules: list[RuleView]


class PolicyView(View):
    """The policy in force. With faults, the newest file was rejected and the policy before it stays in force."""

    path: str
    """Path of the file that was read, or that has the faults; empty without a file."""
    version: int
    policy: dict[str, Any]
    rules: list[RuleGroupView]
    """The rules of the policy for users, in sentences. Some fields for operators are in `policy` alone."""
    faults: list[Fault]
    findings: list[str]
    """Possible mistakes, such as guarantees that exceed what the cluster has now."""


class PolicyCheck(View):
    """A policy without faults, with its defaults."""

    policy: dict[str, Any]


class ClusterCheck(View):
    """Objects that a policy names and the cluster lacks."""

    namespace: str
    """Namespace in which objects of a run's namespace were looked for."""
    faults: list[Fault]
    """One for each field that names something that the cluster lacks."""
    notes: list[str]
    """Checks that were not possible, and differences that may be intended."""


class BrokenRule(View):
    """A rule for everybody's Pods, and the Pods of one owner that break it."""

    namespace: str
    owner: str
    """The object that made the Pods, for example "Deployment web"."""
    rule: str
    """Name of the rule in the policy's `pods.rules`."""
    message: str
    pods: int
    """Number of such Pods."""
    examples: list[str]
    """Names of some of them."""


class PodAudit(View):
    """Pods that exist although the policy's rules for Pods would refuse them now."""

    namespaces: list[str]
    """Namespaces where the rules apply."""
    rules: list[str]
    """The rules that demand something."""
    pods: int
    """Number of Pods that were looked at."""
    broken_pods: int
    """Number of Pods that break a rule."""
    items: list[BrokenRule]


class ChangedField(View):
    """A field that a new policy changes, as text; empty where a policy has no such field."""

    field: str
    before: str
    after: str


class RefusedRun(View):
    """A waiting run that a new policy would refuse."""

    run: str
    """`namespace/name`."""
    owner: str
    faults: list[Fault]
    """Empty if the caller may not read the run."""


class MovedRun(View):
    """A waiting run whose place in the queue a new policy changes. Places begin with 1."""

    run: str
    owner: str
    before: int
    after: int


class PolicyDiff(View):
    """The effects of a new policy."""

    fields: list[ChangedField]
    refused: list[RefusedRun]
    """Waiting runs that only the new policy refuses."""
    moved: list[MovedRun]
    """Waiting runs with another place in the queue, by their new place."""
    waiting: int
    """Number of waiting runs that were compared."""
    lacks: list[Fault]
    """Objects that only the new policy names and that the cluster lacks."""
    pods: list[BrokenRule]
    """Rules for everybody's Pods that existing Pods break under the new policy only."""
    notes: list[str]
    """Comparisons that were not possible."""


class NetworkRange(View, omit_defaults=True):
    """A range of addresses, its owner, and how it is reached from outside of its cluster."""

    cidr: str
    kind: Literal["researchers", "nodes", "pods", "services"]
    cluster: str = ""
    """Empty for researchers."""
    public: str = ""
    """The range that represents it outside; empty if its own addresses are used there, or if it cannot be reached."""
    via: list[str] = msgspec.field(default_factory=list)
    """Next hops from the hub; empty if the surrounding network routes by itself."""
    nat_host: str = ""


class NetworksView(View):
    """The address registry in force. With faults, the newest file was rejected and the registry before it stays in
    force."""

    path: str
    """Path of the file that was read, or that has the faults; empty without a file."""
    version: int
    networks: dict[str, Any]
    """The content of the file, with defaults."""
    ranges: list[NetworkRange]
    faults: list[Fault]
    findings: list[Finding]
    """Warnings about entries that are probably not intended."""


class NodeNetwork(View):
    """Addresses for Pods on one node."""

    name: str
    pod_cidrs: list[str]
    """The node's own ranges; empty if addresses are assigned one by one."""
    addresses: int | None
    """Number of addresses for Pods; null if the node has no range of its own."""
    most_pods: int
    """Largest number of Pods that its kubelet accepts."""
    pods: int
    """Number of its Pods with an address of their own."""
    runs_out: str
    """Why its addresses do not suffice; empty if they do."""


class NetworkUse(View):
    """The use of addresses for Pods on each node."""

    items: list[NodeNetwork]


class NetworksCheck(View):
    """A registry without faults, with its defaults."""

    networks: dict[str, Any]
    findings: list[Finding]


class QuotaView(View):
    """One resource of a ResourceQuota."""

    quota: str
    """Name of the ResourceQuota."""
    resource: str
    """As the quota names it, such as `requests.nvidia.com/gpu`."""
    used: str
    limit: str
    left: str
    part: float
    """How much of it is in use, from 0 to 1."""
    limited_to: str
    """The scopes of the quota, which then counts only some Pods; empty if it counts all."""


class QuotaList(View):
    """The quotas of a namespace."""

    namespace: str
    items: list[QuotaView]
    note: str
    """Why the list is not known; empty if it is."""
