"""Who talked to whom in the whole cluster: sums over all nodes, as their agents tell, and how fast it goes now.

What each node told is kept as it would be stored, some kilobytes a node; the sums follow every report by what is new
in it, so that an answer costs nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from kajitori.core.traffic.report import NodeTraffic, RunTraffic, merged
from kajitori.core.traffic.totals import DIRECTIONS, Count, Totals, added

KEEP_RUNS_SECONDS = 30 * 86_400.0
"""Totals of a run are kept so long after its last Pod; less long where there are too many."""
MOST_ACCOUNTS = 1_000_000
"""Of runs on nodes: some 200 bytes each."""
KEEP_NODES_SECONDS = 400 * 86_400.0
"""What a node told counts for so long after it was heard last."""

WINDOW_SECONDS = 300
"""Rates are of so much time."""
_BUCKET_SECONDS = 60
_NONE = Count()

Group = Literal["run", "user", "namespace", "node"]
NodeLife = tuple[str, str]


class Who(NamedTuple):
    """Whose sum it is."""

    group: Group
    key: str
    """UID of the run, else the name."""


@dataclass(slots=True)
class RunName:
    """What is known of a run that was counted."""

    namespace: str
    run: str
    user: str
    seen_at: float


@dataclass(frozen=True, slots=True)
class Heard:
    """How a node was heard last."""

    heard_at: float
    uncounted_pods: int
    counters_lost: int


class Book:
    """Sums of traffic. All times are seconds since 1970."""

    def __init__(self, now: float, most_accounts: int = MOST_ACCOUNTS) -> None:
        self._began = now
        self._most_accounts = most_accounts
        self._forgotten_until = -math.inf
        """Runs that had no Pod since then are not kept."""
        self._records: dict[NodeLife, bytes] = {}
        self._totals: dict[Who, dict[str, list[int]]] = {}
        """Bytes and packets by kind."""
        self._recent: dict[int, dict[Who, dict[str, float]]] = {}
        """Bytes by kind, of the last minutes."""
        self._nodes_of: dict[str, set[NodeLife]] = defaultdict(set)
        """By UID of the run: where it has accounts."""
        self.runs: dict[str, RunName] = {}
        """By UID."""
        self.nodes: dict[str, Heard] = {}

    # ------------------------------------------------------------------------------------------ what comes in

    def take(self, told: NodeTraffic, now: float) -> None:
        """Books what is new in it; nothing twice."""
        if now - told.heard_at > KEEP_NODES_SECONDS:
            return
        key = told.node, told.life
        known = self._records.get(key)
        old = decode_node(known) if known is not None else None
        new = self._without_old_runs(merged(old, told) if old is not None else told)
        record = encode_node(new)
        if record == known:
            return
        # What a node that was not known brings along was counted at some time, which is not now.
        gap = new.heard_at - old.heard_at if old is not None else 0.0
        bucket = self._bucket(new.heard_at) if gap > 0 and now - new.heard_at < WINDOW_SECONDS else None
        self._replace(key, old, new, bucket, min(1.0, WINDOW_SECONDS / gap) if gap > 0 else 0.0)
        self._records[key] = record
        last = self.nodes.get(told.node)
        if last is None or last.heard_at <= new.heard_at:
            self.nodes[told.node] = Heard(new.heard_at, new.uncounted_pods, new.counters_lost)

    def forget_old(self, now: float) -> None:
        """Lets go of runs that ended long ago, of those that ended first where there are too many, and of nodes that
        nobody heard for very long. A run is forgotten as a whole: what is told of one is true."""
        for node in [name for name, heard in self.nodes.items() if now - heard.heard_at > KEEP_NODES_SECONDS]:
            del self.nodes[node]
            for key in [key for key in self._records if key[0] == node]:
                gone = decode_node(self._records.pop(key))
                self._replace(key, gone, _nothing_of(gone), None, 0.0)
            self._totals.pop(Who("node", node), None)
        self._forgotten_until = max(self._forgotten_until, now - KEEP_RUNS_SECONDS)
        spare = sum(map(len, self._nodes_of.values())) - self._most_accounts
        for uid, run in sorted(self.runs.items(), key=lambda item: item[1].seen_at):
            if spare > 0:
                self._forgotten_until = max(self._forgotten_until, run.seen_at)
            if run.seen_at > self._forgotten_until:
                break
            spare -= len(self._nodes_of[uid])
            for key in list(self._nodes_of[uid]):
                old = decode_node(self._records[key])
                new = self._without_old_runs(old)
                self._replace(key, old, new, None, 0.0)
                self._records[key] = encode_node(new)

    def records(self) -> dict[NodeLife, bytes]:
        """What is known of every node, as it is stored."""
        return self._records

    # ------------------------------------------------------------------------------------------ what is asked

    def ranked(self, group: Group, address_class: str, now: float) -> list[Who]:
        """All of a group, who moves most of late with addresses of a class first, then who moved most at all."""
        kinds = [f"{address_class}.{direction}" for direction in DIRECTIONS]
        lately: dict[Who, float] = defaultdict(float)
        for number in self._buckets(now):
            for who, sizes in self._recent.get(number, {}).items():
                if who.group == group:
                    lately[who] += sum(sizes.get(kind, 0.0) for kind in kinds)

        def much(who: Who) -> tuple[float, int, str]:
            sums = self._totals[who]
            return -lately.get(who, 0.0), -sum(sums[kind][0] for kind in kinds if kind in sums), who.key

        return sorted((who for who in self._totals if who.group == group), key=much)

    def classes(self) -> set[str]:
        """Of addresses that anybody talked to."""
        nodes = (sums for who, sums in self._totals.items() if who.group == "node")
        return {kind.rpartition(".")[0] for sums in nodes for kind in sums}

    def total(self, who: Who) -> Totals:
        """One sum."""
        return {kind: Count(*sums) for kind, sums in self._totals.get(who, {}).items()}

    def rates(self, who: Who, now: float) -> dict[str, float]:
        """Bytes a second of late, by kind."""
        buckets = self._buckets(now)
        seconds = max(_BUCKET_SECONDS, now - max(buckets[0] * _BUCKET_SECONDS, self._began))
        sums: dict[str, float] = defaultdict(float)
        for number in buckets:
            for kind, size in self._recent.get(number, {}).get(who, {}).items():
                sums[kind] += size
        return {kind: size / seconds for kind, size in sums.items()}

    def nodes_of_run(self, uid: str) -> dict[str, Totals]:
        """What a run received and sent, by node."""
        found: dict[str, Totals] = {}
        for key in self._nodes_of.get(uid, ()):
            for account in decode_node(self._records[key]).runs.values():
                if account.run_uid == uid:
                    found[key[0]] = added(found.get(key[0], {}), account.totals)
        return found

    # ------------------------------------------------------------------------------------------ inside

    def _replace(
        self, key: NodeLife, old: NodeTraffic | None, new: NodeTraffic, bucket: int | None, part: float
    ) -> None:
        """What a node told is another now: sums change by the difference. part: how much of that was of late."""
        for whose, before, after in _changed(old or _nothing_of(new), new):
            for who in whose:
                sums = self._totals.setdefault(who, {})
                recent = self._recent[bucket].setdefault(who, {}) if bucket is not None else None
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
                self._left(account.run_uid, key)

    def _without_old_runs(self, node: NodeTraffic) -> NodeTraffic:
        def stays(account: RunTraffic) -> bool:
            known = self.runs.get(account.run_uid)
            return max(account.seen_at, known.seen_at if known is not None else -math.inf) > self._forgotten_until

        runs = {key: account for key, account in node.runs.items() if stays(account)}
        return node if len(runs) == len(node.runs) else msgspec.structs.replace(node, runs=runs)

    def _left(self, uid: str, key: NodeLife) -> None:
        self._nodes_of[uid].discard(key)
        if not self._nodes_of[uid]:
            del self._nodes_of[uid], self.runs[uid]
            self._totals.pop(Who("run", uid), None)

    def _buckets(self, now: float) -> range:
        newest = int(now // _BUCKET_SECONDS)
        return range(newest - WINDOW_SECONDS // _BUCKET_SECONDS + 1, newest + 1)

    def _bucket(self, at: float) -> int:
        number = int(at // _BUCKET_SECONDS)
        self._recent.setdefault(number, {})
        for old in [each for each in self._recent if each < number - WINDOW_SECONDS // _BUCKET_SECONDS]:
            del self._recent[old]
        return number


encode_node = msgspec.msgpack.Encoder(order="deterministic").encode
"""The same bytes for the same content, whoever put it together."""
decode_node = msgspec.msgpack.Decoder(NodeTraffic).decode


def _changed(old: NodeTraffic, new: NodeTraffic) -> Iterator[tuple[Sequence[Who], Totals, Totals]]:
    """(whose sums it is part of, what it was, what it is) of each account that is another one now."""
    nothing: Totals = {}
    for key in old.runs.keys() | new.runs.keys():
        before, after = old.runs.get(key), new.runs.get(key)
        totals = before.totals if before is not None else nothing, after.totals if after is not None else nothing
        if totals[0] != totals[1]:
            uid = after.run_uid if after is not None else before.run_uid if before is not None else ""
            yield (Who("run", uid),), *totals
    for name in old.users.keys() | new.users.keys():
        totals = old.users.get(name, nothing), new.users.get(name, nothing)
        if totals[0] != totals[1]:
            yield (Who("user", name),), *totals
    node = Who("node", new.node)
    for name in old.namespaces.keys() | new.namespaces.keys():
        totals = old.namespaces.get(name, nothing), new.namespaces.get(name, nothing)
        if totals[0] != totals[1]:
            yield (Who("namespace", name), node), *totals
    for totals in ((old.host, new.host), (old.strangers, new.strangers)):
        if totals[0] != totals[1]:
            yield (node,), *totals


def _nothing_of(node: NodeTraffic) -> NodeTraffic:
    return NodeTraffic(node=node.node, life=node.life, heard_at=0.0)
