"""The outcomes of requests for nodes, and the reservation of new nodes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.helpers.scenes.pools import (
    ACCEPTED,
    ASKED,
    FAILED,
    NOW,
    PROVISIONED,
    WHOLE,
    WITHDRAWN,
    after,
    asked_by,
    demand,
    empty,
    first_request,
    gang,
    kept_in,
    node,
    pools,
    rules,
    waits,
)

from kajitori.core.formats.times import format_time
from kajitori.core.nodes.provisioning import Answer
from kajitori.core.placement.planner import Placement, Shortage, occupy, place
from kajitori.core.placement.snapshot import NodeTable, Snapshot
from kajitori.core.spec.status_parts.node_request import RequestState, describe_request


def test_the_autoscalers_answer_is_kept_in_the_request() -> None:
    """With its message and the time of the request."""
    snapshot = empty()
    request = first_request(snapshot)
    answer = Answer(ACCEPTED, "in 3 minutes")
    told = asked_by(demand([waits(snapshot, gang(4), request, answer)], (), snapshot, pools(snapshot.table), NOW))
    assert told.state is ACCEPTED and told.number == 1
    now = NOW + timedelta(minutes=3)
    assert describe_request(told, now) == "requested 4 nodes of pool spot 3m ago: accepted, provisioning: in 3 minutes"
    assert (
        describe_request(told) == "requested 4 nodes of pool spot at 04:00:00 UTC: accepted, provisioning: in 3 minutes"
    )
    again = demand([waits(snapshot, gang(4), told, answer)], (), snapshot, pools(snapshot.table), now)
    assert not again.changed and again.look_again_at == NOW + timedelta(minutes=15)


def test_failed_requests_are_repeated_with_backoff() -> None:
    """Each request has its own name; the backoff doubles up to its maximum."""
    snapshot = empty()
    known, now = pools(snapshot.table), NOW
    request = first_request(snapshot)
    pauses = []
    for number in range(1, 9):
        assert request.number == number
        answer = Answer(FAILED, "out of stock")
        failed = asked_by(demand([waits(snapshot, gang(4), request, answer)], (), snapshot, known, now))
        assert (
            failed.state is FAILED and failed.failures == number and "failed: out of stock" in describe_request(failed)
        )
        waiting = demand([waits(snapshot, gang(4), failed)], (), snapshot, known, now)
        assert not waiting.changed and waiting.look_again_at is not None
        pauses.append((waiting.look_again_at - now).total_seconds())
        now = waiting.look_again_at
        request = asked_by(demand([waits(snapshot, gang(4), failed)], (), snapshot, known, now))
    assert pauses == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_after_one_pool_has_failed_the_next_is_asked_at_once() -> None:
    """The backoff begins when all suitable pools have failed."""
    snapshot = empty()
    known = pools(snapshot.table, ("spot", rules()), ("fixed", rules("fixed")), ("t4", rules("t4", labels={})))
    known["t4"] = replace(known["t4"], new_node=replace(known["t4"].new_node, gpu_type="t4"))
    request = first_request(snapshot)
    failing = waits(snapshot, gang(4), request, Answer(FAILED, "no"))
    second = asked_by(demand([failing], (), snapshot, known, NOW))
    assert (second.pool, second.number, second.failures) == ("fixed", 2, 1)
    failing = waits(snapshot, gang(4), second, Answer(FAILED, "no"))
    failed = asked_by(demand([failing], (), snapshot, known, NOW))
    assert failed.state is FAILED and failed.not_before == format_time(NOW + timedelta(seconds=60))
    third = asked_by(demand([waits(snapshot, gang(4), failed)], (), snapshot, known, NOW + timedelta(seconds=60)))
    assert (third.pool, third.number) == ("spot", 3)


@pytest.mark.parametrize(
    ("state", "says_"),
    [(ASKED, "its nodes did not join within 15m"), (PROVISIONED, "its nodes were not ready within 15m")],
)
def test_a_request_without_ready_nodes_in_time_has_failed(state: RequestState, says_: str) -> None:
    """Whether no node joins, or the nodes do not get ready."""
    snapshot = empty()
    request = after(first_request(snapshot), state=state)
    late = NOW + timedelta(minutes=15)
    answer = Answer(state) if state is not ASKED else None
    known = pools(snapshot.table)
    early = demand([waits(snapshot, gang(4), request, answer)], (), snapshot, known, late - timedelta(seconds=1))
    assert not early.changed
    failed = asked_by(demand([waits(snapshot, gang(4), request, answer)], (), snapshot, known, late))
    assert failed.state is FAILED and failed.message == says_


def test_a_request_is_withdrawn_when_other_nodes_are_needed() -> None:
    """The run was edited, or policy's class or limits changed; what is needed now is requested at once."""
    snapshot = empty()
    request = first_request(snapshot)
    edited = asked_by(demand([waits(snapshot, gang(6), request)], (), snapshot, pools(snapshot.table), NOW))
    assert (edited.number, edited.nodes) == (2, 6)
    other = pools(snapshot.table, ("spot", rules(provisioningClass="mine.example.com")))
    assert asked_by(demand([waits(snapshot, gang(4), request)], (), snapshot, other, NOW)).number == 2
    gone = asked_by(demand([waits(snapshot, gang(4), request)], (), snapshot, {}, NOW))
    assert gone.state is WITHDRAWN and not describe_request(gone)
    smaller = pools(snapshot.table, ("spot", rules(maxNodes=3)))
    full = demand([waits(snapshot, gang(4), request)], (), snapshot, smaller, NOW)
    assert asked_by(full).state is WITHDRAWN and "cannot grow by 4" in full.notes["ns/bert"]


def test_room_taken_by_others_is_requested_in_addition() -> None:
    """Three nodes joined beside a free one that another run took.

    The three stay reserved, and one more is requested.
    """
    request = first_request(empty(node("spot-0")))
    assert request.nodes == 3
    came = [node(f"spot-{n}", created=NOW + timedelta(minutes=2)) for n in (1, 2, 3)]
    snapshot = empty(node("spot-0"), *came)
    occupy(snapshot, WHOLE, ["spot-0"])
    later = NOW + timedelta(minutes=3)
    known = pools(snapshot.table)
    more = asked_by(demand([waits(snapshot, gang(4), request, Answer(PROVISIONED))], (), snapshot, known, later))
    assert (more.number, more.nodes, more.granted) == (2, 1, 3) and more.failures == 0
    kept = kept_in(snapshot, [("ns/bert", more)], known)["ns/bert"]
    assert [snapshot.table.nodes[row].name for row in kept] == ["spot-1", "spot-2", "spot-3"]


def test_nodes_smaller_than_policy_says_fail_the_request() -> None:
    """Otherwise requests would never end."""
    request = first_request(empty(), 2)
    came = [node(f"spot-{n}", created=NOW + timedelta(minutes=2), gpus=4) for n in (1, 2)]
    snapshot = empty(*came)
    answer = demand([waits(snapshot, gang(2), request, Answer(PROVISIONED))], (), snapshot, pools(snapshot.table), NOW)
    # Four GPUs are too few for a member of eight: such a node is waited for until the deadline.
    assert asked_by(answer).state is PROVISIONED
    full = empty(*(node(f"spot-{n}", created=NOW + timedelta(minutes=2)) for n in (1, 2)))
    full.used[:, 0] = 30_000
    answer = demand([waits(full, gang(2), request, Answer(PROVISIONED))], (), full, pools(full.table), NOW)
    failed = asked_by(answer)
    assert failed.state is FAILED and failed.message == "its new nodes have room for 0 of 2 members, policy says 2"


def test_new_nodes_are_reserved_for_the_earliest_request() -> None:
    """As many as it asked for, of those that joined since; earlier nodes are not reserved."""
    table = NodeTable(
        [node("old"), *(node(f"spot-{n}", created=NOW + timedelta(minutes=2, seconds=n)) for n in range(1, 5))]
    )
    one, two = first_request(empty(), 3), first_request(empty(), 3, now=NOW + timedelta(minutes=1))
    kept = kept_in(Snapshot.empty(table), [("ns/two", two), ("ns/one", one)], pools(table))
    of = {key: [table.nodes[row].name for row in rows] for key, rows in kept.items()}
    assert of == {"ns/one": ["spot-1", "spot-2", "spot-3"], "ns/two": ["spot-4"]}
    assert kept_in(Snapshot.empty(table), [("ns/one", after(one, state=FAILED))], pools(table)) == {}


def test_nodes_with_members_of_other_runs_are_not_reserved() -> None:
    """The earliest run has started on the first new node, which is then not reserved for later requests."""
    table = NodeTable([node(f"spot-{n}", created=NOW + timedelta(minutes=2, seconds=n)) for n in range(1, 5)])
    snapshot = Snapshot.empty(table)
    occupy(snapshot, WHOLE, ["spot-1", "spot-2"])
    second = first_request(empty(), 2, now=NOW + timedelta(minutes=1))
    kept = kept_in(snapshot, [("ns/two", second)], pools(table))["ns/two"]
    assert [table.nodes[row].name for row in kept] == ["spot-3", "spot-4"]


def test_barred_nodes_are_no_place_for_a_gang() -> None:
    snapshot = empty(node("spot-1"), node("spot-2"))
    other = place(snapshot, gang(1, member=replace(WHOLE, barred=frozenset({"spot-1"}))))
    assert isinstance(other, Placement) and other.nodes == ("spot-2",)
    both = replace(WHOLE, barred=frozenset({"spot-1", "spot-2", "gone"}))
    assert isinstance(place(snapshot, gang(1, member=both)), Shortage)
