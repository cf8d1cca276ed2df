"""Reports of a node's traffic totals, as an agent sends them and as a server keeps them.

All figures are totals that only grow, and every report has all of them. A report that arrives twice, late, or at
another server therefore changes nothing: the largest value of each figure is right. The same holds when the records of
several servers about one node are merged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec

from kajitori.core.traffic.totals import MAX_NAME_LENGTH, MAX_RUNS, Count, Ledger, RunAccount, Totals
from kajitori.errors import Fault, InvalidInput

PATH = "/v1/nodes/{node}/traffic"

_KIND = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?\.(in|out)", re.ASCII)
MAX_KINDS = 64
MAX_NAMES = 5000
"""Most users, and most namespaces, that are kept per node."""

Life = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """Everything that a node's agent has counted and not forgotten."""

    life: Life
    """Identifies the agent's ledger."""
    read_at: float
    """When the counters were read, in seconds since 1970 by the node's clock."""
    runs: Annotated[tuple[RunAccount, ...], msgspec.Meta(max_length=MAX_RUNS)] = ()
    namespaces: dict[str, Totals] = {}
    users: dict[str, Totals] = {}
    host: Totals = {}
    strangers: Totals = {}
    """Totals of Pods that the agent no longer knows."""
    uncounted_pods: _Number = 0
    counters_lost: _Number = 0
    """Number since the agent started."""


class RunTraffic(msgspec.Struct, frozen=True, array_like=True):
    """Traffic of a run's Pods on one node."""

    namespace: str
    run: str
    run_uid: str
    user: str
    seen_at: float
    totals: Totals


class NodeTraffic(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Everything known of one node's traffic, from one ledger."""

    node: str
    life: str
    heard_at: float
    """When the agent last reported, in seconds since 1970."""
    runs: dict[str, RunTraffic] = {}
    """By the run's UID and the time at which the account was opened."""
    namespaces: dict[str, Totals] = {}
    users: dict[str, Totals] = {}
    host: Totals = {}
    strangers: Totals = {}
    uncounted_pods: int = 0
    counters_lost: int = 0


def report_of(ledger: Ledger, read_at: float, uncounted_pods: int, counters_lost: int) -> Report:
    """Return the report of an agent with this ledger."""
    return Report(
        life=ledger.life,
        read_at=read_at,
        runs=tuple(ledger.runs.values()),
        namespaces=ledger.namespaces,
        users=ledger.users,
        host=ledger.host,
        strangers=ledger.strangers,
        uncounted_pods=uncounted_pods,
        counters_lost=counters_lost,
    )


def read_report(body: bytes) -> Report:
    """Return the report in a request's body, without the rows that cannot be stored.

    Dropped are runs without a UID, names that are too long, and users and namespaces beyond MAX_NAMES. Raises
    InvalidInput for anything that is no report.
    """
    try:
        report = msgspec.json.decode(body, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput.one("body", f"is no report: {error}"[:300], hint="agent and server differ: update") from None
    everything = [*report.namespaces.values(), *report.users.values(), report.host, report.strangers]
    everything += [run.totals for run in report.runs]
    for totals in everything:
        wrong = next((kind for kind in totals if not _KIND.fullmatch(kind)), None)
        if wrong is not None or len(totals) > MAX_KINDS:
            fault = Fault("totals", "are not by class and direction", f"{wrong}"[:80], "such as internet.out")
            raise InvalidInput([fault])
    named = (run for run in report.runs if run.run_uid)
    return msgspec.structs.replace(
        report,
        runs=tuple(run for run in named if _is_short(run.namespace, run.run, run.run_uid, run.user)),
        namespaces=_kept_rows(report.namespaces),
        users=_kept_rows(report.users),
    )


def _is_short(*names: str) -> bool:
    return all(len(name) <= MAX_NAME_LENGTH for name in names)


def _kept_rows(sums: Mapping[str, Totals], known: Collection[str] = ()) -> dict[str, Totals]:
    """Return the rows kept for one node: rows that were known before come first, then those with most traffic."""
    rows = {name: totals for name, totals in sums.items() if _is_short(name)}
    if len(rows) <= MAX_NAMES:
        return rows

    def place(name: str) -> tuple[bool, int, str]:
        return name not in known, -sum(count.bytes for count in rows[name].values()), name

    return {name: rows[name] for name in sorted(rows, key=place)[:MAX_NAMES]}


def node_traffic(report: Report, node: str, now: float) -> NodeTraffic:
    """Return a node's traffic from its report. Times are the receiver's: the node's clock may be wrong."""
    return NodeTraffic(
        node=node,
        life=report.life,
        heard_at=now,
        runs={
            f"{run.run_uid}.{run.opened_at:.3f}": RunTraffic(
                run.namespace,
                run.run,
                run.run_uid,
                run.user,
                now - max(0.0, report.read_at - run.seen_at),
                run.totals,
            )
            for run in report.runs
        },
        namespaces=report.namespaces,
        users=report.users,
        host=report.host,
        strangers=report.strangers,
        uncounted_pods=report.uncounted_pods,
        counters_lost=report.counters_lost,
    )


def merge(one: NodeTraffic, other: NodeTraffic) -> NodeTraffic:
    """Return both records of the same node and ledger together: the largest value of each figure, in any order."""
    older, newer = sorted((one, other), key=lambda node: (node.heard_at, node.uncounted_pods, node.counters_lost))
    runs = dict(older.runs)
    for key, run in newer.runs.items():
        runs[key] = _merged_run(runs[key], run) if key in runs else run
    return NodeTraffic(
        node=newer.node,
        life=newer.life,
        heard_at=newer.heard_at,
        runs=runs,
        namespaces=_merged_names(older.namespaces, newer.namespaces),
        users=_merged_names(older.users, newer.users),
        host=largest(older.host, newer.host),
        strangers=largest(older.strangers, newer.strangers),
        uncounted_pods=newer.uncounted_pods,
        counters_lost=newer.counters_lost,
    )


def largest(one: Totals, other: Totals) -> Totals:
    """Return the larger value of each figure."""
    if one == other:
        return one
    both = dict(one)
    for kind, count in other.items():
        before = both.get(kind, count)
        if before != count:
            count = Count(max(before.bytes, count.bytes), max(before.packets, count.packets))
        both[kind] = count
    return both


def _merged_run(older: RunTraffic, newer: RunTraffic) -> RunTraffic:
    user = max(older.user, newer.user) if older.user and newer.user else older.user or newer.user
    return RunTraffic(
        newer.namespace,
        newer.run,
        newer.run_uid,
        user,
        max(older.seen_at, newer.seen_at),
        largest(older.totals, newer.totals),
    )


def _merged_names(older: Mapping[str, Totals], newer: Mapping[str, Totals]) -> dict[str, Totals]:
    both = dict(older)
    for name, totals in newer.items():
        both[name] = largest(both[name], totals) if name in both else totals
    return _kept_rows(both, older)
