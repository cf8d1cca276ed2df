"""Traffic of Pods: from what counters in the kernel show to totals that are true, whoever was killed in between.

Counters in the kernel only grow, and the agent never sets one back. A ledger remembers of each how much of it is in the
totals already, so a read-out adds what is new and nothing twice: kept whole in one file, an older ledger is as good as
the newest, since the kernel still has what it lacks. A counter is told from another of the same name by its identity.

Totals of a Pod leave with it. Those of its run stay for a while, those of its namespace and its user for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import msgspec

Direction = Literal["in", "out"]
"""As the Pod sees it."""

DIRECTIONS: tuple[Direction, ...] = ("in", "out")
MOST_RUNS = 1000
"""So many accounts of runs a node has at most."""
MOST_USERS = 2000
"""So many users a node tells apart; what others move is booked on OTHERS. Whoever can write a Run can name any user."""
OTHERS = "(others)"
LONGEST_NAME = 1024
"""Characters of a user's name; a longer one is nobody's."""
HOST = "host"
"""Stands for a Pod's UID in counters of the node itself: what its own programs and Pods without a network of their own
send and receive."""


_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Count(NamedTuple):
    """So much traffic. Of large packets that network cards cut or join, the kernel sees one."""

    bytes: _Amount = 0
    packets: _Amount = 0

    def plus(self, other: Count) -> Count:
        """Both together."""
        return Count(self.bytes + other.bytes, self.packets + other.packets)


class Kind(NamedTuple):
    """One of the figures that there are of each Pod."""

    address_class: str
    direction: Direction

    def __str__(self) -> str:
        return f"{self.address_class}.{self.direction}"


class CounterName(NamedTuple):
    """Whose counter it is: its name in the kernel says all, so that an agent without memory still knows."""

    uid: str
    interface: int
    """Index of the Pod's interface on its node, which is not used again before the node restarts; 0: counted by
    address."""
    kind: Kind

    def __str__(self) -> str:
        return f"pod.{self.uid}.{self.interface}.{self.kind}"


def read_counter_name(text: str) -> CounterName | None:
    """Whose counter bears this name; None where it is none of ours."""
    first, _, rest = text.partition(".")
    parts = rest.rsplit(".", 3)
    if first != "pod" or len(parts) != 4 or parts[3] not in DIRECTIONS or not parts[1].isdecimal():
        return None
    uid, interface, address_class, direction = parts
    return CounterName(uid, int(interface), Kind(address_class, "in" if direction == "in" else "out"))


class Counter(NamedTuple):
    """A counter of the kernel, as it was read."""

    identity: str
    """Never that of another counter, not after a restart of the machine either."""
    value: Count


class Pod(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """A Pod on this node, and where its packets are found."""

    uid: str
    namespace: str
    name: str
    run: str = ""
    run_uid: str = ""
    user: str = ""
    """Who submitted the run."""
    interface: str = ""
    """The end of its network that is on the node; empty where it has none of its own."""
    addresses: tuple[str, ...] = ()
    """Its own; none where it uses the node's."""
    cgroups: tuple[str, ...] = ()
    """Where it uses the node's: paths of the control groups (version 2) that its processes are in, or will be."""


Totals = dict[str, Count]
"""By kind: `internal.in`."""


class PodAccount(msgspec.Struct, frozen=True, rename="camel"):
    """What a Pod received and sent so far."""

    pod: Pod
    totals: Totals
    late: bool = False
    """Which run it is of was learnt after it had moved something, which is still to be booked on that run."""


class RunAccount(msgspec.Struct, frozen=True, rename="camel"):
    """What the Pods of a run received and sent on this node."""

    namespace: str
    run: str
    run_uid: str
    user: str
    totals: Totals
    seen_at: float
    """When a Pod of it was here last, in seconds since 1970."""
    opened_at: float = 0.0
    """When it was opened: a run that comes back after its account was closed gets another one."""

    @property
    def run_id(self) -> str:
        """Tells runs of one name apart for whoever may see their traffic and not their UID."""
        return run_id(self.run_uid)


class Ledger(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What an agent remembers. Changed as a whole, kept as a whole."""

    life: str = ""
    """Stands for this ledger and no other: an agent whose memory was lost begins another one."""
    seen: dict[str, Counter] = {}
    """By counter: how much of it is in the totals."""
    closing: frozenset[str] = frozenset()
    """Counters that are about to be deleted: nobody misses them."""
    pods: dict[str, PodAccount] = {}
    """By UID."""
    runs: dict[str, RunAccount] = {}
    """By UID of the run."""
    namespaces: dict[str, Totals] = {}
    users: dict[str, Totals] = {}
    host: Totals = {}
    strangers: Totals = {}
    """Of counters whose Pods nobody knows any more, because an earlier ledger was lost."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Counters that somebody else took away or set back since they were read last; what they had counted since then
    is in no total."""

    deleted: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()


def opened(ledger: Ledger, pods: Iterable[Pod]) -> Ledger:
    """The ledger with these Pods in it: kept before anything counts for them, so that every counter has an owner.

    Whose a Pod is may be known later than the Pod: then what it has moved so far is his, too. Once known it stays.
    """
    accounts, users = dict(ledger.pods), dict(ledger.users)
    for pod in pods:
        if len(pod.user) > LONGEST_NAME:
            pod = msgspec.structs.replace(pod, user="")
        known = accounts.get(pod.uid)
        if known is None:
            accounts[pod.uid] = PodAccount(pod, {})
            continue
        if not pod.user:
            pod = msgspec.structs.replace(pod, user=known.pod.user)
        elif not known.pod.user and known.totals:
            _book(users, pod.user, known.totals)
        if not pod.run_uid:
            pod = msgspec.structs.replace(pod, run=known.pod.run, run_uid=known.pod.run_uid)
        late = known.late or (not known.pod.run_uid and bool(known.totals))
        accounts[pod.uid] = PodAccount(pod, known.totals, late and bool(pod.run_uid))
    return msgspec.structs.replace(ledger, pods=accounts, users=users)


def accounted(ledger: Ledger, reading: Mapping[str, Counter], now: float) -> tuple[Ledger, Lost]:
    """The ledger with what counters show now, and what was lost. The same reading again adds nothing."""
    fresh: dict[str, Totals] = {}
    reset: list[str] = []
    for name, counter in reading.items():
        whose = read_counter_name(name)
        if whose is None:
            continue
        before = ledger.seen.get(name)
        new = counter.value
        if before is not None and before.identity == counter.identity:
            if new.bytes >= before.value.bytes and new.packets >= before.value.packets:
                new = Count(new.bytes - before.value.bytes, new.packets - before.value.packets)
            else:
                reset.append(name)
        if new.bytes or new.packets:
            _add(fresh.setdefault(whose.uid, {}), str(whose.kind), new)
    deleted = [
        name
        for name, before in ledger.seen.items()
        if name not in ledger.closing and (name not in reading or reading[name].identity != before.identity)
    ]
    seen = {name: counter for name, counter in reading.items() if read_counter_name(name) is not None}
    ledger = msgspec.structs.replace(_booked(ledger, fresh, now), seen=seen, closing=ledger.closing & seen.keys())
    return ledger, Lost(tuple(deleted), tuple(reset))


def closed(ledger: Ledger, living: Collection[str], former: Collection[str] = ()) -> Ledger:
    """The ledger when nothing counts any more for Pods (UIDs) that are not living, and their counters were read: their
    accounts are closed. What is to be deleted in the kernel, once this is kept, is in `closing`; so are the counters in
    `former`, whose Pods are counted by others from now on."""
    stays = {HOST, *living}
    gone = frozenset(name for name in ledger.seen if name in former or _uid(name) not in stays)
    pods = {uid: account for uid, account in ledger.pods.items() if uid in living}
    return msgspec.structs.replace(ledger, pods=pods, closing=gone)


def without_old_runs(ledger: Ledger, now: float, keep_seconds: float) -> Ledger:
    """The ledger without the totals of runs that had no Pod here for so long, and of those that are too many, the ones
    that left first. Their namespaces' and users' totals stay. now: where totals are told to somebody, when he was told
    last, so that nothing is forgotten that he may not know."""
    runs = [item for item in ledger.runs.items() if now - item[1].seen_at <= keep_seconds]
    if len(runs) > MOST_RUNS:
        runs = sorted(runs, key=lambda item: item[1].seen_at)[-MOST_RUNS:]
    return msgspec.structs.replace(ledger, runs=dict(runs))


def _booked(ledger: Ledger, fresh: Mapping[str, Totals], now: float) -> Ledger:
    pods, runs = dict(ledger.pods), dict(ledger.runs)
    namespaces, users = dict(ledger.namespaces), dict(ledger.users)
    host, strangers = ledger.host, ledger.strangers
    for uid, account in ledger.pods.items():
        pod, new = account.pod, fresh.get(uid, {})
        before = runs.get(pod.run_uid)
        if pod.run_uid and (before is None or before.namespace == pod.namespace):
            totals = added(before.totals if before is not None else {}, new)
            totals = added(totals, account.totals) if account.late else totals
            since = before.opened_at if before is not None else now
            runs[pod.run_uid] = RunAccount(pod.namespace, pod.run, pod.run_uid, pod.user, totals, now, since)
        if new or account.late:
            pods[uid] = PodAccount(pod, added(account.totals, new))
        if new:
            namespaces[pod.namespace] = added(namespaces.get(pod.namespace, {}), new)
            if pod.user:
                _book(users, pod.user, new)
    for uid, new in fresh.items():
        if uid == HOST:
            host = added(host, new)
        elif uid not in ledger.pods:
            strangers = added(strangers, new)
    return msgspec.structs.replace(
        ledger, pods=pods, runs=runs, namespaces=namespaces, users=users, host=host, strangers=strangers
    )


def run_id(run_uid: str) -> str:
    """Eight characters that tell runs of one name apart, and from which nobody learns the UID."""
    return hashlib.sha256(run_uid.encode()).hexdigest()[:8]


def _book(users: dict[str, Totals], user: str, new: Totals) -> None:
    if user not in users and len(users) >= MOST_USERS:
        user = OTHERS
    users[user] = added(users.get(user, {}), new)


def _uid(name: str) -> str:
    whose = read_counter_name(name)
    assert whose is not None  # nothing else is in a ledger
    return whose.uid


def _add(totals: Totals, kind: str, count: Count) -> None:
    totals[kind] = totals.get(kind, Count()).plus(count)


def added(totals: Totals, new: Totals) -> Totals:
    """Both together."""
    both = dict(totals)
    for kind, count in new.items():
        _add(both, kind, count)
    return both
