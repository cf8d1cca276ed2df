"""Which waiting runs ask an autoscaler for nodes, and which take back what they asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kajitori.core.choosing import Rows
from kajitori.core.node_pools import NodePool
from kajitori.core.node_request import NodeRequest, RequestState, says
from kajitori.core.planner import GangRequest, MemberRequest, Placement, Shortage, occupy, place
from kajitori.core.policy import parse_policy
from kajitori.core.provisioning import Answer, Demand, Pool, Wanting, holds, is_needed
from kajitori.core.provisioning import demand as demand_of
from kajitori.core.snapshot import NodeFacts, NodeTable, Snapshot, Taint
from kajitori.core.times import format_time

NOW = datetime(2026, 11, 22, 4, 0, tzinfo=UTC)
LONG_AGO = format_time(NOW - timedelta(days=1))
GIB = 2**30
WHOLE = MemberRequest(cpu_millis=8000, memory_bytes=64 * GIB, gpus=8, gpu_type="h100", whole_node=True)
ASKED, ACCEPTED, PROVISIONED = RequestState.ASKED, RequestState.ACCEPTED, RequestState.PROVISIONED
FAILED, WITHDRAWN, DELIVERED = RequestState.FAILED, RequestState.WITHDRAWN, RequestState.DELIVERED


def rules(name: str = "spot", **fields: Any) -> NodePool:
    pool = {
        "nodeSelector": {"pool": name},
        "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "node": {"cpu": 32, "memory": "256Gi", "gpu": 8},
        "maxNodes": 8,
        **fields,
    }
    return parse_policy({"nodePools": {name: pool}}).node_pools[name]


def node(name: str, pool: str = "spot", created: datetime = NOW - timedelta(days=1), **fields: Any) -> NodeFacts:
    facts = rules(pool).new_node(name, "h100", ())
    return replace(facts, created_at=format_time(created), **fields)


def pools(table: NodeTable, *named: tuple[str, NodePool]) -> dict[str, Pool]:
    found = {}
    for name, each in named or (("spot", rules()),):
        rows = np.array([row for row, facts in enumerate(table.nodes) if each.has(facts.labels)], dtype=np.int64)
        found[name] = Pool(name, each, each.new_node(f"{name}/new", "h100", ()), rows)
    return found


def demand(
    wanting: Sequence[Wanting],
    others: Sequence[tuple[str, NodeRequest]],
    snapshot: Snapshot,
    known: Mapping[str, Pool],
    now: datetime,
    *,
    owners: Mapping[str, str] | None = None,
    unavailable: str = "",
) -> Demand:
    """As the planning step asks."""
    requests = [*others, *((each.gang.key, each.request) for each in wanting if each.request is not None)]
    kept = kept_in(snapshot, requests, known, owners)
    return demand_of(wanting, others, kept, snapshot, known, now, unavailable=unavailable)


def kept_in(
    snapshot: Snapshot,
    requests: Iterable[tuple[str, NodeRequest]],
    known: Mapping[str, Pool],
    owners: Mapping[str, str] | None = None,
) -> dict[str, Rows]:
    """owners: whose members sit on each node that is used; left out: somebody else's."""

    def members_of(name: str) -> list[str]:
        used = snapshot.members[snapshot.table.index[name]]
        return [(owners or {}).get(name, "ns/somebody")] if used else []

    return holds(requests, known, snapshot.table, members_of)


def gang(members: int, key: str = "ns/bert", *, member: MemberRequest = WHOLE, queued: str = LONG_AGO) -> GangRequest:
    return GangRequest(key, member, tuple(range(members)), queued_at=queued)


def waits(
    snapshot: Snapshot,
    request: GangRequest,
    record: NodeRequest | None = None,
    answer: Answer | None = None,
    **rest: Any,
) -> Wanting:
    found = place(snapshot, request)
    assert isinstance(found, Shortage)
    return Wanting(request, found, attempt=1, request=record, answer=answer, **rest)


def empty(*nodes: NodeFacts) -> Snapshot:
    return Snapshot.empty(NodeTable(nodes))


def asked_by(answer: Demand, key: str = "ns/bert") -> NodeRequest:
    return answer.changed[key]


def after(before: NodeRequest, **changes: Any) -> NodeRequest:
    return msgspec.structs.replace(before, **changes)


def first_request(snapshot: Snapshot, members: int = 4, *, now: datetime = NOW) -> NodeRequest:
    """What such a gang asks for."""
    return asked_by(demand([waits(snapshot, gang(members))], (), snapshot, pools(snapshot.table), now))


# ---------------------------------------------------------------------------------------------- asking


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
    assert not said.is_live and says(said) == f"pool spot could grow by 4 for it, but {why}"
    later = NOW + timedelta(minutes=1)
    assert not demand([waits(snapshot, gang(4), said)], (), snapshot, known, later, unavailable=why).changed
    asked = asked_by(demand([waits(snapshot, gang(4), said)], (), snapshot, known, later))
    assert asked.is_live and asked.number == 1


# ---------------------------------------------------------------------------------------------- what becomes of it


def test_what_the_autoscaler_says_is_kept_and_told() -> None:
    """Its own words, and how long ago it was asked."""
    snapshot = empty()
    request = first_request(snapshot)
    answer = Answer(ACCEPTED, "in 3 minutes")
    told = asked_by(demand([waits(snapshot, gang(4), request, answer)], (), snapshot, pools(snapshot.table), NOW))
    assert told.state is ACCEPTED and told.number == 1
    now = NOW + timedelta(minutes=3)
    assert says(told, now) == "asked for 4 nodes of pool spot 3m ago: accepted, provisioning: in 3 minutes"
    assert says(told) == "asked for 4 nodes of pool spot at 04:00:00 UTC: accepted, provisioning: in 3 minutes"
    again = demand([waits(snapshot, gang(4), told, answer)], (), snapshot, pools(snapshot.table), now)
    assert not again.changed and again.look_again_at == NOW + timedelta(minutes=15)


def test_after_failures_it_asks_again_with_growing_pauses() -> None:
    """Each request has a name of its own; the pause doubles and stops growing at the longest."""
    snapshot = empty()
    known, now = pools(snapshot.table), NOW
    request = first_request(snapshot)
    pauses = []
    for number in range(1, 9):
        assert request.number == number
        answer = Answer(FAILED, "out of stock")
        failed = asked_by(demand([waits(snapshot, gang(4), request, answer)], (), snapshot, known, now))
        assert failed.state is FAILED and failed.failures == number and "in vain: out of stock" in says(failed)
        waiting = demand([waits(snapshot, gang(4), failed)], (), snapshot, known, now)
        assert not waiting.changed and waiting.look_again_at is not None
        pauses.append((waiting.look_again_at - now).total_seconds())
        now = waiting.look_again_at
        request = asked_by(demand([waits(snapshot, gang(4), failed)], (), snapshot, known, now))
    assert pauses == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_after_one_pool_has_failed_the_next_is_asked_at_once() -> None:
    """Only when all that suit have failed there is a pause."""
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
    ("state", "says_"), [(ASKED, "they did not come within 15m"), (PROVISIONED, "its nodes were not ready within 15m")]
)
def test_what_does_not_come_in_time_has_failed(state: RequestState, says_: str) -> None:
    """Whether nobody answers or the nodes do not get ready."""
    snapshot = empty()
    request = after(first_request(snapshot), state=state)
    late = NOW + timedelta(minutes=15)
    answer = Answer(state) if state is not ASKED else None
    known = pools(snapshot.table)
    early = demand([waits(snapshot, gang(4), request, answer)], (), snapshot, known, late - timedelta(seconds=1))
    assert not early.changed
    failed = asked_by(demand([waits(snapshot, gang(4), request, answer)], (), snapshot, known, late))
    assert failed.state is FAILED and failed.message == says_


def test_it_is_taken_back_where_something_else_is_needed() -> None:
    """The run was edited, or policy's class or limits changed; what is needed now is asked for at once."""
    snapshot = empty()
    request = first_request(snapshot)
    edited = asked_by(demand([waits(snapshot, gang(6), request)], (), snapshot, pools(snapshot.table), NOW))
    assert (edited.number, edited.nodes) == (2, 6)
    other = pools(snapshot.table, ("spot", rules(provisioningClass="mine.example.com")))
    assert asked_by(demand([waits(snapshot, gang(4), request)], (), snapshot, other, NOW)).number == 2
    gone = asked_by(demand([waits(snapshot, gang(4), request)], (), snapshot, {}, NOW))
    assert gone.state is WITHDRAWN and not says(gone)
    smaller = pools(snapshot.table, ("spot", rules(maxNodes=3)))
    full = demand([waits(snapshot, gang(4), request)], (), snapshot, smaller, NOW)
    assert asked_by(full).state is WITHDRAWN and "cannot grow by 4" in full.notes["ns/bert"]


def test_what_others_took_meanwhile_is_asked_for_besides() -> None:
    """Three came beside the one that was free; that has somebody now. The three stay with it, one more comes."""
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


def test_nodes_that_hold_less_than_policy_says_are_a_failure() -> None:
    """Asking for more and more of them would never end."""
    request = first_request(empty(), 2)
    came = [node(f"spot-{n}", created=NOW + timedelta(minutes=2), gpus=4) for n in (1, 2)]
    snapshot = empty(*came)
    answer = demand([waits(snapshot, gang(2), request, Answer(PROVISIONED))], (), snapshot, pools(snapshot.table), NOW)
    # Four GPUs suit no member of eight: such a node is none of the right kind, and is waited for until the deadline.
    assert asked_by(answer).state is PROVISIONED
    full = empty(*(node(f"spot-{n}", created=NOW + timedelta(minutes=2)) for n in (1, 2)))
    full.used[:, 0] = 30_000
    answer = demand([waits(full, gang(2), request, Answer(PROVISIONED))], (), full, pools(full.table), NOW)
    failed = asked_by(answer)
    assert failed.state is FAILED and failed.message == "its new nodes have room for 0 of 2 members, policy says 2"


# ---------------------------------------------------------------------------------------------- whose nodes


def test_what_comes_belongs_to_whoever_asked_first() -> None:
    """As many as he asked for, of those that came since; what was there before is nobody's."""
    table = NodeTable(
        [node("old"), *(node(f"spot-{n}", created=NOW + timedelta(minutes=2, seconds=n)) for n in range(1, 5))]
    )
    one, two = first_request(empty(), 3), first_request(empty(), 3, now=NOW + timedelta(minutes=1))
    kept = kept_in(Snapshot.empty(table), [("ns/two", two), ("ns/one", one)], pools(table))
    of = {key: [table.nodes[row].name for row in rows] for key, rows in kept.items()}
    assert of == {"ns/one": ["spot-1", "spot-2", "spot-3"], "ns/two": ["spot-4"]}
    assert kept_in(Snapshot.empty(table), [("ns/one", after(one, state=FAILED))], pools(table)) == {}


def test_what_others_run_on_is_not_kept() -> None:
    """Who asked first has started on what came first: that is no longer kept for those who asked after him."""
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


# ---------------------------------------------------------------------------------------------- properties


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[NodeFacts], set[str], list[GangRequest], dict[str, Answer], int]:
    """Nodes, which of them are used, gangs that wait, what an autoscaler says to each, the pool's limit."""
    count = draw(st.integers(0, 4))
    nodes = [
        node(f"spot-{n}", created=NOW - timedelta(minutes=draw(st.integers(1, 30))), ready=draw(st.booleans()))
        for n in range(count)
    ]
    used = draw(st.sets(st.sampled_from([facts.name for facts in nodes]))) if nodes else set()
    gangs = [gang(draw(st.integers(1, 6)), f"ns/{n}") for n in range(draw(st.integers(1, 6)))]
    states = st.sampled_from([ASKED, ACCEPTED, PROVISIONED, FAILED])
    answers = {each.key: Answer(draw(states), draw(st.sampled_from(["", "words"]))) for each in gangs}
    return nodes, used, gangs, answers, max(1, draw(st.integers(0, 8)) + count)


def _queue(
    snapshot: Snapshot,
    gangs: Sequence[GangRequest],
    requests: Mapping[str, NodeRequest],
    answers: Mapping[str, Answer],
    known: Mapping[str, Pool],
    owners: dict[str, str],
) -> list[Wanting]:
    """Those that find no place, off what is kept for others; who finds one has it in the snapshot from then on."""
    kept = kept_in(snapshot, requests.items(), known, owners)
    names = {key: {snapshot.table.nodes[row].name for row in rows.tolist()} for key, rows in kept.items()}
    queue = []
    for each in gangs:
        others = frozenset(name for key, mine in names.items() if key != each.key for name in mine)
        found = place(snapshot, replace(each, member=replace(each.member, barred=others)))
        if isinstance(found, Shortage):
            request = requests.get(each.key)
            answer = answers[each.key] if request is not None and request.is_live else None
            queue.append(Wanting(each, found, 1, request, answer))
        else:
            occupy(snapshot, WHOLE, found.nodes)
            owners |= dict.fromkeys(found.nodes, each.key)
    return queue


@given(worlds(), st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 4)), min_size=1, max_size=6))
@settings(max_examples=100)
def test_whatever_happens_a_pool_never_gets_more_than_it_may(
    world: tuple[list[NodeFacts], set[str], list[GangRequest], dict[str, Answer], int], steps: list[tuple[int, int]]
) -> None:
    """Nodes that it has and those that are on their way are never more than its limit, while nodes come; a request is
    for all that its gang lacks; numbers only grow; no node is kept for two; asked twice at the same moment, nothing
    changes twice, unless what was kept for somebody is free now."""
    nodes, used, gangs, answers, limit = world
    requests: dict[str, NodeRequest] = {}
    owners = dict.fromkeys(used, "ns/somebody")
    now, coming = NOW, 0
    for seconds, arrivals in steps:
        now += timedelta(seconds=seconds)
        nodes = [*nodes, *(node(f"spot-{len(nodes) + n}", created=now) for n in range(min(arrivals, coming)))]
        snapshot = empty(*nodes)
        occupy(snapshot, WHOLE, sorted(owners))
        known = pools(snapshot.table, ("spot", rules(maxNodes=limit)))
        queue = _queue(snapshot, gangs, requests, answers, known, owners)
        waiting = {each.gang.key for each in queue}
        starting = [(key, request) for key, request in requests.items() if request.is_live and key not in waiting]
        found = demand(queue, starting, snapshot, known, now, owners=owners)
        gangs = [each for each in gangs if each.key in waiting]
        lapsed = any(
            requests[key].is_live and not each.is_live for key, each in found.changed.items() if key in requests
        )
        changed = dict(found.changed)
        for key, request in changed.items():
            assert request.number >= (requests[key].number if key in requests else 0)
            assert request.nodes >= 1
        requests = {key: each for key, each in (requests | changed).items() if key in waiting}
        kept = kept_in(snapshot, requests.items(), known, owners)
        live = {key: request for key, request in requests.items() if request.is_live}
        coming = sum(max(0, each.granted + each.nodes - kept[key].size) for key, each in live.items())
        assert not live or len(nodes) + coming <= limit
        rows = [row for mine in kept.values() for row in mine.tolist()]
        assert len(rows) == len(set(rows))
        for each in queue:
            made = live.get(each.gang.key)
            if made is not None and made.asked_at == format_time(now):
                assert each.shortage.members - each.shortage.fit_now <= made.nodes <= each.shortage.members
        quiet = {key: Answer(request.state, request.message) for key, request in requests.items()}
        again = _queue(snapshot, gangs, requests | dict(starting), answers | quiet, known, owners)
        assert lapsed or not demand(again, starting, snapshot, known, now, owners=owners).changed
