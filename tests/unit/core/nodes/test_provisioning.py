"""Which waiting runs ask an autoscaler for nodes, and which take back what they asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.helpers.pools import (
    ACCEPTED,
    ASKED,
    FAILED,
    NOW,
    PROVISIONED,
    WHOLE,
    after,
    asked_by,
    demand,
    empty,
    first_request,
    gang,
    node,
    pools,
    rules,
    waits,
)

from kajitori.core.nodes.provisioning import Answer, Demand, is_needed
from kajitori.core.placement.planner import MemberRequest, occupy
from kajitori.core.spec.node_request import NodeRequest, RequestState, describe_request
from kajitori.core.words.taints import Taint
from kajitori.core.words.times import format_time


def test_a_gang_that_finds_no_room_asks_for_all_that_it_lacks() -> None:
    """One free node of the pool counts; of the others it asks for as many as it needs."""
    snapshot = empty(node("spot-1"))
    request = first_request(snapshot)
    assert (request.pool, request.nodes, request.number, request.attempt) == ("spot", 3, 1, 1)
    assert request.state is ASKED and request.is_live and request.asked_at == format_time(NOW)


def test_smaller_members_share_the_nodes_that_are_asked_for() -> None:
    """Ten members of two GPUs: four fit on a node."""
    snapshot = empty()
    member = replace(WHOLE, gpus=2, whole_node=False)
    answer = demand([waits(snapshot, gang(10, member=member))], (), snapshot, pools(snapshot.table), NOW)
    assert asked_by(answer).nodes == 3


def test_a_providers_own_class_is_asked_for_nodes_for_every_member() -> None:
    """It takes no account of what is free."""
    snapshot = empty(node("spot-1"))
    known = pools(snapshot.table, ("spot", rules(provisioningClass="queued-provisioning.gke.io")))
    assert asked_by(demand([waits(snapshot, gang(4))], (), snapshot, known, NOW)).nodes == 4


@pytest.mark.parametrize(
    "member",
    [
        replace(WHOLE, gpu_type="a100"),
        replace(WHOLE, gpus=16),
        replace(WHOLE, cpu_millis=64_000),
        replace(WHOLE, node_selector=(("rack", "7"),)),
        replace(WHOLE, gpus=0, gpu_type="", cpu_runs_on_gpu_nodes="never"),
    ],
)
def test_who_would_not_fit_there_does_not_ask(member: MemberRequest) -> None:
    """Another type, more than a node has, labels that its nodes lack, no GPUs where policy keeps those apart."""
    snapshot = empty(replace(node("other", "other"), gpu_type="t4"))
    answer = demand([waits(snapshot, gang(1, member=member))], (), snapshot, pools(snapshot.table), NOW)
    assert answer == Demand({}, {})


def test_a_taint_that_nodes_keep_has_to_be_tolerated() -> None:
    snapshot = empty()
    known = pools(snapshot.table, ("spot", rules(taints=[{"key": "spot"}])))
    assert not demand([waits(snapshot, gang(1))], (), snapshot, known, NOW).changed


def test_nobody_asks_before_he_has_waited_for_a_while() -> None:
    """And the answer says when to look again."""
    snapshot = empty()
    request = gang(4, queued=format_time(NOW - timedelta(seconds=20)))
    answer = demand([waits(snapshot, request)], (), snapshot, pools(snapshot.table), NOW)
    assert not answer.changed and answer.look_again_at == NOW + timedelta(seconds=40)


def test_who_only_waits_for_his_turn_asks_for_nothing() -> None:
    """There is room for him, which is kept for somebody else at the moment; or he is expected to start soon."""
    snapshot = empty(*(node(f"spot-{n}") for n in range(4)))
    occupy(snapshot, WHOLE, ["spot-0"])
    full = waits(snapshot, gang(4))
    turn = replace(full, shortage=replace(full.shortage, fit_now=4))
    soon = replace(full, starts_at=NOW + timedelta(seconds=50))
    later = replace(full, starts_at=NOW + timedelta(seconds=70))
    known = pools(snapshot.table)
    assert not demand([turn], (), snapshot, known, NOW).changed
    assert not demand([soon], (), snapshot, known, NOW).changed
    assert asked_by(demand([later], (), snapshot, known, NOW)).nodes == 1


def test_nodes_that_are_about_to_be_ready_will_do() -> None:
    """One that came lately and is not ready, or has a taint for the time being, is waited for; one that has been so for
    longer than the deadline is not counted on."""
    fresh = NOW - timedelta(minutes=5)
    booting = node("spot-1", created=fresh, ready=False)
    tainted = node("spot-2", created=fresh, taints=(Taint("startup"),))
    snapshot = empty(booting, tainted)
    known = pools(snapshot.table)
    answer = demand([waits(snapshot, gang(2))], (), snapshot, known, NOW)
    assert not answer.changed and answer.look_again_at == fresh + timedelta(minutes=15)
    assert asked_by(demand([waits(snapshot, gang(3))], (), snapshot, known, NOW)).nodes == 3
    late = NOW + timedelta(minutes=11)
    assert asked_by(demand([waits(snapshot, gang(2))], (), snapshot, known, late)).nodes == 2


def test_what_one_waits_for_is_left_to_him() -> None:
    """The first gang has a free node and one that is about to be ready, and asks for nothing; the second asks for all
    that it lacks, and the first asks for nothing afterwards, either."""
    snapshot = empty(node("spot-1"), node("spot-2", created=NOW - timedelta(minutes=5), ready=False))
    known = pools(snapshot.table)
    first, second = waits(snapshot, gang(2, "ns/first")), waits(snapshot, gang(3, "ns/second"))
    made = demand([first, second], (), snapshot, known, NOW).changed
    assert {key: request.nodes for key, request in made.items()} == {"ns/second": 3}
    has_asked = replace(second, request=made["ns/second"], answer=Answer(ASKED))
    assert not demand([first, has_asked], (), snapshot, known, NOW).changed


def test_two_runs_do_not_count_on_the_same_free_node() -> None:
    """In the queue's order: the first takes the free one into account, the second does not."""
    snapshot = empty(node("spot-1"))
    queue = [waits(snapshot, gang(2, "ns/first")), waits(snapshot, gang(2, "ns/second"))]
    answer = demand(queue, (), snapshot, pools(snapshot.table), NOW)
    assert asked_by(answer, "ns/first").nodes == 1 and asked_by(answer, "ns/second").nodes == 2


def test_a_pool_is_asked_for_no_more_than_it_may_have() -> None:
    """What it has and what is on its way counts; who does not fit within that is told so, and others may ask."""
    snapshot = empty(*(node(f"spot-{n}") for n in range(3)))
    occupy(snapshot, WHOLE, ["spot-0", "spot-1", "spot-2"])
    queue = [waits(snapshot, gang(size, f"ns/{size}")) for size in (3, 4, 2)]
    answer = demand(queue, (), snapshot, pools(snapshot.table), NOW)
    assert {key: request.nodes for key, request in answer.changed.items()} == {"ns/3": 3, "ns/2": 2}
    said = "pool spot cannot grow by 4 for it: it has 3 of at most 8 nodes and 3 more were asked for"
    assert answer.notes == {"ns/4": said}


def test_what_starting_runs_asked_for_still_counts() -> None:
    """Their nodes may be on the way."""
    snapshot = empty()
    theirs = after(first_request(snapshot, 6), state=PROVISIONED)
    answer = demand([waits(snapshot, gang(4))], [("ns/other", theirs)], snapshot, pools(snapshot.table), NOW)
    assert not answer.changed and "6 more were asked for" in answer.notes["ns/bert"]


def test_where_nothing_can_be_asked_for_it_is_said_once() -> None:
    """In the run's own status; with the CustomResourceDefinition installed it asks."""
    snapshot = empty()
    known = pools(snapshot.table)
    why = "the cluster knows no ProvisioningRequests"
    said = asked_by(demand([waits(snapshot, gang(4))], (), snapshot, known, NOW, unavailable=why))
    assert not said.is_live and describe_request(said) == f"pool spot could grow by 4 for it, but {why}"
    later = NOW + timedelta(minutes=1)
    assert not demand([waits(snapshot, gang(4), said)], (), snapshot, known, later, unavailable=why).changed
    asked = asked_by(demand([waits(snapshot, gang(4), said)], (), snapshot, known, later))
    assert asked.is_live and asked.number == 1


@pytest.mark.parametrize(
    ("state", "attempts", "starting", "used", "over", "needed"),
    [
        (ASKED, 0, False, False, False, True),
        (FAILED, 0, False, False, False, True),
        (ASKED, 0, False, False, True, False),
        (PROVISIONED, 1, True, False, False, True),
        (ASKED, 1, True, False, False, False),
        (ACCEPTED, 1, True, True, False, True),
        (ACCEPTED, 1, True, False, False, False),
        (FAILED, 1, True, True, False, False),
        (PROVISIONED, 1, False, True, False, False),
        (PROVISIONED, 2, True, True, False, False),
    ],
)
def test_when_a_request_is_needed(
    state: RequestState, attempts: int, starting: bool, used: bool, over: bool, needed: bool
) -> None:
    """While its attempt is to come; what is provisioned, or has begun to come, also until that runs, which uses it up.
    Who starts elsewhere needs it no longer."""
    request = NodeRequest(pool="spot", nodes=1, attempt=1, state=state)
    assert is_needed(request, attempts, starting=starting, used=used, over=over) is needed
