"""Resources that Pods use on nodes, as integers, updated one Pod at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kajitori.cluster.objects import Container, Pod, PodSpec
from kajitori.core.formats.quantities import QuantityError, parse_cpu_millis, parse_memory_bytes
from kajitori.core.kubernetes.pod_amounts import Amounts, pod_amounts
from kajitori.core.naming import names

LARGEST = 2**50
"""More than any node has, and small enough that the sum over a node's Pods is a 64-bit number."""


@dataclass(frozen=True, slots=True)
class PodUsage:
    """The resources that the scheduler reserves for one Pod."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    others: tuple[tuple[str, int], ...] = ()

    def other(self, resource: str) -> int:
        """Return the amount of an extended resource, such as GPUs."""
        for name, amount in self.others:
            if name == resource:
                return amount
        return 0


@dataclass(slots=True)
class NodeUsage:
    """The usage of all unfinished Pods on a node."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    pods: int = 0
    members: int = 0
    """Number of Pods among them that are members of Kajitori's runs."""
    lone_members: int = 0
    """Number of members that tolerate no other run on their node: members with a whole node or without a memory
    limit."""
    others: Amounts = field(default_factory=dict)

    def other(self, resource: str) -> int:
        """Return the used amount of an extended resource, such as GPUs."""
        return self.others.get(resource, 0)

    def add(self, usage: PodUsage, *, is_member: bool, is_alone: bool, times: int = 1) -> None:
        """Add a Pod, or remove it with `times=-1`."""
        self.cpu_millis += times * usage.cpu_millis
        self.memory_bytes += times * usage.memory_bytes
        self.pods += times
        self.members += times * is_member
        self.lone_members += times * is_alone
        for name, amount in usage.others:
            left = self.others.get(name, 0) + times * amount
            if left:
                self.others[name] = left
            else:
                del self.others[name]


def pod_usage(spec: PodSpec) -> PodUsage:
    """Return what the scheduler reserves for a Pod. The API server has written a request wherever there is a limit."""
    return _usage_of(
        tuple(_requests_of(container) for container in spec.containers),
        tuple((_requests_of(container), container.restart_policy == "Always") for container in spec.init_containers),
        _as_pairs(spec.resources.requests) if spec.resources is not None else (),
        _as_pairs(spec.overhead),
    )


def memory_limit(spec: PodSpec) -> str:
    """Return the memory limit of a member's program, as written; empty if only its node limits it."""
    main = next((container for container in spec.containers if container.name == names.MEMBER_CONTAINER), None)
    own = main.resources.limits.get("memory", "") if main is not None else ""
    return own or (spec.resources.limits.get("memory", "") if spec.resources is not None else "")


def is_alone(pod: Pod) -> bool:
    """Return whether a member shares its node with no other run: it has the whole node, or no memory limit."""
    return pod.metadata.labels.get(names.LABEL_WHOLE_NODE) == "true" or not memory_limit(pod.spec)


def memory_request(spec: PodSpec) -> str:
    """Return the memory request of a member's program, as written; empty if there is none."""
    main = next((container for container in spec.containers if container.name == names.MEMBER_CONTAINER), None)
    return main.resources.requests.get("memory", "") if main is not None else ""


_Pairs = tuple[tuple[str, str], ...]


def _as_pairs(quantities: Mapping[str, str]) -> _Pairs:
    return tuple(quantities.items())


def _requests_of(container: Container) -> _Pairs:
    return tuple(container.resources.requests.items())


@lru_cache(maxsize=16384)
def _usage_of(
    containers: tuple[_Pairs, ...], inits: tuple[tuple[_Pairs, bool], ...], whole: _Pairs, overhead: _Pairs
) -> PodUsage:
    """Compute the usage; the result is cached for Pods from the same template."""
    total = pod_amounts(
        map(_parse_amounts, containers),
        ((_parse_amounts(asked), is_sidecar) for asked, is_sidecar in inits),
        _parse_amounts(whole),
        _parse_amounts(overhead),
    )
    cpu, memory = total.pop("cpu", 0), total.pop("memory", 0)
    return PodUsage(cpu, memory, tuple(sorted((name, amount) for name, amount in total.items() if amount)))


def _parse_amounts(quantities: _Pairs) -> Amounts:
    return {name: amount_of(name, text) for name, text in quantities}


def amount_of(name: str, text: str) -> int:
    """Return an amount from a Node or Pod: millicores for `cpu`, else bytes or a count.

    The API server accepted it, so an amount larger than any node's counts as LARGEST.
    """
    try:
        return min(parse_cpu_millis(text) if name == "cpu" else parse_memory_bytes(text), LARGEST)
    except QuantityError:
        return LARGEST
