"""Report on API clients that load the API server more the more nodes there are, with advice for each.

These are clients that run on every node. Each of their requests is made once per node. A watch of all objects of a kind
is opened once per node and receives the changes of every node, so that its cost grows with the square of the number of
nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

KUBELETS = "kubelets"
"""User of all kubelets, which count as one client with one instance per node."""

_SERVICE_ACCOUNT = "system:serviceaccount:"

WATCHED_BY_KUBELETS = frozenset(
    {"pods", "nodes", "services", "runtimeclasses.node.k8s.io", "csidrivers.storage.k8s.io"}
)
"""Kinds for which each kubelet has one watch, of its own objects or of all."""

_FEWEST_NODES = 3
"""Smallest number of nodes with which the number of instances tells whether a client runs on every node."""

_SHARE_OF_NODES = 0.5
"""A client with instances on at least this share of the nodes is assumed to run on every node."""

_OFTEN_PER_MINUTE = 1.0
"""Lists per minute and instance above which a client is assumed to poll for changes."""

_AGAIN_AND_AGAIN = 3
"""Minimum number of requests per instance for such advice, because every instance makes some at its start."""

_MANY_PER_MINUTE = 6.0
"""Requests per minute and instance above which there is advice: the rate at which a kubelet renews its lease."""

LARGEST = 5
"""Number of other clients that the report lists, those with most requests first."""


class Scope(StrEnum):
    """Selection of the objects of a kind that a request is for."""

    ALL = "all"
    """All objects in the cluster."""
    NAMESPACE = "namespace"
    SELECTED = "selected"
    """One object, or the objects of one node."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A type of request."""

    verb: str
    resource: str
    """Plural, with its group if it has one: `leases.coordination.k8s.io`, `pods/status`."""
    scope: Scope
    from_store: bool = False
    """Whether the API server has to read a list from its database instead of memory."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client: an account, and the program that uses it."""

    user: str
    program: str = ""

    @property
    def name(self) -> str:
        """Name of the client for users."""
        account = self.user.removeprefix(_SERVICE_ACCOUNT)
        if account != self.user:
            account = account.replace(":", "/")
        return f"{account} ({self.program})" if self.program and self.user != KUBELETS else account


@dataclass(frozen=True, slots=True)
class Request:
    """One completed request, or an open watch."""

    client: Client
    instance: str
    """Process of the client: its Pod, node or address."""
    ask: Ask
    began: float
    """Seconds since 1970."""
    ended: float | None
    """Seconds since 1970; None if it is still open."""


@dataclass(slots=True)
class Use:
    """All requests of one client."""

    instances: set[str] = field(default_factory=set)
    asks: Counter[Ask] = field(default_factory=Counter)
    """Number of requests by type, without watches."""
    watch_seconds: dict[Ask, float] = field(default_factory=lambda: defaultdict(float))
    """Sum of the times for which watches were open, by type."""


@dataclass(frozen=True, slots=True)
class ClientRequests:
    """All requests of all clients during some time."""

    uses: Mapping[Client, Use]
    requests: int
    seconds: float


def requests_by_client(requests: Iterable[Request]) -> ClientRequests:
    """Sum up requests by client."""
    uses: dict[Client, Use] = defaultdict(Use)
    count, first, last = 0, float("inf"), float("-inf")
    watches: list[Request] = []
    for request in requests:
        count += 1
        first, last = min(first, request.began), max(last, request.ended or request.began)
        use = uses[request.client]
        use.instances.add(request.instance)
        if request.ask.verb == "watch":
            watches.append(request)
        else:
            use.asks[request.ask] += 1
    for watch in watches:
        ended = last if watch.ended is None else watch.ended
        uses[watch.client].watch_seconds[watch.ask] += max(0.0, ended - watch.began)
    return ClientRequests(dict(uses), count, max(0.0, last - first) if count else 0.0)


class DaemonSet(msgspec.Struct, frozen=True, rename="camel"):
    """A DaemonSet: a program that runs on all nodes or many of them."""

    namespace: str
    name: str
    account: str
    """Name of its service account."""
    pods: int
    """Number of nodes that it should run on."""
    reads: tuple[str, ...] = ()
    """Kinds that its account may list or watch cluster-wide; `*` is every kind."""

    @property
    def user(self) -> str:
        """User name of its service account at the API server."""
        return f"{_SERVICE_ACCOUNT}{self.namespace}:{self.account}"


class Growing(msgspec.Struct, frozen=True, rename="camel"):
    """A client that runs on every node, so that its load grows with the cluster."""

    client: str
    daemon_sets: tuple[str, ...]
    """DaemonSets that use its account, `namespace/name`."""
    instances: int
    requests_per_minute: float
    """Requests of one instance per minute."""
    watches: float
    """Average number of open watches of one instance."""
    reads_all: tuple[str, ...]
    """Kinds that each instance reads cluster-wide."""
    requests_per_second_then: float
    """Requests of all instances per second, with the planned number of nodes."""
    watches_then: float
    """Open watches of all instances, with the planned number of nodes."""
    fixes: tuple[str, ...]
    """Advice for its maintainer."""


class Large(msgspec.Struct, frozen=True, rename="camel"):
    """A client that does not run on every node."""

    client: str
    requests_per_second: float
    share: float
    """Share of all requests."""


class Watched(msgspec.Struct, frozen=True, rename="camel"):
    """A kind with about as many open watches as there are nodes, in addition to those of kubelets."""

    resource: str
    open: int
    besides_kubelets: int


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """Report on the load that clients put on an API server."""

    nodes: int
    planned_nodes: int
    growing: tuple[Growing, ...]
    """Clients on every node, those with most requests at the planned size first."""
    largest: tuple[Large, ...]
    suspects: tuple[DaemonSet, ...]
    """DaemonSets that may read all objects of some kind, but have no requests in the log."""
    watched: tuple[Watched, ...]


def report(
    known: ClientRequests | None,
    daemon_sets: Sequence[DaemonSet],
    open_watches: Mapping[str, int],
    *,
    nodes: int,
    kubelets: int,
    planned_nodes: int,
) -> Report:
    """Return the report on clients that load the API server more as the cluster grows.

    known: requests of an audit log; None without a log. open_watches: watches of all objects by kind, as the API server
    counts them. kubelets: number of nodes with a running kubelet.
    """
    by_user: dict[str, list[DaemonSet]] = defaultdict(list)
    for daemon_set in daemon_sets:
        by_user[daemon_set.user].append(daemon_set)
    growing, others = [], []
    uses, seconds = (known.uses, known.seconds) if known is not None else ({}, 0.0)
    for client, use in uses.items():
        if client.user == KUBELETS or client.user in by_user or _is_on_every_node(use, nodes):
            growing.append(_growing_use(client, use, by_user[client.user], seconds, nodes, planned_nodes))
        else:
            others.append((client, use))
    growing.sort(key=lambda client: (-client.requests_per_second_then, -client.watches_then, client.client))
    seen = {client.user for client in uses}
    return Report(
        nodes,
        planned_nodes,
        tuple(growing),
        _largest_others(others, known),
        tuple(daemon_set for daemon_set in daemon_sets if daemon_set.reads and daemon_set.user not in seen),
        _watched_kinds(open_watches, nodes, kubelets),
    )


def _is_on_every_node(use: Use, nodes: int) -> bool:
    return nodes >= _FEWEST_NODES and len(use.instances) >= max(_FEWEST_NODES, nodes * _SHARE_OF_NODES)


def _growing_use(
    client: Client, use: Use, daemon_sets: Sequence[DaemonSet], seconds: float, nodes: int, planned_nodes: int
) -> Growing:
    instances = len(use.instances)
    minutes = instances * seconds / 60
    rates = {ask: count / minutes if minutes else 0.0 for ask, count in use.asks.items()}
    watches = {ask: open_for / (instances * seconds) if seconds else 0.0 for ask, open_for in use.watch_seconds.items()}
    then = planned_nodes * min(1.0, instances / nodes) if nodes else float(planned_nodes)
    asked = [*rates, *watches]
    return Growing(
        client=client.name,
        daemon_sets=tuple(sorted(f"{daemon_set.namespace}/{daemon_set.name}" for daemon_set in daemon_sets)),
        instances=instances,
        requests_per_minute=sum(rates.values()),
        watches=sum(watches.values()),
        reads_all=tuple(sorted({ask.resource for ask in asked if _reads_all(ask)})),
        requests_per_second_then=sum(rates.values()) * then / 60,
        watches_then=sum(watches.values()) * then,
        fixes=() if client.user == KUBELETS else _advice_for(use, rates),
    )


def _reads_all(ask: Ask) -> bool:
    return ask.scope is Scope.ALL and ask.verb in ("list", "watch")


def _advice_for(use: Use, rates: Mapping[Ask, float]) -> tuple[str, ...]:
    """Return advice for the client's maintainer, the most important first. rates: requests per minute and instance."""
    found = []
    read = {ask.resource for ask in [*use.asks, *use.watch_seconds] if _reads_all(ask)}
    for resource in sorted(read, key=lambda kind: (kind != "pods", kind)):
        if resource == "pods":
            found.append("let each instance read its own node's Pods only: fieldSelector spec.nodeName=<its node>")
        elif resource == "nodes":
            found.append("let each instance read its own Node only: fieldSelector metadata.name=<its node>")
        else:
            found.append(f"put a cache of {resource} between the nodes and the API server, or read only some of them")
    often = {ask: rate for ask, rate in rates.items() if use.asks[ask] >= _AGAIN_AND_AGAIN * len(use.instances)}
    polled = sorted({ask.resource for ask, rate in often.items() if ask.verb == "list" and rate > _OFTEN_PER_MINUTE})
    if polled:
        found.append(f"watch {' and '.join(polled)} instead of listing them repeatedly")
    if any(ask.from_store and _reads_all(ask) for ask in rates):
        found.append("list with resourceVersion=0: the API server then answers from memory instead of its database")
    for ask, rate in sorted(often.items(), key=lambda item: -item[1]):
        if ask.verb != "list" and rate > _MANY_PER_MINUTE:
            found.append(f"{ask.verb} {ask.resource} less often than {rate:.0f} times a minute")
    return tuple(found)


def _largest_others(others: Sequence[tuple[Client, Use]], known: ClientRequests | None) -> tuple[Large, ...]:
    if known is None or not known.seconds:
        return ()
    total = sum(use.asks.total() for use in known.uses.values())
    found = [
        Large(client.name, use.asks.total() / known.seconds, use.asks.total() / total)
        for client, use in others
        if use.asks.total()
    ]
    return tuple(sorted(found, key=lambda client: (-client.requests_per_second, client.client))[:LARGEST])


def _watched_kinds(open_watches: Mapping[str, int], nodes: int, kubelets: int) -> tuple[Watched, ...]:
    if nodes < _FEWEST_NODES:
        return ()
    found = []
    for resource, count in open_watches.items():
        besides = count - kubelets if resource in WATCHED_BY_KUBELETS else count
        if besides >= nodes * _SHARE_OF_NODES:
            found.append(Watched(resource, count, besides))
    return tuple(sorted(found, key=lambda watched: (-watched.besides_kubelets, watched.resource)))
