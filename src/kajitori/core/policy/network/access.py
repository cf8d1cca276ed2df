"""Policy for the network access of runs: the policy file's section `network`, as types."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DnsLabel, LabelKey, LabelValue
from kajitori.core.policy.network.traffic import ClassName
from kajitori.core.spec.network_access import NetworkAccess


class Resolvers(Document):
    """The Pods of the cluster's DNS resolvers."""

    namespace: DnsLabel = "kube-system"
    """Their namespace."""
    labels: Annotated[dict[LabelKey, LabelValue], Field(min_length=1)] = Field(
        default_factory=lambda: {"k8s-app": "kube-dns"}
    )
    """Their labels."""


class Networking(Document):
    """Settings that apply to every run with restricted network access, whether by the run's `network`,
    `defaults.network` or `ceilings.run.network`. Kajitori creates a NetworkPolicy for each restricted run."""

    pods: ClassName | None = None
    """The address class that contains the Pods of this cluster. A run that may connect to this class may connect to
    every Pod, for which a NetworkPolicy needs a rule of its own. Left out: the class `cluster`, or else `internal`."""
    always: NetworkAccess = NetworkAccess()
    """Addresses that every run may be reached from, for example the ones that scrape metrics, and addresses that every
    run may connect to, for example a package mirror. DNS resolvers and the server of the first step are always allowed;
    list the latter only if `start.server` is a name outside of the cluster."""
    dns: Resolvers = Resolvers()
    enforced: bool = True
    """Whether this cluster's network plugin enforces NetworkPolicies. If not, every restricted run gets a finding that
    says so. `kaji up` knows that its own cluster has no such plugin."""
    isolates_alone: bool = False
    """Whether nodes by themselves isolate the members of runs with one member, and of sweeps, that ask for no network
    access at all (`--network none`), although no plugin enforces NetworkPolicies. `kaji up` knows that it does with a
    container engine, and with `--pod-network namespace`."""
