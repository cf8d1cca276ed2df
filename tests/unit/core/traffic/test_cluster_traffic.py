"""Sums over all nodes: each byte counts once, in whatever order and to whichever server it is reported."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.traffic.cluster_traffic import (
    KEEP_NODES_SECONDS,
    KEEP_RUNS_SECONDS,
    ClusterTraffic,
    Subject,
    decode_node,
    encode_node,
)
from kajitori.core.traffic.report import (
    MAX_KINDS,
    MAX_NAMES,
    NodeTraffic,
    Report,
    merge,
    node_traffic,
    read_report,
    report_of,
)
from kajitori.core.traffic.totals import MAX_NAME_LENGTH, Count, Ledger, RunAccount, Totals
from kajitori.errors import InvalidInput

NOW = 1_800_000_000.0
OUT = "internet.out"


def told(
    size: int, *, node: str = "n1", life: str = "0" * 16, at: float = NOW, run: str = "r1", opened_at: float = 1.0
) -> NodeTraffic:
    """Return a report of a node: its run sent this many bytes, the node itself ten."""
    totals = {OUT: Count(size, size)}
    account = RunAccount("vision", "bert", run, "ada", totals, at, opened_at)
    report = Report(
        life=life,
        read_at=at,
        runs=(account,),
        namespaces={"vision": totals},
        users={"ada": totals},
        host={OUT: Count(10, 1)},
    )
    return node_traffic(report, node, at)


def sent(traffic: ClusterTraffic, group: str, key: str) -> int:
    who = msgspec.convert([group, key], Subject)
    return traffic.total(who).get(OUT, Count()).bytes


def test_a_repeated_report_adds_nothing() -> None:
    traffic = ClusterTraffic(NOW)
    for size in (100, 100, 250, 250, 100):
        traffic.add(told(size), NOW)
    traffic.add(told(70, node="n2"), NOW)
    assert [sent(traffic, *who) for who in (("run", "r1"), ("namespace", "vision"), ("user", "ada"))] == [320] * 3
    assert (sent(traffic, "node", "n1"), sent(traffic, "node", "n2")) == (260, 80)
    assert traffic.nodes_of_run("r1") == {"n1": {OUT: Count(250, 250)}, "n2": {OUT: Count(70, 70)}}


def test_totals_that_an_agent_dropped_stay() -> None:
    """Ended runs, a lost ledger, and a new account of a run that returned to the node."""
    traffic = ClusterTraffic(NOW)
    traffic.add(told(100), NOW)
    traffic.add(msgspec.structs.replace(told(100), runs={}), NOW)
    assert sent(traffic, "run", "r1") == 100
    traffic.add(told(30, opened_at=2.0), NOW)
    traffic.add(told(7, life="1" * 16), NOW)
    assert sent(traffic, "run", "r1") == 137


def test_the_latest_report_gives_a_nodes_present_figures() -> None:
    """Late reports, from another server or a lost ledger, do not change them."""
    traffic = ClusterTraffic(NOW)
    uncounted = msgspec.structs.replace(told(5, at=NOW + 60), uncounted_pods=3, counters_lost=2)
    traffic.add(uncounted, NOW + 60)
    traffic.add(told(9, life="1" * 16), NOW + 70)
    heard_last = traffic.nodes["n1"]
    assert (heard_last.heard_at, heard_last.uncounted_pods, heard_last.counters_lost) == (NOW + 60, 3, 2)
    traffic.add(told(10, life="1" * 16, at=NOW + 60), NOW + 80)
    assert traffic.nodes["n1"].uncounted_pods == 0, "of two that are as new, the one that came last"


class Node:
    """A node's agent; its totals only grow."""

    def __init__(self, name: str) -> None:
        self.name, self.life, self.counted = name, 0, 0
        self.runs: dict[str, int] = {}
        self.forgotten: dict[str, int] = {}

    def told(self, at: float) -> NodeTraffic:
        totals = {run: {OUT: Count(size, size)} for run, size in self.runs.items()}
        accounts = tuple(RunAccount("vision", run, run, "ada", total, at, 1.0) for run, total in totals.items())
        namespaces = {"vision": {OUT: Count(self.counted, self.counted)}}
        return node_traffic(
            Report(life=f"{self.life:016x}", read_at=at, runs=accounts, namespaces=namespaces), self.name, at
        )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("count", "tell", "again", "share", "lose")),
        st.integers(0, 1),
        st.integers(0, 2),
        st.sampled_from(("r1", "r2")),
        st.integers(1, 50),
    ),
    max_size=40,
)


@given(STEPS)
def test_all_servers_get_the_same_exact_sums(steps: list[tuple[str, int, int, str, int]]) -> None:
    """Nodes report to one of three servers, repeatedly; servers exchange records; ledgers get lost."""
    nodes, books = [Node("n1"), Node("n2")], [ClusterTraffic(NOW), ClusterTraffic(NOW), ClusterTraffic(NOW)]
    truth, history, at = {"r1": 0, "r2": 0}, [], NOW
    for step, which, server, run, size in steps:
        node, traffic, at = nodes[which], books[server], at + 1
        if step == "count":
            node.runs[run] = node.runs.get(run, 0) + size
            node.counted += size
            truth[run] += size
        elif step == "tell":
            history.append(node.told(at))
            traffic.add(history[-1], at)
        elif step == "again" and history:
            traffic.add(history[size % len(history)], at)
        elif step == "share":
            for record in books[which].records().values():
                traffic.add(decode_node(record), at)
        elif step == "lose":  # after all of it was reported
            history.append(node.told(at))
            books[0].add(history[-1], at)
            node.life, node.runs, node.counted = node.life + 1, {}, 0
    for node in nodes:
        books[1].add(node.told(at), at)
    for one in books * 2:
        for other in books:
            for record in other.records().values():
                one.add(decode_node(record), at)
    for traffic in books:
        assert {run: sent(traffic, "run", run) for run in truth} == truth
        assert sent(traffic, "namespace", "vision") == sum(truth.values())
        assert traffic.records() == books[0].records(), "to the byte, or servers would write for ever"


@given(st.permutations([told(5), told(9, at=NOW + 5), told(7, at=NOW + 3, opened_at=4.0)]))
def test_the_order_of_reports_does_not_matter(reports: list[NodeTraffic]) -> None:
    whole = reports[0]
    for report in reports[1:]:
        whole = merge(whole, report)
    other = merge(merge(told(7, at=NOW + 3, opened_at=4.0), told(9, at=NOW + 5)), told(5))
    assert encode_node(whole) == encode_node(other)


def test_rates_cover_the_last_minutes() -> None:
    """After a long silence, not everything in a report is recent."""
    traffic, who = ClusterTraffic(NOW - 3600), Subject("run", "r1")
    traffic.add(told(10_000), NOW)
    assert traffic.rates(who, NOW) == {}, "it may be of any time"
    traffic.add(told(40_000, at=NOW + 60), NOW + 60)
    assert traffic.rates(who, NOW + 60)[OUT] == pytest.approx(30_000 / 300, rel=0.3)
    assert traffic.rates(who, NOW + 900) == {}
    traffic.add(told(70_000, at=NOW + 3060), NOW + 3060)
    assert traffic.rates(who, NOW + 3060)[OUT] == pytest.approx(3_000 / 300, rel=0.3)


def test_old_runs_are_dropped_as_a_whole() -> None:
    """Even if another server still reports them; sums of namespaces stay."""
    traffic, later = ClusterTraffic(NOW), NOW + KEEP_RUNS_SECONDS
    traffic.add(told(100), NOW)
    traffic.add(told(5, node="n2", at=later), later)
    traffic.forget_old(later + 10)
    assert sent(traffic, "run", "r1") == 105, "it is still there, on another node"
    traffic.add(told(50, run="r2"), NOW)
    traffic.forget_old(later + 10)
    traffic.add(told(50, run="r2"), later + 10)
    assert (sent(traffic, "run", "r2"), "r2" in traffic.runs) == (0, False)
    assert sent(traffic, "namespace", "vision") == 105


def test_the_number_of_accounts_is_limited() -> None:
    """Runs that ended first are dropped first."""
    traffic = ClusterTraffic(NOW, max_accounts=3)
    for number in range(6):
        traffic.add(told(10, node=f"n{number % 2}", run=f"r{number}", at=NOW + number), NOW + number)
    traffic.forget_old(NOW + 10)
    assert set(traffic.runs) == {"r3", "r4", "r5"}
    assert sum(len(decode_node(record).runs) for record in traffic.records().values()) == 3


def test_nodes_that_stopped_reporting_are_dropped() -> None:
    traffic, later = ClusterTraffic(NOW), NOW + KEEP_NODES_SECONDS + 1
    traffic.add(told(100), NOW)
    traffic.forget_old(later)
    traffic.add(told(100), later)
    assert (dict(traffic.records()), traffic.nodes, sent(traffic, "namespace", "vision")) == ({}, {}, 0)
    assert (traffic.ranked("node", "internet", later), traffic.ranked("run", "internet", later)) == ([], [])


def test_a_dropped_node_changes_no_other_sums() -> None:
    """Only its own part leaves the sums, for all of its ledgers; a node that reported just in time stays."""
    traffic, later = ClusterTraffic(NOW), NOW + KEEP_NODES_SECONDS
    traffic.add(told(100), NOW)
    traffic.add(told(30, life="1" * 16), NOW)
    traffic.add(told(7, node="n2", at=NOW + 5), NOW + 5)
    traffic.forget_old(later)
    assert sent(traffic, "namespace", "vision") == 137
    traffic.forget_old(later + 5)
    assert (set(traffic.nodes), sent(traffic, "namespace", "vision"), sent(traffic, "node", "n2")) == ({"n2"}, 7, 17)
    assert [who.key for who in traffic.ranked("node", "internet", later + 5)] == ["n2"]


def test_subjects_are_ranked_by_recent_traffic() -> None:
    """Most recent traffic first, then most traffic in total, then by name; both directions count."""
    traffic = ClusterTraffic(NOW - 3600)
    for name, before, after in (("a", 10, 0), ("b", 900, 0), ("c", 10, 50), ("d", 10, 0)):
        for size, at in ((before, NOW), (before + after, NOW + 60)):
            totals = {"internet.in": Count(size, 1), "storage.out": Count(10_000 if name == "d" else 0, 1)}
            account = RunAccount("vision", name, name, "ada", totals, at, 1.0)
            traffic.add(node_traffic(Report(life="a" * 16, read_at=at, runs=(account,)), f"n-{name}", at), at)
    now = NOW + 61
    assert [who.key for who in traffic.ranked("run", "internet", now)] == ["c", "b", "a", "d"]
    assert [who.key for who in traffic.ranked("run", "storage", now)] == ["d", "a", "b", "c"]
    assert [who.key for who in traffic.ranked("run", "internet", now + 900)] == ["b", "c", "a", "d"]


def test_a_nodes_clock_may_be_wrong() -> None:
    """Only the age of a run in the report counts."""
    run = RunAccount("vision", "bert", "r1", "ada", {OUT: Count(5, 1)}, 40.0)
    told_by = node_traffic(Report(life="a" * 16, read_at=100.0, runs=(run,)), "n1", NOW)
    assert [run.seen_at for run in told_by.runs.values()] == [NOW - 60]


def test_a_run_that_was_seen_after_the_reading_was_seen_now() -> None:
    """A time in the future becomes now."""
    run = RunAccount("vision", "bert", "r1", "ada", {OUT: Count(5, 1)}, 140.0)
    (seen,) = node_traffic(Report(life="a" * 16, read_at=100.0, runs=(run,)), "n1", NOW).runs.values()
    assert seen.seen_at == NOW


def test_a_runs_user_is_kept_once_known() -> None:
    """An agent may learn it late; reports without it do not remove it."""
    known, unknown = told(5), told(5, at=NOW + 5)
    unknown = msgspec.structs.replace(
        unknown, runs={key: msgspec.structs.replace(run, user="") for key, run in unknown.runs.items()}
    )
    for one, other in ((known, unknown), (unknown, known)):
        (run,) = merge(one, other).runs.values()
        assert (run.user, run.seen_at) == ("ada", NOW + 5)


@pytest.mark.parametrize("place", ["host", "strangers", "users", "namespaces", "runs"])
def test_totals_are_checked_everywhere_in_a_report(place: str) -> None:
    """No more kinds than classes can give, and only valid ones, because they become labels of metrics."""

    def report(totals: Totals) -> bytes:
        run = RunAccount("vision", "bert", "r1", "ada", totals, NOW)
        said = {"runs": [run], "users": {"ada": totals}, "namespaces": {"vision": totals}}
        return msgspec.json.encode({"life": "a" * 16, "readAt": NOW, place: said.get(place, totals)})

    most = {f"c{number}.in": Count(1, 1) for number in range(MAX_KINDS)}
    assert read_report(report(most))
    for wrong in (most | {"one-more.in": Count(1, 1)}, {"up": Count(1, 1)}):
        with pytest.raises(InvalidInput, match="class and direction"):
            read_report(report(wrong))


def test_a_report_is_read_back_and_other_bodies_are_refused() -> None:
    totals = {OUT: Count(5, 1)}
    run = RunAccount("vision", "bert", "r1", "ada", totals, NOW, NOW - 5)
    ledger = Ledger(life="a" * 16, runs={"r1": run}, namespaces={"vision": totals}, host=totals)
    report = report_of(ledger, NOW, 2, 3)
    assert read_report(msgspec.json.encode(report)) == report
    for wrong in (
        b"{",
        b'{"life": "x", "readAt": 1}',
        msgspec.json.encode({"life": "a" * 16, "readAt": 1, "host": {OUT: [-1, 1]}}),
        msgspec.json.encode({"life": "a" * 16, "readAt": 1, "host": {"up": [1, 1]}}),
        msgspec.json.encode({"life": "a" * 16, "readAt": 1, "host": {'x".in': [1, 1]}}),
    ):
        with pytest.raises(InvalidInput):
            read_report(wrong)


def test_rows_that_cannot_be_stored_are_left_out() -> None:
    """Names that are too long, and too many users; the rest of the report counts.

    Once, an owner of 1,025 characters on a Run made a node's whole report be refused.
    """
    totals = {OUT: Count(100, 1)}
    accounts = [
        RunAccount("vision", name, uid, user, totals, NOW, 1.0)
        for name, uid, user in (
            ("bert", "r1", "ada"),
            ("long", "r2", "x" * (MAX_NAME_LENGTH + 1)),
            ("none", "", "ada"),
            ("gpt", "r3", "x" * MAX_NAME_LENGTH),
        )
    ]
    forged = {f"forged-{number}": {OUT: Count(1, 1)} for number in range(MAX_NAMES + 10)}
    report = Report(
        life="a" * 16,
        read_at=NOW,
        runs=tuple(accounts),
        namespaces={"vision": totals, "x" * (MAX_NAME_LENGTH + 1): totals},
        users={**forged, "ada": totals, "y" * (MAX_NAME_LENGTH + 1): totals},
    )
    found = read_report(msgspec.json.encode(report))
    assert [run.run for run in found.runs] == ["bert", "gpt"]
    assert list(found.namespaces) == ["vision"]
    assert len(found.users) == MAX_NAMES and found.users["ada"] == totals
    known = node_traffic(found, "n1", NOW)
    others = {f"other-{number}": {OUT: Count(10**9, 1)} for number in range(MAX_NAMES)}
    later = msgspec.structs.replace(known, heard_at=NOW + 60, users=others)
    assert merge(known, later).users.keys() == found.users.keys(), "who is known stays"
