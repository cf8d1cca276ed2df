"""Reservations: which runs get one, when they begin, and which runs may pass them."""

from __future__ import annotations

from dataclasses import replace

from tests.helpers.scenes.backfill_scene import FOR_EVER, HOUR, Cluster, nodes, queued, started


def test_the_first_run_that_does_not_fit_gets_a_reservation() -> None:
    """It begins when enough gangs have ended, on the nodes that free first, so that other nodes stay free."""
    cluster = Cluster(nodes(4))
    cluster.runs("h100-0", 3 * HOUR)
    cluster.runs("h100-1", HOUR)
    cluster.runs("h100-2", 2 * HOUR)
    answer = cluster.schedule(queued(3, HOUR))
    (reservation,) = answer.reservations
    assert (reservation.key, reservation.starts_at) == ("bert", 2 * HOUR)
    assert set(reservation.placement.nodes) == {"h100-1", "h100-2", "h100-3"}
    assert [shortage.fit_now for shortage in answer.shortages] == [1]


def test_only_runs_that_end_before_a_reservation_may_pass_it() -> None:
    cluster = Cluster(nodes(2))
    cluster.runs("h100-0", 2 * HOUR)
    large, short, long = queued(2, HOUR), queued(1, 2 * HOUR, key="short"), queued(1, 2 * HOUR + 1, key="long")
    assert started(cluster.schedule(large, long, short)) == ["short"]
    assert started(cluster.schedule(large, long, short, reserve=False)) == ["long"]
    assert started(cluster.schedule(large, long, likely=0.9)) == ["long"]
    assert started(cluster.schedule(replace(large, overdue=True), long, likely=0.9)) == []


def test_a_long_run_may_pass_on_nodes_that_no_reservation_needs() -> None:
    """Three nodes will be free and the reservation needs two: one long run may start, not two."""
    cluster = Cluster(nodes(3))
    cluster.runs("h100-0", HOUR)
    cluster.runs("h100-1", HOUR)
    answer = cluster.schedule(queued(2, HOUR), queued(1, FOR_EVER, key="one"), queued(1, FOR_EVER, key="two"))
    assert started(answer) == ["one"]


def test_a_run_may_use_the_unreserved_part_of_a_node() -> None:
    """The reserved member needs four of eight GPUs; the other four are available."""
    cluster = Cluster(nodes(1))
    cluster.runs("h100-0", HOUR, gpus=6)
    first = queued(1, HOUR, gpus=4)
    assert started(cluster.schedule(first, queued(1, FOR_EVER, key="half", gpus=2))) == ["half"]
    cluster = Cluster(nodes(1))
    cluster.runs("h100-0", None, gpus=2)
    cluster.runs("h100-0", HOUR, gpus=3)
    first = queued(1, HOUR, gpus=4)
    assert started(cluster.schedule(first, queued(1, FOR_EVER, key="too much", gpus=3))) == []
    assert started(cluster.schedule(first, queued(1, HOUR, key="ends in time", gpus=3))) == ["ends in time"]


def test_short_runs_take_reserved_nodes_first() -> None:
    """So that unreserved nodes are left for longer runs."""
    cluster = Cluster(nodes(4))
    cluster.runs(["h100-0", "h100-1"], HOUR)
    first = queued(3, HOUR)
    answer = cluster.schedule(first, queued(1, HOUR, key="short"), queued(1, FOR_EVER, key="long"))
    assert started(answer) == ["short", "long"]


def test_a_member_without_a_known_end_never_frees_its_node() -> None:
    """A gang that needs such a node gets no reservation and delays no run; the next gang gets one."""
    cluster = Cluster(nodes(3))
    cluster.runs("h100-0", None)
    cluster.runs("h100-1", HOUR)
    answer = cluster.schedule(
        queued(3, HOUR, key="never"), queued(2, HOUR, key="second"), queued(1, FOR_EVER, key="third")
    )
    assert [(reservation.key, reservation.starts_at) for reservation in answer.reservations] == [("second", HOUR)]
    assert started(answer) == []
    assert started(cluster.schedule(queued(3, HOUR, key="never"), queued(1, FOR_EVER, key="third"))) == ["third"]


def test_each_gpu_type_has_its_own_reservation() -> None:
    """A reservation of a100 does not leave runs that wait for h100 without one, or they might starve."""
    cluster = Cluster(nodes(2) + nodes(2, gpu_type="a100"))
    cluster.runs("h100-0", HOUR)
    cluster.runs("a100-0", 2 * HOUR)
    answer = cluster.schedule(
        queued(2, HOUR, key="a", gpu_type="a100"),
        queued(2, HOUR, key="h", gpu_type="h100"),
        queued(2, HOUR, key="h again", gpu_type="h100"),
        queued(1, FOR_EVER, key="long", gpu_type="h100"),
        queued(1, 1.5 * HOUR, key="too long here", gpu_type="h100"),
        queued(1, 1.5 * HOUR, key="there not", gpu_type="a100"),
    )
    assert [(reservation.key, reservation.starts_at) for reservation in answer.reservations] == [
        ("a", 2 * HOUR),
        ("h", HOUR),
    ]
    assert started(answer) == ["there not"]


def test_reservations_respect_avoided_cordoned_and_whole_nodes() -> None:
    facts = nodes(4)
    facts[3] = replace(facts[3], schedulable=False)
    cluster = Cluster(facts)
    cluster.runs("h100-0", HOUR, gpus=1, whole_node=True)
    cluster.runs("h100-1", 2 * HOUR, gpus=1)
    whole = queued(2, HOUR, gpus=1, whole_node=True, avoid=frozenset({"h100-1"}))
    (reservation,) = cluster.schedule(whole).reservations
    assert reservation.starts_at == HOUR and set(reservation.placement.nodes) == {"h100-0", "h100-2"}


def test_a_run_that_starts_in_this_cycle_has_an_expected_end() -> None:
    cluster = Cluster(nodes(2))
    answer = cluster.schedule(queued(1, HOUR, key="now"), queued(2, HOUR, key="then"), now=50.0)
    assert started(answer) == ["now"]
    assert [reservation.starts_at for reservation in answer.reservations] == [50.0 + HOUR]


def test_a_run_of_lower_priority_delays_no_reservation() -> None:
    """Not even within the tolerance for equal priority, or if both ends are at almost the same time."""
    cluster = Cluster(nodes(2))
    cluster.runs("h100-0", HOUR)
    large = queued(2, HOUR, priority=100)
    for seconds, passes in ((1.2 * HOUR, False), (HOUR, False), (HOUR - 2, True)):
        small = queued(1, seconds, key="small", priority=50)
        assert started(cluster.schedule(large, small, likely=0.8)) == (["small"] if passes else [])
        like = replace(small, gang=replace(small.gang, priority=100))
        assert started(cluster.schedule(large, like, likely=0.8)) == ["small"]
    (shortage,) = cluster.schedule(large, queued(1, HOUR, key="small", priority=50)).shortages[1:]
    assert shortage.behind == ("bert",)


def test_nodes_are_reserved_for_all_runs_of_higher_priority() -> None:
    """Each gets its own nodes, from when they are free. Runs of equal priority respect only the first reservation."""
    cluster = Cluster(nodes(3))
    for row, hours in enumerate((2, 1, 3)):
        cluster.runs(f"h100-{row}", hours * HOUR, gpus=1)
    large = [queued(1, HOUR, key=key, priority=100) for key in ("a", "b", "c", "d")]
    small = queued(1, FOR_EVER, key="small", gpus=1, priority=50)
    answer = cluster.schedule(*large, small)
    assert [
        (reservation.key, reservation.starts_at, *reservation.placement.nodes) for reservation in answer.reservations
    ] == [
        ("a", HOUR, "h100-1"),
        ("b", 2 * HOUR, "h100-0"),
        ("c", 3 * HOUR, "h100-2"),
    ]
    assert started(answer) == []
    assert started(cluster.schedule(*large, replace(small, expected_seconds=HOUR - 2))) == ["small"]
    like = replace(small, gang=replace(small.gang, priority=100))
    assert started(cluster.schedule(*large, like)) == ["small"]
    assert started(cluster.schedule(*large, replace(like, expected_seconds=HOUR), small)) == ["small"]


def test_a_node_is_reserved_for_as_many_runs_as_it_holds() -> None:
    """The second reservation gets what the first leaves; any run may use the rest."""
    cluster = Cluster(nodes(1))
    cluster.runs("h100-0", HOUR, gpus=4)
    cluster.runs("h100-0", 2 * HOUR, gpus=3)
    waiting = [queued(1, HOUR, key=key, gpus=gpus, priority=100) for key, gpus in (("a", 4), ("b", 3))]
    low = [queued(1, FOR_EVER, key=f"low-{number}", gpus=1, priority=50) for number in range(2)]
    answer = cluster.schedule(*waiting, *low)
    assert [(reservation.key, reservation.starts_at) for reservation in answer.reservations] == [
        ("a", HOUR),
        ("b", 2 * HOUR),
    ]
    assert started(answer) == ["low-0"]


def test_a_sweep_takes_what_fits_outside_of_reservations() -> None:
    """It gets nothing behind a gang of all nodes, whose reservation begins before the sweep's members end. Without a
    reservation it takes all free nodes. The sweep's own reservation is only as large as it needs to start."""
    cluster = Cluster(nodes(4))
    cluster.runs("h100-0", HOUR)
    sweep = queued(9, 2 * HOUR, key="sweep", fewest=1)
    (alone,) = cluster.schedule(sweep).placements
    assert (alone.key, alone.ranks) == ("sweep", (0, 1, 2))
    assert started(cluster.schedule(queued(4, HOUR), sweep)) == []
    short = cluster.schedule(queued(4, HOUR), replace(sweep, expected_seconds=HOUR / 2))
    assert [len(placement.ranks) for placement in short.placements] == [3]
    cluster.runs(["h100-1", "h100-2", "h100-3"], 3 * HOUR)
    full = cluster.schedule(sweep)
    (reservation,) = full.reservations
    assert (reservation.starts_at, len(reservation.placement.nodes)) == (HOUR, 1)
    assert [shortage.members for shortage in full.shortages] == [1]
