"""What an agent tells of its node's totals, and what whoever hears all agents keeps of it.

All figures are totals that only grow, told whole each time. So a report that comes twice, late, or to somebody else
changes nothing: of each figure the largest is right. That also holds for what several servers kept of one node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from kajitori.core.traffic import MOST_RUNS, Count, Ledger, RunAccount, Totals
from kajitori.errors import Fault, InvalidInput

PATH = "/v1/nodes/{node}/traffic"

_KIND = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?\.(in|out)", re.ASCII)
MOST_KINDS = 64
_MOST_NAMES = 5000

Life = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
Name = Annotated[str, msgspec.Meta(max_length=1024)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """All that a node's agent has counted, but what it has forgotten."""

    life: Life
    """Of the ledger that it counts in."""
    read_at: float
    """When counters were read, in seconds since 1970, by the node's clock."""
    runs: Annotated[tuple[RunAccount, ...], msgspec.Meta(max_length=MOST_RUNS)] = ()
    namespaces: Annotated[dict[Name, Totals], msgspec.Meta(max_length=_MOST_NAMES)] = {}
    users: Annotated[dict[Name, Totals], msgspec.Meta(max_length=_MOST_NAMES)] = {}
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
    """The report in a request's body. Raises InvalidInput."""
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
    for run in report.runs:
        if not run.run_uid or max(map(len, (run.namespace, run.run, run.run_uid, run.user))) > 1024:
            raise InvalidInput.one("runs", "there is one without a UID, or with too long a name", value=run.run[:80])
    return report


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
    return both
