"""Which clients ask the API server more the more nodes there are, and what is to be done about each.

What grows with the cluster are clients of which every node has one: each of its requests is made as often as there are
nodes, and a watch of everything is told of every node's changes as often, so that it grows with the square.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

KUBELETS = "kubelets"
"""All of them are one client, whose instances are the nodes."""

_SERVICE_ACCOUNT = "system:serviceaccount:"

WATCHED_BY_KUBELETS = frozenset(
    {"pods", "nodes", "services", "runtimeclasses.node.k8s.io", "csidrivers.storage.k8s.io"}
)
"""Kinds of which each kubelet watches its own part, or all that there is, once."""

_FEWEST_NODES = 3
"""With fewer, nothing can be told from how many instances a client has."""

_SHARE_OF_NODES = 0.5
"""A client that works on so many of the nodes is on each of them, as far as is known."""

_OFTEN_PER_MINUTE = 1.0
"""Of one node's instance: a list that is asked for so often is how a program looks for changes."""

_AGAIN_AND_AGAIN = 3
"""Times that an instance asked at least, before that is said of it: once belongs to its start."""

_MANY_PER_MINUTE = 6.0
"""Of one node's instance: as often as a kubelet renews its lease; what writes or reads more is worth a word."""

LARGEST = 5
"""Others that are named, those who ask most first."""


class Scope(StrEnum):
    """How much of a kind is asked for."""

    ALL = "all"
    """What every node and namespace has of it."""
    NAMESPACE = "namespace"
    SELECTED = "selected"
    """One object, or what one node has."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A kind of request."""

    verb: str
    resource: str
    """Plural, with the group where it has one: `leases.coordination.k8s.io`, `pods/status`."""
    scope: Scope
    from_store: bool = False
    """A list for which the API server has to ask its database, since it may not answer from memory."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: an account, and the program that it runs."""

    user: str
    program: str = ""

    @property
    def name(self) -> str:
        """As people read it."""
        account = self.user.removeprefix(_SERVICE_ACCOUNT)
        if account != self.user:
            account = account.replace(":", "/")
        return f"{account} ({self.program})" if self.program and self.user != KUBELETS else account


@dataclass(frozen=True, slots=True)
class Request:
    """One request that ended, or a watch that is open."""

    client: Client
    instance: str
    """Which of the client's processes: its Pod, node or address."""
    ask: Ask
    began: float
    """Seconds since 1970."""
    ended: float | None
    """None: it is open still."""


@dataclass(slots=True)
class Use:
    """What one client asked for."""

    instances: set[str] = field(default_factory=set)
    asks: Counter[Ask] = field(default_factory=Counter)
    """Requests that are over at once; watches not."""
    watch_seconds: dict[Ask, float] = field(default_factory=lambda: defaultdict(float))
    """How long watches were open, all of them together."""


@dataclass(frozen=True, slots=True)
class Book:
    """What all clients asked for in some time."""

    uses: Mapping[Client, Use]
    requests: int
    seconds: float


def book(requests: Iterable[Request]) -> Book:
    """What a log tells, summed up by client."""
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
    return Book(dict(uses), count, max(0.0, last - first) if count else 0.0)


class DaemonSet(msgspec.Struct, frozen=True, rename="camel"):
    """A program that runs on every node, or on many."""

    namespace: str
    name: str
    account: str
    """Its service account's name."""
    pods: int
    """On how many nodes it is to run."""
    reads: tuple[str, ...] = ()
    """Kinds of which its account may list or watch all that there is; `*` is every kind."""

    @property
    def user(self) -> str:
        """The name by which the API server knows it."""
        return f"{_SERVICE_ACCOUNT}{self.namespace}:{self.account}"


class Growing(msgspec.Struct, frozen=True, rename="camel"):
    """A client that is on every node, by what one of its instances asks for."""

    client: str
    daemon_sets: tuple[str, ...]
    """`namespace/name` of those that use its account."""
    instances: int
    requests_per_minute: float
    watches: float
    """Open at a time."""
    reads_all: tuple[str, ...]
    """Kinds of which each instance is told everything."""
    requests_per_second_then: float
    """Of all instances together, with as many nodes as are planned."""
    watches_then: float
    fixes: tuple[str, ...]


class Large(msgspec.Struct, frozen=True, rename="camel"):
    """A client that is not on every node."""

    client: str
    requests_per_second: float
    share: float
    """Of all requests."""


class Watched(msgspec.Struct, frozen=True, rename="camel"):
    """A kind that has about as many open watches as there are nodes, kubelets' own aside."""

    resource: str
    open: int
    besides_kubelets: int


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """Who asks too much."""

    nodes: int
    planned_nodes: int
    growing: tuple[Growing, ...]
    """Who would ask most then, first."""
    largest: tuple[Large, ...]
    suspects: tuple[DaemonSet, ...]
    """DaemonSets that may read everything of some kind, and that no log has shown."""
    watched: tuple[Watched, ...]


def report(
    known: Book | None,
    daemon_sets: Sequence[DaemonSet],
    open_watches: Mapping[str, int],
    *,
    nodes: int,
    kubelets: int,
    planned_nodes: int,
) -> Report:
    """What is known of clients that grow with the cluster.

    known: what a log told; None where there is none. open_watches: by kind, of everything in the cluster, as the API
    server counts them. kubelets: on how many of the nodes one is at work.
    """
    by_user: dict[str, list[DaemonSet]] = defaultdict(list)
    for each in daemon_sets:
        by_user[each.user].append(each)
    growing, others = [], []
    uses, seconds = (known.uses, known.seconds) if known is not None else ({}, 0.0)
    for client, use in uses.items():
        if client.user == KUBELETS or client.user in by_user or _is_on_every_node(use, nodes):
            growing.append(_growing(client, use, by_user[client.user], seconds, nodes, planned_nodes))
        else:
            others.append((client, use))
    growing.sort(key=lambda each: (-each.requests_per_second_then, -each.watches_then, each.client))
    seen = {client.user for client in uses}
    return Report(
        nodes,
        planned_nodes,
        tuple(growing),
        _largest(others, known),
        tuple(each for each in daemon_sets if each.reads and each.user not in seen),
        _watched(open_watches, nodes, kubelets),
    )


def _is_on_every_node(use: Use, nodes: int) -> bool:
    return nodes >= _FEWEST_NODES and len(use.instances) >= max(_FEWEST_NODES, nodes * _SHARE_OF_NODES)


def _growing(
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
        daemon_sets=tuple(sorted(f"{each.namespace}/{each.name}" for each in daemon_sets)),
        instances=instances,
        requests_per_minute=sum(rates.values()),
        watches=sum(watches.values()),
        reads_all=tuple(sorted({ask.resource for ask in asked if _reads_all(ask)})),
        requests_per_second_then=sum(rates.values()) * then / 60,
        watches_then=sum(watches.values()) * then,
        fixes=() if client.user == KUBELETS else _fixes(use, rates),
    )


def _reads_all(ask: Ask) -> bool:
    return ask.scope is Scope.ALL and ask.verb in ("list", "watch")


def _fixes(use: Use, rates: Mapping[Ask, float]) -> tuple[str, ...]:
    """What whoever maintains it should change, the worst first. rates: requests a minute of one instance."""
    found = []
    read = {ask.resource for ask in [*use.asks, *use.watch_seconds] if _reads_all(ask)}
    for resource in sorted(read, key=lambda each: (each != "pods", each)):
        if resource == "pods":
            found.append("let each instance ask for its own node's Pods: fieldSelector spec.nodeName=<its node>")
        elif resource == "nodes":
            found.append("let each instance ask for its own Node: fieldSelector metadata.name=<its node>")
        else:
            found.append(f"put one cache of {resource} between the nodes and the API server, or ask for less than all")
    often = {ask: rate for ask, rate in rates.items() if use.asks[ask] >= _AGAIN_AND_AGAIN * len(use.instances)}
    polled = sorted({ask.resource for ask, rate in often.items() if ask.verb == "list" and rate > _OFTEN_PER_MINUTE})
    if polled:
        found.append(f"watch {' and '.join(polled)} instead of listing again and again")
    if any(ask.from_store and _reads_all(ask) for ask in rates):
        found.append("list with resourceVersion=0: the API server answers from memory instead of its database")
    for ask, rate in sorted(often.items(), key=lambda each: -each[1]):
        if ask.verb != "list" and rate > _MANY_PER_MINUTE:
            found.append(f"{ask.verb} {ask.resource} less often than {rate:.0f} times a minute")
    return tuple(found)


def _largest(others: Sequence[tuple[Client, Use]], known: Book | None) -> tuple[Large, ...]:
    if known is None or not known.seconds:
        return ()
    all_asked = sum(use.asks.total() for use in known.uses.values())
    found = [
        Large(client.name, use.asks.total() / known.seconds, use.asks.total() / all_asked)
        for client, use in others
        if use.asks.total()
    ]
    return tuple(sorted(found, key=lambda each: (-each.requests_per_second, each.client))[:LARGEST])


def _watched(open_watches: Mapping[str, int], nodes: int, kubelets: int) -> tuple[Watched, ...]:
    if nodes < _FEWEST_NODES:
        return ()
    found = []
    for resource, count in open_watches.items():
        besides = count - kubelets if resource in WATCHED_BY_KUBELETS else count
        if besides >= nodes * _SHARE_OF_NODES:
            found.append(Watched(resource, count, besides))
    return tuple(sorted(found, key=lambda each: (-each.besides_kubelets, each.resource)))
