"""Which clients grow with the cluster, and what is said of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.api_clients import KUBELETS, Ask, Client, DaemonSet, Report, Request, Scope, book, report

SPY = Client("system:serviceaccount:monitoring:spy", "spy")
LIST_PODS = Ask("list", "pods", Scope.ALL, from_store=True)
WATCH_PODS = Ask("watch", "pods", Scope.ALL)
OWN_PODS = Ask("watch", "pods", Scope.SELECTED)
MINUTE = 60.0


def each_minute(client: Client, ask: Ask, instances: int, minutes: int = 10) -> list[Request]:
    """Requests of as many instances, one a minute each."""
    return [
        Request(client, f"node-{number}", ask, minute * MINUTE, minute * MINUTE)
        for number in range(instances)
        for minute in range(minutes + 1)
    ]


def watches(client: Client, ask: Ask, instances: int) -> list[Request]:
    """Watches of as many instances, open since the log began."""
    return [Request(client, f"node-{number}", ask, 0.0, None) for number in range(instances)]


def judged(requests: list[Request], *sets: DaemonSet, nodes: int = 100, **changes: int) -> Report:
    numbers = {"kubelets": nodes, "planned_nodes": 7500} | changes
    return report(book(requests), sets, {}, nodes=nodes, **numbers)


def test_who_is_on_every_node_grows_and_is_told_what_to_change() -> None:
    """By what each instance asks now it is said what as many nodes as are planned would ask."""
    found = judged(each_minute(SPY, LIST_PODS, 100) + watches(SPY, WATCH_PODS, 100)).growing
    (spy,) = found
    assert (spy.client, spy.instances, spy.reads_all) == ("monitoring/spy (spy)", 100, ("pods",))
    assert spy.requests_per_minute == pytest.approx(1.1)
    assert spy.watches == pytest.approx(1.0)
    assert spy.requests_per_second_then == pytest.approx(7500 * 1.1 / 60)
    assert spy.watches_then == pytest.approx(7500)
    assert [fix.partition(":")[0] for fix in spy.fixes] == [
        "let each instance ask for its own node's Pods",
        "watch pods instead of listing again and again",
        "list with resourceVersion=0",
    ]


def test_who_asks_for_his_own_part_is_told_nothing() -> None:
    """One list at the start is no polling."""
    first_list = [Request(SPY, f"node-{n}", Ask("list", "pods", Scope.SELECTED), 0.0, 0.0) for n in range(100)]
    rare = each_minute(SPY, Ask("get", "nodes", Scope.SELECTED), 100)
    (spy,) = judged(watches(SPY, OWN_PODS, 100) + first_list + rare).growing
    assert (spy.fixes, spy.reads_all) == ((), ())


def test_what_is_done_often_by_each_is_named() -> None:
    often = [
        Request(SPY, f"node-{n}", Ask("patch", "nodes/status", Scope.SELECTED), second, second)
        for n in range(100)
        for second in range(0, 120, 5)
    ]
    (spy,) = judged(often).growing
    assert spy.fixes == ("patch nodes/status less often than 13 times a minute",)


@pytest.mark.parametrize(
    ("instances", "nodes", "grows"),
    [(1, 100, False), (49, 100, False), (50, 100, True), (100, 100, True), (2, 2, False), (1, 1, False), (3, 3, True)],
)
def test_half_of_the_nodes_are_every_node(instances: int, nodes: int, grows: bool) -> None:
    """With fewer than three nodes nothing can be told from the number of instances."""
    assert bool(judged(watches(SPY, OWN_PODS, instances), nodes=nodes).growing) is grows


def test_a_daemonsets_account_grows_however_few_nodes_it_was_seen_on() -> None:
    """It is on few nodes now, and stays on that share of them."""
    pods = DaemonSet("monitoring", "spy", "spy", 2, ("pods",))
    found = judged(each_minute(SPY, LIST_PODS, 10), pods, nodes=100)
    (spy,) = found.growing
    assert spy.daemon_sets == ("monitoring/spy",)
    assert spy.requests_per_second_then == pytest.approx(750 * 1.1 / 60)
    assert not found.suspects


def test_daemonsets_that_may_read_all_are_named_where_no_log_shows_them() -> None:
    sets = [DaemonSet("a", "reads", "reads", 9, ("pods",)), DaemonSet("a", "plain", "default", 9)]
    found = report(None, sets, {}, nodes=9, kubelets=9, planned_nodes=7500)
    assert [each.name for each in found.suspects] == ["reads"]
    assert (found.growing, found.largest) == ((), ())


def test_kubelets_are_one_client_and_need_no_fix() -> None:
    busy = each_minute(Client(KUBELETS), Ask("update", "leases", Scope.SELECTED), 100) * 10
    (kubelets,) = judged(busy).growing
    assert (kubelets.client, kubelets.instances, kubelets.fixes) == (KUBELETS, 100, ())


def test_others_are_named_by_how_much_they_ask() -> None:
    one, two = Client("alice", "kubectl"), Client("bob", "kubectl")
    found = judged(each_minute(one, LIST_PODS, 1, 2) + each_minute(two, LIST_PODS, 1, 5))
    assert [(each.client, round(each.share, 2)) for each in found.largest] == [
        ("bob (kubectl)", 0.67),
        ("alice (kubectl)", 0.33),
    ]


def test_open_watches_are_many_beyond_those_of_kubelets() -> None:
    counts = {"pods": 205, "nodes": 101, "secrets": 60, "configmaps": 4}
    found = report(None, (), counts, nodes=100, kubelets=100, planned_nodes=7500).watched
    assert [(each.resource, each.besides_kubelets) for each in found] == [("pods", 105), ("secrets", 60)]
    assert not report(None, (), {"pods": 9}, nodes=2, kubelets=0, planned_nodes=9).watched


@given(
    st.lists(
        st.builds(
            Request,
            st.sampled_from([SPY, Client(KUBELETS), Client("alice", "kubectl")]),
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from([LIST_PODS, WATCH_PODS, OWN_PODS]),
            st.floats(0, 1000),
            st.none() | st.floats(1000, 2000),
        )
    ),
    st.integers(0, 10),
)
def test_whatever_was_asked_every_client_is_told_of_once_at_most(requests: list[Request], nodes: int) -> None:
    """Shares are parts of a whole; nothing is divided by nothing."""
    found = judged(requests, nodes=nodes)
    named = [each.client for each in found.growing] + [each.client for each in found.largest]
    assert len(named) == len(set(named)) <= len({each.client for each in requests})
    assert sum(each.share for each in found.largest) <= 1 + 1e-9
    assert all(each.watches >= 0 and each.requests_per_minute >= 0 for each in found.growing)
