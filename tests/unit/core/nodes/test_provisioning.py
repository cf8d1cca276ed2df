"""Waiting runs that ask an autoscaler for nodes, and requests that are withdrawn."""

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

from kajitori.core.formats.times import format_time
from kajitori.core.kubernetes.taints import Taint
from kajitori.core.nodes.provisioning import Answer, Demand, is_needed
from kajitori.core.placement.planner import MemberRequest, occupy
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState, describe_request


def test_a_gang_that_finds_no_room_asks_for_all_that_it_lacks() -> None:
    """One free node of the pool counts; it asks for the others."""
    snapshot = empty(node("spot-1"))
    request = first_request(snapshot)
    assert (request.pool, request.nodes, request.number, request.attempt) == ("spot", 3, 1, 1)
    assert request.state is ASKED and request.is_live and request.asked_at == format_time(NOW)


def test_small_members_share_requested_nodes() -> None:
    """Ten members with two GPUs: four fit on a node."""
    snapshot = empty()
    member = replace(WHOLE, gpus=2, whole_node=False)
    answer = demand([waits(snapshot, gang(10, member=member))], (), snapshot, pools(snapshot.table), NOW)
    assert asked_by(answer).nodes == 3


def test_a_providers_own_class_is_asked_for_nodes_for_every_member() -> None:
    """Such a class ignores free nodes."""
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
def test_a_run_that_would_not_fit_does_not_ask(member: MemberRequest) -> None:
    """Another GPU type, more than a node has, missing labels, or no GPUs if policy separates those."""
    snapshot = empty(replace(node("other", "other"), gpu_type="t4"))
    answer = demand([waits(snapshot, gang(1, member=member))], (), snapshot, pools(snapshot.table), NOW)
    assert answer == Demand({}, {})


def test_a_permanent_taint_must_be_tolerated() -> None:
    snapshot = empty()
    known = pools(snapshot.table, ("spot", rules(taints=[{"key": "spot"}])))
    assert not demand([waits(snapshot, gang(1))], (), snapshot, known, NOW).changed


def test_a_run_asks_only_after_waiting_for_a_while() -> None:
    """The answer has the time of the next decision."""
    snapshot = empty()
    request = gang(4, queued=format_time(NOW - timedelta(seconds=20)))
    answer = demand([waits(snapshot, request)], (), snapshot, pools(snapshot.table), NOW)
    assert not answer.changed and answer.look_again_at == NOW + timedelta(seconds=40)


def test_a_run_with_room_that_waits_its_turn_does_not_ask() -> None:
    """Its room is reserved for another run now, or it is expected to start soon."""
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


def test_nodes_that_are_about_to_be_ready_count() -> None:
    """A new node that is not ready, or has a temporary taint, is waited for until the deadline."""
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


def test_nodes_that_one_run_waits_for_do_not_count_for_another() -> None:
    """The first gang has a free node and a coming one, and does not ask; the second asks for everything it lacks, and
    the first still does not ask afterwards."""
    snapshot = empty(node("spot-1"), node("spot-2", created=NOW - timedelta(minutes=5), ready=False))
    known = pools(snapshot.table)
    first, second = waits(snapshot, gang(2, "ns/first")), waits(snapshot, gang(3, "ns/second"))
    made = demand([first, second], (), snapshot, known, NOW).changed
    assert {key: request.nodes for key, request in made.items()} == {"ns/second": 3}
    has_asked = replace(second, request=made["ns/second"], answer=Answer(ASKED))
    assert not demand([first, has_asked], (), snapshot, known, NOW).changed


def test_two_runs_do_not_count_on_the_same_free_node() -> None:
    """The first in the queue counts the free node, the second does not."""
    snapshot = empty(node("spot-1"))
    queue = [waits(snapshot, gang(2, "ns/first")), waits(snapshot, gang(2, "ns/second"))]
    answer = demand(queue, (), snapshot, pools(snapshot.table), NOW)
    assert asked_by(answer, "ns/first").nodes == 1 and asked_by(answer, "ns/second").nodes == 2


def test_requests_never_exceed_a_pools_limit() -> None:
    """Present and coming nodes count. A run that does not fit within the limit is told, and others may ask."""
    snapshot = empty(*(node(f"spot-{n}") for n in range(3)))
    occupy(snapshot, WHOLE, ["spot-0", "spot-1", "spot-2"])
    queue = [waits(snapshot, gang(size, f"ns/{size}")) for size in (3, 4, 2)]
    answer = demand(queue, (), snapshot, pools(snapshot.table), NOW)
    assert {key: request.nodes for key, request in answer.changed.items()} == {"ns/3": 3, "ns/2": 2}
    said = "pool spot cannot grow by 4 for it: it has 3 of at most 8 nodes and 3 more were asked for"
    assert answer.notes == {"ns/4": said}


def test_requests_of_starting_runs_still_count() -> None:
    """Their nodes may be on the way."""
    snapshot = empty()
    theirs = after(first_request(snapshot, 6), state=PROVISIONED)
    answer = demand([waits(snapshot, gang(4))], [("ns/other", theirs)], snapshot, pools(snapshot.table), NOW)
    assert not answer.changed and "6 more were asked for" in answer.notes["ns/bert"]


def test_unavailable_requests_are_reported_once() -> None:
    """In the run's status; once the CustomResourceDefinition is installed, it asks."""
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
    """While its attempt is to come; if nodes were provided or began to join, until that attempt runs and consumes it.

    A run that starts elsewhere no longer needs it.
    """
    request = NodeRequest(pool="spot", nodes=1, attempt=1, state=state)
    assert is_needed(request, attempts, starting=starting, used=used, over=over) is needed
