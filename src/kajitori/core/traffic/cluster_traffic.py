"""Traffic of the whole cluster: sums over all nodes, from their agents' reports, and present rates.

The record of each node is kept as it is stored, a few kilobytes per node. Each report updates the sums by its
difference from the record, so reading a sum is cheap.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from kajitori.core.traffic.report import NodeTraffic, RunTraffic, merge
from kajitori.core.traffic.totals import DIRECTIONS, Count, Totals, sum_totals

KEEP_RUNS_SECONDS = 30 * 86_400.0
"""Time for which a run's totals are kept after its last Pod; less if there are too many."""
MAX_ACCOUNTS = 1_000_000
"""Most accounts, one per run and node, of about 200 bytes each."""
KEEP_NODES_SECONDS = 400 * 86_400.0
"""Time after which the record of a node that no longer reports is dropped."""

WINDOW_SECONDS = 300
"""Period over which rates are averaged."""
_BUCKET_SECONDS = 60
_NONE = Count()

Group = Literal["run", "user", "namespace", "node"]
NodeLife = tuple[str, str]


class Subject(NamedTuple):
    """A run, user, namespace or node that has a sum."""

    group: Group
    key: str
    """UID of a run, otherwise the name."""


@dataclass(slots=True)
class RunName:
    """Names and user of a counted run."""

    namespace: str
    run: str
    user: str
    seen_at: float


@dataclass(frozen=True, slots=True)
class NodeContact:
    """The last report of a node."""

    heard_at: float
    uncounted_pods: int
    counters_lost: int


class ClusterTraffic:
    """Sums of traffic in the cluster. All times are seconds since 1970."""

    def __init__(self, now: float, max_accounts: int = MAX_ACCOUNTS) -> None:
        self._began = now
        self._max_accounts = max_accounts
        self._forgotten_until = -math.inf
        """Runs without a Pod since this time are not kept."""
        self._records: dict[NodeLife, bytes] = {}
        self._totals: dict[Subject, dict[str, list[int]]] = {}
        """Bytes and packets by kind."""
        self._recent: dict[int, dict[Subject, dict[str, float]]] = {}
        """Bytes by kind in each of the last minutes."""
        self._nodes_of: dict[str, set[NodeLife]] = defaultdict(set)
        """Records with accounts of a run, by its UID."""
        self.runs: dict[str, RunName] = {}
        """By the run's UID."""
        self.nodes: dict[str, NodeContact] = {}

    # ------------------------------------------------------------------------------------------ reports

    def add(self, report: NodeTraffic, now: float) -> None:
        """Add what is new in this report; the same report again adds nothing."""
        if now - report.heard_at > KEEP_NODES_SECONDS:
            return
        key = report.node, report.life
        known = self._records.get(key)
        old = decode_node(known) if known is not None else None
        new = self._without_old_runs(merge(old, report) if old is not None else report)
        record = encode_node(new)
        if record == known:
            return
        # The first report of a node has traffic of unknown age, which must not appear in the present rates.
        gap = new.heard_at - old.heard_at if old is not None else 0.0
        bucket = self._bucket_of(new.heard_at) if gap > 0 and now - new.heard_at < WINDOW_SECONDS else None
        self._replace_record(key, old, new, bucket, min(1.0, WINDOW_SECONDS / gap) if gap > 0 else 0.0)
        self._records[key] = record
        last = self.nodes.get(report.node)
        if last is None or last.heard_at <= new.heard_at:
            self.nodes[report.node] = NodeContact(new.heard_at, new.uncounted_pods, new.counters_lost)

    def forget_old(self, now: float) -> None:
        """Drop runs that ended long ago, the oldest if there are too many, and nodes that stopped reporting.

        A run is dropped as a whole, so the totals that are shown are complete.
        """
        for node in [name for name, contact in self.nodes.items() if now - contact.heard_at > KEEP_NODES_SECONDS]:
            del self.nodes[node]
            for key in [key for key in self._records if key[0] == node]:
                dropped = decode_node(self._records.pop(key))
                self._replace_record(key, dropped, _empty_record(dropped), None, 0.0)
            self._totals.pop(Subject("node", node), None)
        self._forgotten_until = max(self._forgotten_until, now - KEEP_RUNS_SECONDS)
        spare = sum(map(len, self._nodes_of.values())) - self._max_accounts
        for uid, run in sorted(self.runs.items(), key=lambda item: item[1].seen_at):
            if spare > 0:
                self._forgotten_until = max(self._forgotten_until, run.seen_at)
            if run.seen_at > self._forgotten_until:
                break
            spare -= len(self._nodes_of[uid])
            for key in list(self._nodes_of[uid]):
                old = decode_node(self._records[key])
                new = self._without_old_runs(old)
                self._replace_record(key, old, new, None, 0.0)
                self._records[key] = encode_node(new)

    def records(self) -> dict[NodeLife, bytes]:
        """Return the record of every node, as it is stored."""
        return self._records

    # ------------------------------------------------------------------------------------------ queries

    def ranked(self, group: Group, address_class: str, now: float) -> list[Subject]:
        """Return all subjects of a group, by recent traffic with addresses of a class, then by its total."""
        kinds = [f"{address_class}.{direction}" for direction in DIRECTIONS]
        recent: dict[Subject, float] = defaultdict(float)
        for number in self._kept_buckets(now):
            for subject, sizes in self._recent.get(number, {}).items():
                if subject.group == group:
                    recent[subject] += sum(sizes.get(kind, 0.0) for kind in kinds)

        def order(subject: Subject) -> tuple[float, int, str]:
            sums = self._totals[subject]
            return -recent.get(subject, 0.0), -sum(sums[kind][0] for kind in kinds if kind in sums), subject.key

        return sorted(self.subjects(group), key=order)

    def subjects(self, group: Group) -> list[Subject]:
        """Return all subjects of a group."""
        return [subject for subject in self._totals if subject.group == group]

    def classes(self) -> set[str]:
        """Return the address classes with any traffic."""
        nodes = (sums for subject, sums in self._totals.items() if subject.group == "node")
        return {kind.rpartition(".")[0] for sums in nodes for kind in sums}

    def total(self, subject: Subject) -> Totals:
        """Return the sum of one subject."""
        return {kind: Count(*sums) for kind, sums in self._totals.get(subject, {}).items()}

    def rates(self, subject: Subject, now: float) -> dict[str, float]:
        """Return present bytes per second by kind, averaged over WINDOW_SECONDS."""
        buckets = self._kept_buckets(now)
        seconds = max(_BUCKET_SECONDS, now - max(buckets[0] * _BUCKET_SECONDS, self._began))
        sums: dict[str, float] = defaultdict(float)
        for number in buckets:
            for kind, size in self._recent.get(number, {}).get(subject, {}).items():
                sums[kind] += size
        return {kind: size / seconds for kind, size in sums.items()}

    def nodes_of_run(self, uid: str) -> dict[str, Totals]:
        """Return a run's traffic by node."""
        found: dict[str, Totals] = {}
        for key in self._nodes_of.get(uid, ()):
            for account in decode_node(self._records[key]).runs.values():
                if account.run_uid == uid:
                    found[key[0]] = sum_totals(found.get(key[0], {}), account.totals)
        return found

    # ------------------------------------------------------------------------------------------ updates

    def _replace_record(
        self, key: NodeLife, old: NodeTraffic | None, new: NodeTraffic, bucket: int | None, part: float
    ) -> None:
        """Change the sums by the difference between two records of a node. `part` of it counts as recent traffic."""
        for subjects, before, after in _changed_accounts(old or _empty_record(new), new):
            for subject in subjects:
                sums = self._totals.setdefault(subject, {})
                recent = self._recent[bucket].setdefault(subject, {}) if bucket is not None else None
                for kind in before.keys() | after.keys():
                    old_bytes, old_packets = before.get(kind, _NONE)
                    new_bytes, new_packets = after.get(kind, _NONE)
                    both = sums.setdefault(kind, [0, 0])
                    both[0] += new_bytes - old_bytes
                    both[1] += new_packets - old_packets
                    if recent is not None:
                        recent[kind] = recent.get(kind, 0.0) + (new_bytes - old_bytes) * part
        for account in new.runs.values():
            name = self.runs.get(account.run_uid)
            if name is None:
                name = RunName(account.namespace, account.run, account.user, account.seen_at)
                self.runs[account.run_uid] = name
            name.user = account.user or name.user
            name.seen_at = max(name.seen_at, account.seen_at)
            self._nodes_of[account.run_uid].add(key)
        stays = {account.run_uid for account in new.runs.values()}
        for account in old.runs.values() if old is not None else ():
            if account.run_uid not in stays:
                self._drop_account(account.run_uid, key)

    def _without_old_runs(self, node: NodeTraffic) -> NodeTraffic:
        def stays(account: RunTraffic) -> bool:
            known = self.runs.get(account.run_uid)
            return max(account.seen_at, known.seen_at if known is not None else -math.inf) > self._forgotten_until

        runs = {key: account for key, account in node.runs.items() if stays(account)}
        return node if len(runs) == len(node.runs) else msgspec.structs.replace(node, runs=runs)

    def _drop_account(self, uid: str, key: NodeLife) -> None:
        self._nodes_of[uid].discard(key)
        if not self._nodes_of[uid]:
            del self._nodes_of[uid], self.runs[uid]
            self._totals.pop(Subject("run", uid), None)

    def _kept_buckets(self, now: float) -> range:
        newest = int(now // _BUCKET_SECONDS)
        return range(newest - WINDOW_SECONDS // _BUCKET_SECONDS + 1, newest + 1)

    def _bucket_of(self, at: float) -> int:
        number = int(at // _BUCKET_SECONDS)
        self._recent.setdefault(number, {})
        for old in [minute for minute in self._recent if minute < number - WINDOW_SECONDS // _BUCKET_SECONDS]:
            del self._recent[old]
        return number


encode_node = msgspec.msgpack.Encoder(order="deterministic").encode
"""Deterministic: equal records have equal bytes, on every server."""
decode_node = msgspec.msgpack.Decoder(NodeTraffic).decode


def _changed_accounts(old: NodeTraffic, new: NodeTraffic) -> Iterator[tuple[Sequence[Subject], Totals, Totals]]:
    """Yield (subjects with a sum that includes it, old totals, new totals) of each account that differs."""
    nothing: Totals = {}
    for key in old.runs.keys() | new.runs.keys():
        before, after = old.runs.get(key), new.runs.get(key)
        totals = before.totals if before is not None else nothing, after.totals if after is not None else nothing
        if totals[0] != totals[1]:
            uid = after.run_uid if after is not None else before.run_uid if before is not None else ""
            yield (Subject("run", uid),), *totals
    for name in old.users.keys() | new.users.keys():
        totals = old.users.get(name, nothing), new.users.get(name, nothing)
        if totals[0] != totals[1]:
            yield (Subject("user", name),), *totals
    node = Subject("node", new.node)
    for name in old.namespaces.keys() | new.namespaces.keys():
        totals = old.namespaces.get(name, nothing), new.namespaces.get(name, nothing)
        if totals[0] != totals[1]:
            yield (Subject("namespace", name), node), *totals
    for totals in ((old.host, new.host), (old.strangers, new.strangers)):
        if totals[0] != totals[1]:
            yield (node,), *totals


def _empty_record(node: NodeTraffic) -> NodeTraffic:
    return NodeTraffic(node=node.node, life=node.life, heard_at=0.0)
