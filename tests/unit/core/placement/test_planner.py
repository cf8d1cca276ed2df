"""The planner's guarantees: all or nothing, never more than a node has, and not scattered without need."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.scenes.plain_plan import plan

from kajitori.core.kubernetes.taints import Taint, Toleration
from kajitori.core.placement.planner import (
    GangRequest,
    MemberRequest,
    Placement,
    Shortage,
    largest_gang,
    occupy,
    place,
)
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot

GIB = 1 << 30


def node(name: str, *, gpus: int = 8, gpu_type: str = "h100", cpus: int = 64, **more: Any) -> NodeFacts:
    facts = NodeFacts(
        name=name,
        cpu_millis=cpus * 1000,
        memory_bytes=512 * GIB,
        gpus=gpus,
        pods=110,
        gpu_type=gpu_type if gpus else "",
    )
    return replace(facts, **more)


def empty(*nodes: NodeFacts) -> Snapshot:
    return Snapshot.empty(NodeTable(nodes))


def gang(members: int, *, key: str = "bert", gpus: int = 8, gpu_type: str = "", **more: Any) -> GangRequest:
    member = MemberRequest(cpu_millis=1000, memory_bytes=GIB, gpus=gpus, gpu_type=gpu_type)
    ours = {k: v for k, v in more.items() if k in MemberRequest.__dataclass_fields__}
    rest = {k: v for k, v in more.items() if k not in ours}
    member = replace(member, **ours)
    return replace(GangRequest(key, member, tuple(range(members))), **rest)


def placed(snapshot: Snapshot, request: GangRequest) -> tuple[str, ...]:
    answer = place(snapshot, request)
    assert isinstance(answer, Placement), answer
    return answer.nodes


def test_ranks_are_on_neighbouring_nodes_in_natural_order() -> None:
    """gpu-10 comes after gpu-9, and the order of ranks follows."""
    snapshot = empty(*(node(f"gpu-{i}") for i in range(8, 12)))
    assert placed(snapshot, gang(4)) == ("gpu-8", "gpu-9", "gpu-10", "gpu-11")


def test_several_members_share_a_node_if_they_fit() -> None:
    """As few nodes as possible: four members of two GPUs take one node of eight."""
    snapshot = empty(node("a"), node("b"))
    assert len(set(placed(snapshot, gang(4, gpus=2)))) == 1


def test_a_small_run_goes_to_the_fullest_node_that_still_fits() -> None:
    """So that whole nodes stay free for large gangs."""
    snapshot = empty(node("a"), node("b"), node("c"))
    occupy(snapshot, MemberRequest(1000, GIB, gpus=6), ["b"])
    assert placed(snapshot, gang(1, gpus=2)) == ("b",)


def test_a_gang_that_does_not_fit_is_not_placed_in_part() -> None:
    """One node is missing: nothing is placed, and the shortage says how many members would fit."""
    snapshot = empty(node("a"), node("b"))
    answer = place(snapshot, gang(3))
    assert isinstance(answer, Shortage)
    assert (answer.members, answer.fit_now, answer.fit_ever) == (3, 2, 2)


def test_a_gang_that_does_not_fit_takes_nothing_from_the_next() -> None:
    snapshot = empty(node("a"), node("b"))
    answer = plan(snapshot, [gang(3, key="large"), gang(2, key="small")])
    assert [p.key for p in answer.placements] == ["small"]
    assert [s.key for s in answer.shortages] == ["large"]


def test_the_same_nodes_are_not_given_twice_in_one_cycle() -> None:
    snapshot = empty(node("a"), node("b"))
    answer = plan(snapshot, [gang(1, key="one"), gang(1, key="two"), gang(1, key="three")])
    assert sorted(n for p in answer.placements for n in p.nodes) == ["a", "b"]
    assert [s.key for s in answer.shortages] == ["three"]


def test_a_gang_is_placed_in_as_few_racks_as_possible() -> None:
    """It is not spread over two racks if it fits into one, even if the first rack has some room."""
    nodes = [node(f"n{i}", domains=("z", f"rack{i // 4}")) for i in range(8)]
    snapshot = empty(*nodes)
    occupy(snapshot, MemberRequest(1000, GIB, gpus=8), ["n0"])
    assert placed(snapshot, gang(4)) == ("n4", "n5", "n6", "n7")
    assert placed(snapshot, gang(3)) == ("n1", "n2", "n3")


def test_a_rack_of_the_same_name_in_another_zone_is_another_rack() -> None:
    nodes = [node(f"n{i}", domains=(f"zone{i // 2}", "rack1")) for i in range(4)]
    chosen = placed(empty(*nodes), gang(2))
    assert chosen in {("n0", "n1"), ("n2", "n3")}


def test_gpu_type_selector_and_taints_are_respected() -> None:
    tainted = Taint("dedicated", "vision")
    snapshot = empty(
        node("a", gpu_type="a100"),
        node("b", taints=(tainted,)),
        node("c", labels={"disk": "nvme"}),
        node("d", taints=(tainted,), labels={"disk": "nvme"}),
    )
    tolerates = (Toleration("dedicated", "Equal", "vision"),)
    assert placed(snapshot, gang(1, gpu_type="a100")) == ("a",)
    assert placed(snapshot, gang(1, gpu_type="h100")) == ("c",)
    both = gang(1, node_selector=(("disk", "nvme"),), tolerations=tolerates, avoid=frozenset({"c"}))
    assert placed(snapshot, both) == ("d",)


@pytest.mark.parametrize("state", [{"ready": False}, {"schedulable": False}])
def test_cordoned_and_broken_nodes_are_never_used(state: dict[str, Any]) -> None:
    """Not even if there is no other node; the shortage says that repair would help."""
    answer = place(empty(node("a", **state)), gang(1))
    assert isinstance(answer, Shortage)
    assert (answer.fit_now, answer.fit_ever, answer.fit_repaired) == (0, 0, 1)


def test_cpu_runs_use_gpu_nodes_only_if_there_are_no_others() -> None:
    cpu_only = node("cpu", gpus=0)
    full = empty(node("gpu"), cpu_only)
    occupy(full, MemberRequest(64_000, GIB), ["cpu"])
    request = gang(1, gpus=0)
    assert placed(empty(node("gpu"), cpu_only), request) == ("cpu",)
    assert isinstance(place(full, request), Shortage)
    assert placed(empty(node("gpu")), request) == ("gpu",)
    assert isinstance(place(empty(node("gpu")), gang(1, gpus=0, cpu_runs_on_gpu_nodes="never")), Shortage)
    assert placed(full, gang(1, gpus=0, cpu_runs_on_gpu_nodes="always")) == ("gpu",)


def test_a_whole_node_is_shared_with_no_other_run() -> None:
    snapshot = empty(node("a"), node("b"))
    occupy(snapshot, MemberRequest(1000, GIB, gpus=1), ["a"])
    assert placed(snapshot, gang(1, gpus=1, whole_node=True)) == ("b",)
    occupy(snapshot, MemberRequest(1000, GIB, gpus=1, whole_node=True), ["b"])
    assert placed(snapshot, gang(1, gpus=1)) == ("a",)
    assert isinstance(place(snapshot, gang(1, gpus=1, whole_node=True)), Shortage)


def test_a_run_without_a_memory_limit_shares_no_node_with_other_runs() -> None:
    """Otherwise other runs could be killed in its place. Its own members may share a node."""
    snapshot = empty(node("a"), node("b"))
    occupy(snapshot, MemberRequest(1000, GIB, gpus=1), ["a"])
    assert placed(snapshot, gang(2, gpus=1, unlimited=True)) == ("b", "b")
    occupy(snapshot, MemberRequest(1000, GIB, gpus=1, unlimited=True), ["b", "b"])
    assert placed(snapshot, gang(1, gpus=1)) == ("a",)
    assert isinstance(place(snapshot, gang(1, gpus=1, unlimited=True)), Shortage)


def test_members_return_to_their_nodes() -> None:
    """Members with a healthy node keep it, rank by rank; the others are placed near them."""
    nodes = [node(f"n{i}", domains=(f"rack{i // 4}",)) for i in range(8)]
    snapshot = empty(*(replace(n, ready=n.name != "n5") for n in nodes))
    request = gang(3, previous={0: "n6", 1: "n5", 2: "n4"})
    chosen = placed(snapshot, request)
    assert chosen[0] == "n6" and chosen[2] == "n4"
    assert chosen[1] == "n7"


def test_a_node_with_failures_is_avoided_unless_there_is_no_other() -> None:
    avoid = frozenset({"a"})
    assert placed(empty(node("a"), node("b")), gang(1, avoid=avoid)) == ("b",)
    assert placed(empty(node("a")), gang(1, avoid=avoid)) == ("a",)


def test_largest_gang_counts_broken_nodes_too() -> None:
    table = NodeTable([node("a"), node("b", ready=False), node("c", gpus=0)])
    assert largest_gang(table, MemberRequest(1000, GIB, gpus=4)) == 4


nodes_strategy = st.lists(
    st.builds(
        lambda gpus, cpus, rack, ready, taint: (gpus, cpus, rack, ready, taint),
        st.sampled_from([0, 2, 8]),
        st.integers(1, 16),
        st.integers(0, 2),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
gangs_strategy = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(1, 8), st.booleans(), st.booleans()),
    min_size=1,
    max_size=6,
)


@given(nodes_strategy, gangs_strategy)
def test_no_node_is_ever_overcommitted_and_every_gang_is_whole(
    shapes: list[tuple[int, int, int, bool, bool]], wanted: list[tuple[int, int, int, bool, bool]]
) -> None:
    """For random clusters and requests: all members of a gang are placed or none, within what the nodes have."""
    table = NodeTable(
        node(f"n{i}", gpus=gpus, cpus=cpus, domains=(f"r{rack}",), ready=ready, taints=(Taint("t"),) if taint else ())
        for i, (gpus, cpus, rack, ready, taint) in enumerate(shapes)
    )
    queue = [
        gang(n, key=f"g{i}", gpus=gpus, cpu_millis=cpus * 1000, whole_node=whole, unlimited=unlimited)
        for i, (n, gpus, cpus, whole, unlimited) in enumerate(wanted)
    ]
    by_key = {request.key: request for request in queue}
    answer = plan(Snapshot.empty(table), queue)
    assert {p.key for p in answer.placements} | {s.key for s in answer.shortages} == set(by_key)
    used: dict[str, list[int]] = {}
    users: dict[str, list[GangRequest]] = {}
    for placement in answer.placements:
        request = by_key[placement.key]
        assert len(placement.nodes) == len(request.ranks)
        for name in placement.nodes:
            facts = table.nodes[table.index[name]]
            assert facts.ready and not facts.taints
            amounts = used.setdefault(name, [0, 0, 0])
            amounts[0] += request.member.cpu_millis
            amounts[1] += request.member.memory_bytes
            amounts[2] += request.member.gpus
            users.setdefault(name, []).append(request)
    for name, (cpu, memory, gpus) in used.items():
        facts = table.nodes[table.index[name]]
        assert cpu <= facts.cpu_millis and memory <= facts.memory_bytes and gpus <= facts.gpus
        if any(request.member.whole_node for request in users[name]):
            assert len(users[name]) == 1
        if any(request.member.unlimited for request in users[name]):
            assert len({request.key for request in users[name]}) == 1


@given(nodes_strategy, gangs_strategy, st.lists(st.integers(0, 7), max_size=4), st.lists(st.integers(0, 7), max_size=4))
def test_runs_that_share_no_node_are_alone_on_their_nodes(
    shapes: list[tuple[int, int, int, bool, bool]],
    wanted: list[tuple[int, int, int, bool, bool]],
    shared: list[int],
    alone: list[int],
) -> None:
    """Nothing is placed on nodes of runs without a memory limit, and such a run is placed on no node with another
    run."""
    table = NodeTable(node(f"n{i}", gpus=gpus, cpus=cpus) for i, (gpus, cpus, *_) in enumerate(shapes))
    snapshot = Snapshot.empty(table)
    others = {f"n{i}" for i in shared if i < len(shapes)}
    hogs = {f"n{i}" for i in alone if i < len(shapes)} - others
    occupy(snapshot, MemberRequest(0, 0), sorted(others))
    occupy(snapshot, MemberRequest(0, 0, unlimited=True), sorted(hogs))
    queue = [
        gang(n, key=f"g{i}", gpus=gpus, cpu_millis=cpus * 1000, whole_node=whole, unlimited=unlimited)
        for i, (n, gpus, cpus, whole, unlimited) in enumerate(wanted)
    ]
    by_key = {request.key: request for request in queue}
    for placement in plan(snapshot, queue).placements:
        nodes = set(placement.nodes)
        assert not nodes & hogs
        if by_key[placement.key].member.alone:
            assert not nodes & others


@given(st.lists(st.integers(0, 4), min_size=2, max_size=6), st.integers(1, 8))
def test_no_smaller_set_of_racks_would_hold_the_gang(free_nodes_per_rack: list[int], members: int) -> None:
    """Compared with every subset of racks."""
    nodes = [
        node(f"n{rack}-{i}", domains=(f"rack{rack}",)) for rack, n in enumerate(free_nodes_per_rack) for i in range(n)
    ]
    answer = place(empty(*nodes), gang(members))
    if isinstance(answer, Shortage):
        assert sum(free_nodes_per_rack) < members
        return
    racks = {name.split("-")[0] for name in answer.nodes}
    fewest = min(
        size
        for size in range(1, len(free_nodes_per_rack) + 1)
        for some in itertools.combinations(free_nodes_per_rack, size)
        if sum(some) >= members
    )
    assert len(racks) == fewest


def test_an_elastic_gang_gets_as_many_members_as_fit() -> None:
    """Its first ranks, at most as many as requested. Below its minimum it is all or nothing."""
    snapshot = empty(node("a"), node("b"))
    answer = place(snapshot, replace(gang(5, fewest=1), ranks=(3, 5, 7, 8, 9)))
    assert isinstance(answer, Placement)
    assert (answer.ranks, len(set(answer.nodes))) == ((3, 5), 2)
    assert len(placed(snapshot, gang(1, fewest=1))) == 1
    short = place(snapshot, gang(5, fewest=3))
    assert isinstance(short, Shortage)
    assert (short.members, short.fit_now) == (3, 2)


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 9), st.lists(st.integers(0, 8), min_size=6, max_size=6))
def test_an_elastic_gangs_size_is_between_its_minimum_and_what_is_free(
    count: int, members: int, fewest: int, used: list[int]
) -> None:
    snapshot = empty(*(node(f"n{i}") for i in range(count)))
    for row, gpus in enumerate(used[:count]):
        if gpus:
            occupy(snapshot, MemberRequest(0, 0, gpus=gpus), [f"n{row}"])
    room = sum((8 - gpus) // 3 for gpus in used[:count])
    answer = place(snapshot, gang(members, gpus=3, fewest=fewest))
    least = min(fewest, members)
    if room < least:
        assert isinstance(answer, Shortage)
        assert (answer.members, answer.fit_now) == (least, room)
    else:
        assert isinstance(answer, Placement)
        assert answer.ranks == tuple(range(min(members, room)))
        assert len(answer.nodes) == len(answer.ranks)
