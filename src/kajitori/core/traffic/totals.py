"""Traffic of Pods: exact totals from kernel counters, whichever process is killed at any time.

Kernel counters only grow, and the agent never resets one. The ledger stores how much of each counter is in the totals
already, so a read-out adds only what is new. The ledger is one file written as a whole; an older ledger is as good as
the newest, because the kernel still has the difference. A counter's identity tells it from another of the same name.

A Pod's totals are dropped with the Pod. Those of its run stay for a while, those of its namespace and user for good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import msgspec

Direction = Literal["in", "out"]
"""From the Pod's point of view."""

DIRECTIONS: tuple[Direction, ...] = ("in", "out")
MAX_RUNS = 1000
"""Most accounts of runs per node."""
MAX_USERS = 2000
"""Most users that a node tells apart; traffic of others is added to OTHERS. Any user name can be put into a Run."""
OTHERS = "(others)"
MAX_NAME_LENGTH = 1024
"""Most characters of a user's name; traffic under a longer name is not added to any user."""
HOST = "host"
"""Takes the place of a Pod's UID for the node itself: its own programs, and Pods in its network."""


_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Count(NamedTuple):
    """An amount of traffic. The kernel counts a large packet that a network card splits or joins as one."""

    bytes: _Amount = 0
    packets: _Amount = 0

    def plus(self, other: Count) -> Count:
        """Return the sum of both."""
        return Count(self.bytes + other.bytes, self.packets + other.packets)


class Kind(NamedTuple):
    """One of the figures that exist of each Pod."""

    address_class: str
    direction: Direction

    def __str__(self) -> str:
        return f"{self.address_class}.{self.direction}"


class CounterName(NamedTuple):
    """The name of a kernel counter. It is complete, so an agent without a ledger still knows the counter's Pod."""

    uid: str
    interface: int
    """Index of the Pod's interface on its node, unique until the node restarts; 0 if the Pod is counted by address."""
    kind: Kind

    def __str__(self) -> str:
        return f"pod.{self.uid}.{self.interface}.{self.kind}"


def read_counter_name(text: str) -> CounterName | None:
    """Return the parsed name of a counter; None if it is not one of ours."""
    first, _, rest = text.partition(".")
    parts = rest.rsplit(".", 3)
    if first != "pod" or len(parts) != 4 or parts[3] not in DIRECTIONS or not parts[1].isdecimal():
        return None
    uid, interface, address_class, direction = parts
    return CounterName(uid, int(interface), Kind(address_class, "in" if direction == "in" else "out"))


class Counter(NamedTuple):
    """A kernel counter as it was read."""

    identity: str
    """Unique to the counter, also across restarts of the machine."""
    value: Count


class Pod(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """A Pod on this node, and where its packets are seen."""

    uid: str
    namespace: str
    name: str
    run: str = ""
    run_uid: str = ""
    user: str = ""
    """User who submitted the run."""
    interface: str = ""
    """The node's end of its network interface; empty if it has no network of its own."""
    addresses: tuple[str, ...] = ()
    """Its own addresses; empty if it uses the node's network."""
    cgroups: tuple[str, ...] = ()
    """If it uses the node's network: paths of the control groups (version 2) of its processes."""


Totals = dict[str, Count]
"""Amounts by kind, for example `internal.in`."""


class PodAccount(msgspec.Struct, frozen=True, rename="camel"):
    """Traffic of one Pod so far."""

    pod: Pod
    totals: Totals
    late: bool = False
    """Its run became known after it had traffic, which must still be added to that run."""


class RunAccount(msgspec.Struct, frozen=True, rename="camel"):
    """Traffic of a run's Pods on this node."""

    namespace: str
    run: str
    run_uid: str
    user: str
    totals: Totals
    seen_at: float
    """When a Pod of it was last on this node, in seconds since 1970."""
    opened_at: float = 0.0
    """When the account was opened. A run that returns after its account was closed gets a new one."""

    @property
    def run_id(self) -> str:
        """Short digest that tells runs of one name apart for users who may not see the UID."""
        return run_id(self.run_uid)


class Ledger(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The memory of an agent. It is replaced and stored as a whole."""

    life: str = ""
    """Identifies this ledger; an agent that lost its ledger begins a new one."""
    seen: dict[str, Counter] = {}
    """The part of each counter that is in the totals already, by counter name."""
    closing: frozenset[str] = frozenset()
    """Counters that are about to be deleted, so that their absence is expected."""
    pods: dict[str, PodAccount] = {}
    """By UID."""
    runs: dict[str, RunAccount] = {}
    """By the run's UID."""
    namespaces: dict[str, Totals] = {}
    users: dict[str, Totals] = {}
    host: Totals = {}
    strangers: Totals = {}
    """Totals of counters that belong to unknown Pods, because an earlier ledger was lost."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Counters that another program deleted or reset since the last read; their counts since then are lost."""

    deleted: tuple[str, ...] = ()
    reset: tuple[str, ...] = ()


def with_pods(ledger: Ledger, pods: Iterable[Pod]) -> Ledger:
    """Return the ledger with accounts for these Pods.

    It is stored before anything counts for them, so that every counter has an owner. If a Pod's user or run becomes
    known later, they also get its earlier traffic. Once known, they do not change.
    """
    accounts, users = dict(ledger.pods), dict(ledger.users)
    for pod in pods:
        if len(pod.user) > MAX_NAME_LENGTH:
            pod = msgspec.structs.replace(pod, user="")
        known = accounts.get(pod.uid)
        if known is None:
            accounts[pod.uid] = PodAccount(pod, {})
            continue
        if not pod.user:
            pod = msgspec.structs.replace(pod, user=known.pod.user)
        elif not known.pod.user and known.totals:
            _add_to_user(users, pod.user, known.totals)
        if not pod.run_uid:
            pod = msgspec.structs.replace(pod, run=known.pod.run, run_uid=known.pod.run_uid)
        late = known.late or (not known.pod.run_uid and bool(known.totals))
        accounts[pod.uid] = PodAccount(pod, known.totals, late and bool(pod.run_uid))
    return msgspec.structs.replace(ledger, pods=accounts, users=users)


def with_reading(ledger: Ledger, reading: Mapping[str, Counter], now: float) -> tuple[Ledger, Lost]:
    """Return the ledger with these counter values, and a description of lost counts. A repeated reading adds
    nothing."""
    fresh: dict[str, Totals] = {}
    reset: list[str] = []
    for name, counter in reading.items():
        parsed = read_counter_name(name)
        if parsed is None:
            continue
        before = ledger.seen.get(name)
        new = counter.value
        if before is not None and before.identity == counter.identity:
            if new.bytes >= before.value.bytes and new.packets >= before.value.packets:
                new = Count(new.bytes - before.value.bytes, new.packets - before.value.packets)
            else:
                reset.append(name)
        if new.bytes or new.packets:
            _add_count(fresh.setdefault(parsed.uid, {}), str(parsed.kind), new)
    deleted = [
        name
        for name, before in ledger.seen.items()
        if name not in ledger.closing and (name not in reading or reading[name].identity != before.identity)
    ]
    seen = {name: counter for name, counter in reading.items() if read_counter_name(name) is not None}
    ledger = msgspec.structs.replace(_with_amounts(ledger, fresh, now), seen=seen, closing=ledger.closing & seen.keys())
    return ledger, Lost(tuple(deleted), tuple(reset))


def without_ended_pods(ledger: Ledger, living: Collection[str], former: Collection[str] = ()) -> Ledger:
    """Return the ledger without the accounts of Pods (UIDs) that are not living.

    Their counters must have been read, and nothing may count for them any more. `closing` then has the counters to
    delete from the kernel once this ledger is stored: theirs, and those in `former`, which another engine replaces.
    """
    stays = {HOST, *living}
    gone = frozenset(name for name in ledger.seen if name in former or _uid(name) not in stays)
    pods = {uid: account for uid, account in ledger.pods.items() if uid in living}
    return msgspec.structs.replace(ledger, pods=pods, closing=gone)


def without_old_runs(ledger: Ledger, now: float, keep_seconds: float) -> Ledger:
    """Return the ledger without old runs, and without the oldest ones beyond MAX_RUNS.

    A run is old if it had no Pod here for `keep_seconds`. The totals of namespaces and users stay. If totals are
    reported, `now` is the time of the last report, so that nothing is dropped before it was reported.
    """
    runs = [item for item in ledger.runs.items() if now - item[1].seen_at <= keep_seconds]
    if len(runs) > MAX_RUNS:
        runs = sorted(runs, key=lambda item: item[1].seen_at)[-MAX_RUNS:]
    return msgspec.structs.replace(ledger, runs=dict(runs))


def _with_amounts(ledger: Ledger, fresh: Mapping[str, Totals], now: float) -> Ledger:
    pods, runs = dict(ledger.pods), dict(ledger.runs)
    namespaces, users = dict(ledger.namespaces), dict(ledger.users)
    host, strangers = ledger.host, ledger.strangers
    for uid, account in ledger.pods.items():
        pod, new = account.pod, fresh.get(uid, {})
        before = runs.get(pod.run_uid)
        if pod.run_uid and (before is None or before.namespace == pod.namespace):
            totals = sum_totals(before.totals if before is not None else {}, new)
            totals = sum_totals(totals, account.totals) if account.late else totals
            since = before.opened_at if before is not None else now
            runs[pod.run_uid] = RunAccount(pod.namespace, pod.run, pod.run_uid, pod.user, totals, now, since)
        if new or account.late:
            pods[uid] = PodAccount(pod, sum_totals(account.totals, new))
        if new:
            namespaces[pod.namespace] = sum_totals(namespaces.get(pod.namespace, {}), new)
            if pod.user:
                _add_to_user(users, pod.user, new)
    for uid, new in fresh.items():
        if uid == HOST:
            host = sum_totals(host, new)
        elif uid not in ledger.pods:
            strangers = sum_totals(strangers, new)
    return msgspec.structs.replace(
        ledger, pods=pods, runs=runs, namespaces=namespaces, users=users, host=host, strangers=strangers
    )


def run_id(run_uid: str) -> str:
    """Return eight characters that tell runs of one name apart and do not reveal the UID."""
    return hashlib.sha256(run_uid.encode()).hexdigest()[:8]


def _add_to_user(users: dict[str, Totals], user: str, new: Totals) -> None:
    if user not in users and len(users) >= MAX_USERS:
        user = OTHERS
    users[user] = sum_totals(users.get(user, {}), new)


def _uid(name: str) -> str:
    parsed = read_counter_name(name)
    assert parsed is not None  # a ledger has no other names
    return parsed.uid


def _add_count(totals: Totals, kind: str, count: Count) -> None:
    totals[kind] = totals.get(kind, Count()).plus(count)


def sum_totals(totals: Totals, new: Totals) -> Totals:
    """Return the sum of both."""
    both = dict(totals)
    for kind, count in new.items():
        _add_count(both, kind, count)
    return both
