"""The report on clients that load the API server more as the cluster grows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.protection.api_clients import (
    KUBELETS,
    Ask,
    Client,
    DaemonSet,
    Report,
    Request,
    Scope,
    report,
    requests_by_client,
)

SPY = Client("system:serviceaccount:monitoring:spy", "spy")
LIST_PODS = Ask("list", "pods", Scope.ALL, from_store=True)
WATCH_PODS = Ask("watch", "pods", Scope.ALL)
OWN_PODS = Ask("watch", "pods", Scope.SELECTED)
OWN_LIST = Ask("list", "pods", Scope.SELECTED, from_store=True)
MINUTE = 60.0


def each_minute(client: Client, ask: Ask, instances: int, minutes: int = 10) -> list[Request]:
    """Return requests of this many instances, one a minute each."""
    return [
        Request(client, f"node-{number}", ask, minute * MINUTE, minute * MINUTE)
        for number in range(instances)
        for minute in range(minutes + 1)
    ]


def watches(client: Client, ask: Ask, instances: int) -> list[Request]:
    """Return watches of this many instances, open since the log began."""
    return [Request(client, f"node-{number}", ask, 0.0, None) for number in range(instances)]


def report_on(requests: list[Request], *sets: DaemonSet, nodes: int = 100, **changes: int) -> Report:
    numbers = {"kubelets": nodes, "planned_nodes": 7500} | changes
    return report(requests_by_client(requests), sets, {}, nodes=nodes, **numbers)


def test_a_client_on_every_node_is_reported_with_a_forecast_and_fixes() -> None:
    """The forecast scales the requests of each instance to the planned number of nodes."""
    found = report_on(each_minute(SPY, LIST_PODS, 100) + watches(SPY, WATCH_PODS, 100)).growing
    (spy,) = found
    assert (spy.client, spy.instances, spy.reads_all) == ("monitoring/spy (spy)", 100, ("pods",))
    assert spy.requests_per_minute == pytest.approx(1.1)
    assert spy.watches == pytest.approx(1.0)
    assert spy.requests_per_second_then == pytest.approx(7500 * 1.1 / 60)
    assert spy.watches_then == pytest.approx(7500)
    assert [fix.partition(":")[0] for fix in spy.fixes] == [
        "let each instance read its own node's Pods only",
        "watch pods instead of listing them repeatedly",
        "list with resourceVersion=0",
    ]


@pytest.mark.parametrize(
    ("client", "name"),
    [
        (Client("system:serviceaccount:monitoring:spy", "spy"), "monitoring/spy (spy)"),
        (Client("system:serviceaccount:monitoring:spy"), "monitoring/spy"),
        (Client("system:kube-scheduler", "kube-scheduler"), "system:kube-scheduler (kube-scheduler)"),
        (Client("oidc:alice", "kubectl"), "oidc:alice (kubectl)"),
    ],
)
def test_clients_have_readable_names(client: Client, name: str) -> None:
    """A service account is named by its namespace, other users as the API server knows them."""
    assert client.name == name


def test_the_only_list_that_bypasses_the_cache_is_reported() -> None:
    (spy,) = report_on(each_minute(SPY, LIST_PODS, 100) + each_minute(SPY, Ask("get", "nodes", Scope.ALL), 100)).growing
    assert any("resourceVersion=0" in fix for fix in spy.fixes)


def test_a_client_that_reads_only_its_own_part_gets_no_advice() -> None:
    """One list at its start is no polling."""
    first_list = [Request(SPY, f"node-{n}", Ask("list", "pods", Scope.SELECTED), 0.0, 0.0) for n in range(100)]
    rare = each_minute(SPY, Ask("get", "nodes", Scope.SELECTED), 100)
    (spy,) = report_on(watches(SPY, OWN_PODS, 100) + first_list + rare).growing
    assert (spy.fixes, spy.reads_all) == ((), ())


def test_deleting_a_collection_does_not_count_as_reading() -> None:
    (spy,) = report_on(each_minute(SPY, Ask("deletecollection", "pods", Scope.ALL), 100)).growing
    assert (spy.fixes, spy.reads_all) == ((), ())


def test_frequent_requests_of_each_instance_are_named() -> None:
    often = [
        Request(SPY, f"node-{n}", Ask("patch", "nodes/status", Scope.SELECTED), second, second)
        for n in range(100)
        for second in range(0, 120, 5)
    ]
    (spy,) = report_on(often).growing
    assert spy.fixes == ("patch nodes/status less often than 13 times a minute",)


@pytest.mark.parametrize(
    ("instances", "nodes", "grows"),
    [(1, 100, False), (49, 100, False), (50, 100, True), (100, 100, True), (2, 2, False), (3, 2, False), (3, 3, True)],
)
def test_instances_on_half_of_the_nodes_count_as_one_per_node(instances: int, nodes: int, grows: bool) -> None:
    """With fewer than three nodes the number of instances says nothing."""
    assert bool(report_on(watches(SPY, OWN_PODS, instances), nodes=nodes).growing) is grows


def test_the_account_of_a_daemonset_grows_if_seen_on_few_nodes() -> None:
    """The forecast assumes the same share of nodes."""
    pods = DaemonSet("monitoring", "spy", "spy", 2, ("pods",))
    found = report_on(each_minute(SPY, LIST_PODS, 10), pods, nodes=100)
    (spy,) = found.growing
    assert spy.daemon_sets == ("monitoring/spy",)
    assert spy.requests_per_second_then == pytest.approx(750 * 1.1 / 60)
    assert not found.suspects


def test_more_instances_than_nodes_count_as_one_on_each() -> None:
    """Nodes were removed or are not counted. The forecast never has more instances than planned nodes."""
    for nodes in (50, 0):
        pods = DaemonSet("monitoring", "spy", "spy", 100)
        (spy,) = report_on(each_minute(SPY, OWN_LIST, 100) + watches(SPY, OWN_PODS, 100), pods, nodes=nodes).growing
        assert spy.watches_then == pytest.approx(7500)
        assert spy.requests_per_second_then == pytest.approx(7500 * 1.1 / 60)


def test_clients_are_ordered_by_forecast_requests() -> None:
    """Then by watches, then by name. All DaemonSets with the client's account are listed."""
    chatty, quiet, other = (Client(f"system:serviceaccount:a:{name}", name) for name in ("z", "m", "b"))
    shared = [DaemonSet("a", name, "m", 100) for name in ("two", "one")]
    requests = each_minute(chatty, OWN_LIST, 100) + watches(quiet, OWN_PODS, 100) + watches(other, OWN_PODS, 100)
    found = report_on(requests + watches(quiet, WATCH_PODS, 100), *shared).growing
    assert [growing.client for growing in found] == ["a/z (z)", "a/m (m)", "a/b (b)"]
    assert [growing.daemon_sets for growing in found] == [(), ("a/one", "a/two"), ()]
    found = report_on(watches(quiet, OWN_PODS, 100) + watches(other, OWN_PODS, 100)).growing
    assert [growing.client for growing in found] == ["a/b (b)", "a/m (m)"]


def test_a_watch_counts_by_the_time_for_which_it_was_open() -> None:
    """One of half the time counts as half a watch; an open one lasts until the end of the log."""
    half = [Request(SPY, f"node-{n}", OWN_PODS, 0.0, 300.0) for n in range(100)]
    late = [Request(SPY, f"node-{n}", OWN_PODS, 450.0, None) for n in range(100)]
    (spy,) = report_on([*half, *late, Request(Client("bob"), "here", LIST_PODS, 600.0, 600.0)]).growing
    assert spy.watches == pytest.approx(0.75)


def test_advice_is_ordered_by_importance() -> None:
    """Reads of all Pods come first, then of other kinds; then repeated lists, all kinds together; then frequent
    requests."""
    kinds = [Ask("list", kind, Scope.ALL) for kind in ("secrets", "pods", "nodes")]
    lists = [request for ask in kinds for request in each_minute(SPY, ask, 100)]
    done = [("get", 6), ("update", 3), ("patch", 12)]
    often = [
        Request(SPY, f"node-{n}", Ask(verb, "leases", Scope.SELECTED), float(second), float(second))
        for verb, every in done
        for n in range(100)
        for second in range(0, 600, every)
    ]
    (spy,) = report_on(lists + often).growing
    assert spy.fixes == (
        "let each instance read its own node's Pods only: fieldSelector spec.nodeName=<its node>",
        "let each instance read its own Node only: fieldSelector metadata.name=<its node>",
        "put a cache of secrets between the nodes and the API server, or read only some of them",
        "watch nodes and pods and secrets instead of listing them repeatedly",
        "update leases less often than 20 times a minute",
        "get leases less often than 10 times a minute",
    )
    assert spy.reads_all == ("nodes", "pods", "secrets")


def test_two_lists_are_no_polling() -> None:
    """In a log of a few seconds each start would look frequent."""
    starts = [Request(SPY, f"node-{n}", OWN_LIST, moment, moment) for n in range(100) for moment in (0.0, 1.0)]
    (spy,) = report_on(starts).growing
    assert spy.fixes == ()
    thrice = [*starts, *(Request(SPY, f"node-{n}", OWN_LIST, 2.0, 2.0) for n in range(100))]
    assert report_on(thrice).growing[0].fixes == ("watch pods instead of listing them repeatedly",)


def test_a_log_of_one_moment_has_no_rates() -> None:
    once = [Request(SPY, f"node-{n}", OWN_LIST, 5.0, 5.0) for n in range(100)]
    watched = [Request(SPY, f"node-{n}", OWN_PODS, 5.0, None) for n in range(100)]
    found = report_on([*once, *watched, Request(Client("bob"), "here", LIST_PODS, 5.0, 5.0)])
    assert (found.growing[0].requests_per_minute, found.growing[0].watches, found.largest) == (0.0, 0.0, ())
    assert requests_by_client([]).seconds == 0.0 and requests_by_client([]).requests == 0


def test_without_a_log_daemonsets_that_may_read_everything_are_named() -> None:
    sets = [DaemonSet("a", "reads", "reads", 9, ("pods",)), DaemonSet("a", "plain", "default", 9)]
    found = report(None, sets, {}, nodes=9, kubelets=9, planned_nodes=7500)
    assert [suspect.name for suspect in found.suspects] == ["reads"]
    assert (found.growing, found.largest) == ((), ())


def test_kubelets_are_one_client_and_need_no_fix() -> None:
    busy = each_minute(Client(KUBELETS), Ask("update", "leases", Scope.SELECTED), 100) * 10
    (kubelets,) = report_on(busy).growing
    assert (kubelets.client, kubelets.instances, kubelets.fixes) == (KUBELETS, 100, ())


def test_other_clients_are_listed_by_their_share_of_requests() -> None:
    one, two = Client("alice", "kubectl"), Client("bob", "kubectl")
    found = report_on(each_minute(one, LIST_PODS, 1, 2) + each_minute(two, LIST_PODS, 1, 5))
    assert [(caller.client, round(caller.share, 2)) for caller in found.largest] == [
        ("bob (kubectl)", 0.67),
        ("alice (kubectl)", 0.33),
    ]
    assert found.largest[0].requests_per_second == pytest.approx(6 / 300)


def test_at_most_five_other_clients_are_named_and_no_pure_watchers() -> None:
    people = [Client(name) for name in "gfedcba"]
    asked = [request for one in people for request in each_minute(one, LIST_PODS, 1, 2)]
    found = report_on([*asked, *watches(Client("idle"), OWN_PODS, 1), *each_minute(Client("z"), LIST_PODS, 1, 3)])
    assert [caller.client for caller in found.largest] == ["z", "a", "b", "c", "d"]
    found = report_on([*asked[:3], *watches(Client("idle"), OWN_PODS, 1)])
    assert [caller.client for caller in found.largest] == ["g"]


def test_open_watches_are_reported_beyond_those_of_kubelets() -> None:
    counts = {"configmaps": 49, "endpoints": 50, "nodes": 101, "jobs": 60, "pods": 205, "ingresses": 60}
    found = report(None, (), counts, nodes=100, kubelets=100, planned_nodes=7500).watched
    assert [(watched.resource, watched.besides_kubelets) for watched in found] == [
        ("pods", 105),
        ("ingresses", 60),
        ("jobs", 60),
        ("endpoints", 50),
    ]
    assert [watched.open for watched in found] == [205, 60, 60, 50]
    assert report(None, (), {"jobs": 2}, nodes=3, kubelets=0, planned_nodes=9).watched
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
def test_every_client_is_named_at_most_once(requests: list[Request], nodes: int) -> None:
    """For any requests, shares add up to at most one, and nothing is divided by zero."""
    found = report_on(requests, nodes=nodes)
    named = [entry.client for entry in found.growing] + [entry.client for entry in found.largest]
    assert len(named) == len(set(named)) <= len({entry.client for entry in requests})
    assert sum(entry.share for entry in found.largest) <= 1 + 1e-9
    assert all(entry.watches >= 0 and entry.requests_per_minute >= 0 for entry in found.growing)
