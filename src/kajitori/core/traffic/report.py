"""What an agent tells of its node's totals, and what whoever hears all agents keeps of it.

All figures are totals that only grow, told whole each time. So a report that comes twice, late, or to somebody else
changes nothing: of each figure the largest is right. That also holds for what several servers kept of one node.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec

from kajitori.core.traffic.totals import LONGEST_NAME, MOST_RUNS, Count, Ledger, RunAccount, Totals
from kajitori.errors import Fault, InvalidInput

PATH = "/v1/nodes/{node}/traffic"

_KIND = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?\.(in|out)", re.ASCII)
MOST_KINDS = 64
MOST_NAMES = 5000
"""So many users, and as many namespaces, are kept of one node."""

Life = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """All that a node's agent has counted, but what it has forgotten."""

    life: Life
    """Of the ledger that it counts in."""
    read_at: float
    """When counters were read, in seconds since 1970, by the node's clock."""
    runs: Annotated[tuple[RunAccount, ...], msgspec.Meta(max_length=MOST_RUNS)] = ()
    namespaces: dict[str, Totals] = {}
    users: dict[str, Totals] = {}
    host: Totals = {}
    strangers: Totals = {}
    """Of Pods that nobody remembers."""
    uncounted_pods: _Number = 0
    counters_lost: _Number = 0
    """Since the agent started."""


class RunTraffic(msgspec.Struct, frozen=True, array_like=True):
    """What the Pods of a run received and sent on one node."""

    namespace: str
    run: str
    run_uid: str
    user: str
    seen_at: float
    totals: Totals


class NodeTraffic(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """All that is known of one node, as counted in one ledger."""

    node: str
    life: str
    heard_at: float
    """When the agent was heard last, in seconds since 1970."""
    runs: dict[str, RunTraffic] = {}
    """By UID and when the account was opened."""
    namespaces: dict[str, Totals] = {}
    users: dict[str, Totals] = {}
    host: Totals = {}
    strangers: Totals = {}
    uncounted_pods: int = 0
    counters_lost: int = 0


def report_of(ledger: Ledger, read_at: float, uncounted_pods: int, counters_lost: int) -> Report:
    """What an agent with this ledger tells."""
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
    """The report in a request's body, without the rows that nobody can take: runs without a UID, names that are too
    long, users and namespaces beyond the number that is kept of a node. Raises InvalidInput for anything else."""
    try:
        report = msgspec.json.decode(body, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput.one("body", f"is no report: {error}"[:300], hint="agent and server differ: update") from None
    everything = [*report.namespaces.values(), *report.users.values(), report.host, report.strangers]
    everything += [run.totals for run in report.runs]
    for totals in everything:
        wrong = next((kind for kind in totals if not _KIND.fullmatch(kind)), None)
        if wrong is not None or len(totals) > MOST_KINDS:
            fault = Fault("totals", "are not by class and direction", f"{wrong}"[:80], "such as internet.out")
            raise InvalidInput([fault])
    named = (run for run in report.runs if run.run_uid)
    return msgspec.structs.replace(
        report,
        runs=tuple(run for run in named if _is_short(run.namespace, run.run, run.run_uid, run.user)),
        namespaces=_rows(report.namespaces),
        users=_rows(report.users),
    )


def _is_short(*names: str) -> bool:
    return all(len(name) <= LONGEST_NAME for name in names)


def _rows(sums: Mapping[str, Totals], known: Collection[str] = ()) -> dict[str, Totals]:
    """The rows that are kept of one node: those that are known already come first, then those that moved most."""
    rows = {name: totals for name, totals in sums.items() if _is_short(name)}
    if len(rows) <= MOST_NAMES:
        return rows

    def place(name: str) -> tuple[bool, int, str]:
        return name not in known, -sum(count.bytes for count in rows[name].values()), name

    return {name: rows[name] for name in sorted(rows, key=place)[:MOST_NAMES]}


def heard(report: Report, node: str, now: float) -> NodeTraffic:
    """What a report that came now tells of its node. Times are the hearer's: a node's clock may be wrong."""
    return NodeTraffic(
        node=node,
        life=report.life,
        heard_at=now,
        runs={
            f"{each.run_uid}.{each.opened_at:.3f}": RunTraffic(
                each.namespace,
                each.run,
                each.run_uid,
                each.user,
                now - max(0.0, report.read_at - each.seen_at),
                each.totals,
            )
            for each in report.runs
        },
        namespaces=report.namespaces,
        users=report.users,
        host=report.host,
        strangers=report.strangers,
        uncounted_pods=report.uncounted_pods,
        counters_lost=report.counters_lost,
    )


def merged(one: NodeTraffic, other: NodeTraffic) -> NodeTraffic:
    """What both know of the same node and ledger: of each figure the largest. The order does not matter."""
    older, newer = sorted((one, other), key=lambda each: (each.heard_at, each.uncounted_pods, each.counters_lost))
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
    """Of each figure the largest."""
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
    return _rows(both, older)
