"""Invariants of requests for nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.pools import (
    ACCEPTED,
    ASKED,
    FAILED,
    NOW,
    PROVISIONED,
    WHOLE,
    demand,
    empty,
    gang,
    kept_in,
    node,
    pools,
    rules,
)

from kajitori.core.formats.times import format_time
from kajitori.core.nodes.provisioning import Answer, Pool, UnplacedRun
from kajitori.core.placement.planner import GangRequest, Shortage, occupy, place
from kajitori.core.placement.snapshot import NodeFacts, Snapshot
from kajitori.core.spec.status_parts.node_request import NodeRequest


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[NodeFacts], set[str], list[GangRequest], dict[str, Answer], int]:
    """Draw nodes, their usage, waiting gangs, an autoscaler's answers and the pool's limit."""
    count = draw(st.integers(0, 4))
    nodes = [
        node(f"spot-{n}", created=NOW - timedelta(minutes=draw(st.integers(1, 30))), ready=draw(st.booleans()))
        for n in range(count)
    ]
    used = draw(st.sets(st.sampled_from([facts.name for facts in nodes]))) if nodes else set()
    gangs = [gang(draw(st.integers(1, 6)), f"ns/{n}") for n in range(draw(st.integers(1, 6)))]
    states = st.sampled_from([ASKED, ACCEPTED, PROVISIONED, FAILED])
    answers = {gang.key: Answer(draw(states), draw(st.sampled_from(["", "words"]))) for gang in gangs}
    return nodes, used, gangs, answers, max(1, draw(st.integers(0, 8)) + count)


def _queue(
    snapshot: Snapshot,
    gangs: Sequence[GangRequest],
    requests: Mapping[str, NodeRequest],
    answers: Mapping[str, Answer],
    known: Mapping[str, Pool],
    owners: dict[str, str],
) -> list[UnplacedRun]:
    """Return the unplaced runs, without nodes reserved for others; placed ones occupy the snapshot."""
    kept = kept_in(snapshot, requests.items(), known, owners)
    names = {key: {snapshot.table.nodes[row].name for row in rows.tolist()} for key, rows in kept.items()}
    queue = []
    for candidate in gangs:
        others = frozenset(name for key, mine in names.items() if key != candidate.key for name in mine)
        found = place(snapshot, replace(candidate, member=replace(candidate.member, barred=others)))
        if isinstance(found, Shortage):
            request = requests.get(candidate.key)
            answer = answers[candidate.key] if request is not None and request.is_live else None
            queue.append(UnplacedRun(candidate, found, 1, request, answer))
        else:
            occupy(snapshot, WHOLE, found.nodes)
            owners |= dict.fromkeys(found.nodes, candidate.key)
    return queue


@given(worlds(), st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 4)), min_size=1, max_size=6))
@settings(max_examples=100)
def test_requests_never_exceed_a_pools_limit(
    world: tuple[list[NodeFacts], set[str], list[GangRequest], dict[str, Answer], int], steps: list[tuple[int, int]]
) -> None:
    """Present and coming nodes stay within the limit while nodes join; a request has everything its gang lacks; numbers
    only grow; no node is reserved twice; a repeated decision changes nothing, unless reserved nodes became free."""
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
        waiting = {queued.gang.key for queued in queue}
        starting = [(key, request) for key, request in requests.items() if request.is_live and key not in waiting]
        found = demand(queue, starting, snapshot, known, now, owners=owners)
        gangs = [gang for gang in gangs if gang.key in waiting]
        lapsed = any(
            requests[key].is_live and not request.is_live for key, request in found.changed.items() if key in requests
        )
        changed = dict(found.changed)
        for key, request in changed.items():
            assert request.number >= (requests[key].number if key in requests else 0)
            assert request.nodes >= 1
        requests = {key: request for key, request in (requests | changed).items() if key in waiting}
        kept = kept_in(snapshot, requests.items(), known, owners)
        live = {key: request for key, request in requests.items() if request.is_live}
        coming = sum(max(0, request.granted + request.nodes - kept[key].size) for key, request in live.items())
        assert not live or len(nodes) + coming <= limit
        rows = [row for mine in kept.values() for row in mine.tolist()]
        assert len(rows) == len(set(rows))
        for queued in queue:
            made = live.get(queued.gang.key)
            if made is not None and made.asked_at == format_time(now):
                assert queued.shortage.members - queued.shortage.fit_now <= made.nodes <= queued.shortage.members
        quiet = {key: Answer(request.state, request.message) for key, request in requests.items()}
        again = _queue(snapshot, gangs, requests | dict(starting), answers | quiet, known, owners)
        assert lapsed or not demand(again, starting, snapshot, known, now, owners=owners).changed
