"""The queue derived from the mirror: order, expectations, shares, reservations; the same for every observer."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago

from kajitori.cluster.queue.outlook import Outlook, PendingRun
from kajitori.cluster.queue.preemptions import Preemptions
from kajitori.cluster.queue.usage_history import UsageHistory
from kajitori.core.formats.times import format_time
from kajitori.core.queue.cycle import ClusterState, CyclePlan, run_cycle
from kajitori.core.queue.expected import UNKNOWN_SECONDS, Expectation, Source
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status_parts.attempts import Ran
from kajitori.core.spec.status_parts.members import MemberCounts, SweepState
from kajitori.kube.resources import PODS

HOUR = 3600.0


def plan(scene: QueueScene, *waiting: PendingRun) -> CyclePlan:
    outlook = Outlook(scene.mirror, scene.cluster)
    queue = outlook.waiting_runs(waiting, NOW)
    cluster = ClusterState(
        scene.cluster.occupancy.used(),
        [ending for _, ending in outlook.endings(NOW)],
        Preemptions(scene.mirror, scene.cluster, outlook).running_at(NOW),
        outlook.past.users,
        outlook.past.teams,
    )
    return run_cycle(cluster, queue, scene.cluster.policy, NOW.timestamp())


def expected(scene: QueueScene, pending: PendingRun) -> Expectation:
    past = UsageHistory(scene.mirror, scene.cluster)
    past.refresh()
    return past.expect(pending.run)


def length(scene: QueueScene, pending: PendingRun) -> tuple[float, Source]:
    """Return its expected length and the source of the evidence."""
    found = expected(scene, pending)
    return found.seconds, found.source


def started(found: CyclePlan) -> list[str]:
    return [placement.key.partition("/")[2] for placement in found.schedule.placements]


# ------------------------------------------------------------------------------------------------ expectations


def test_similar_runs_of_the_same_user_are_evidence() -> None:
    """The longest of the last three counts, at most the time limit. Runs of others and of other programs do not
    count."""
    scene = QueueScene(4)
    for number, seconds in enumerate((9000, 100, 300, 200)):
        scene.finished(f"old-{number}", seconds=seconds, until=ago(hours=10 - number))
    scene.finished("bobs", seconds=7, until=ago(hours=1), owner="bob")
    scene.finished("gpt", seconds=8, until=ago(hours=1), image="gpt:1")
    scene.finished("elsewhere", seconds=9, until=ago(hours=1), team="other")
    assert length(scene, scene.waits("new", 1)) == (300, Source.SIMILAR)
    assert length(scene, scene.waits("limited", 1, timeLimit="2m")) == (120, Source.SIMILAR)


def test_runs_with_other_resources_are_no_evidence() -> None:
    """Three echos with eight GPUs each are no evidence for 24 members of eight, though their command is the same; nor
    are runs on one core for one on 64."""
    scene = QueueScene(4)
    for number in range(3):
        scene.finished(f"echo-{number}", seconds=3, until=ago(hours=number + 1), resources={"gpu": 8})
        scene.finished(f"core-{number}", seconds=4, until=ago(hours=number + 1))
    eight = {"gpu": 8}
    assert length(scene, scene.waits("large", 24, replicas=24, resources=eight)) == (UNKNOWN_SECONDS, Source.UNKNOWN)
    assert length(scene, scene.waits("two", 2, replicas=2, resources=eight)) == (3, Source.SIMILAR)
    assert length(scene, scene.waits("cores", 1, resources={"cpu": 64})) == (UNKNOWN_SECONDS, Source.UNKNOWN)
    assert length(scene, scene.waits("core", 1, resources={"cpu": "2"})) == (4, Source.SIMILAR)


def test_without_history_the_runs_or_policys_limit_counts() -> None:
    scene = QueueScene(4)
    assert length(scene, scene.waits("own", 1, timeLimit="2h")) == (2 * HOUR, Source.LIMIT)
    assert length(scene, scene.waits("none", 1)) == (UNKNOWN_SECONDS, Source.UNKNOWN)
    scene = QueueScene(4, defaults={"timeLimit": "1d"})
    assert length(scene, scene.waits("none", 1)) == (24 * HOUR, Source.LIMIT)


def test_a_run_with_an_invalid_spec_has_an_expectation() -> None:
    scene = QueueScene(1)
    scene.finished("old", seconds=5, until=ago(hours=1), timeLimit="soon", command=3)
    assert expected(scene, scene.waits("new", 1, timeLimit="soon", command=3)).source is Source.UNKNOWN


def test_a_service_has_no_expected_end_and_is_no_evidence() -> None:
    scene = QueueScene(1)
    scene.finished("old", seconds=5, until=ago(hours=1), type="service")
    web = scene.waits("web", 1, type="service")
    assert length(scene, web) == (UNKNOWN_SECONDS, Source.ENDLESS)
    assert math.isinf(plan(scene, web).queue[0].expected_seconds)
    assert expected(scene, scene.waits("new", 1)).source is Source.UNKNOWN
    assert length(scene, scene.waits("tests", 1, type="service", timeLimit="1h")) == (HOUR, Source.LIMIT)


def test_a_run_with_checkpoints_needs_only_its_remaining_time() -> None:
    scene = QueueScene(4)
    ran = Ran(seconds=3000, until=ago(minutes=5))
    kept = scene.waits("kept", 1, ran=ran, timeLimit="1h", checkpoint={"path": "/ckpt"})
    assert length(scene, kept) == (600, Source.LIMIT)
    assert length(scene, scene.waits("lost", 1, ran=ran, timeLimit="1h")) == (HOUR, Source.LIMIT)


def test_deleted_runs_are_forgotten_and_resumed_runs_are_not_over() -> None:
    scene = QueueScene(4)
    past = UsageHistory(scene.mirror, scene.cluster)
    scene.finished("old", seconds=100, until=ago(hours=2))
    scene.finished("last", seconds=300, until=ago(hours=1))
    new = scene.waits("new", 1).run
    past.refresh()
    assert past.expect(new).seconds == 300
    scene.waits("last", 1, ran=Ran(seconds=300, until=ago(hours=1)))
    past.refresh()
    assert past.expect(new).seconds == 100
    scene.lose("old")
    past.refresh()
    assert past.expect(new).source is Source.UNKNOWN


# ------------------------------------------------------------------------------------------------ running gangs


def ends(scene: QueueScene) -> dict[str, tuple[list[int], float]]:
    """Return by key of the gang: its rows, and in how many seconds it is expected to have ended."""
    outlook = Outlook(scene.mirror, scene.cluster)
    outlook.past.refresh()
    return {
        gang.key: (gang.rows.tolist(), outlook.ends_at(gang, NOW) - NOW.timestamp())
        for gang in scene.cluster.occupancy.gangs()
    }


def endings(scene: QueueScene) -> list[tuple[list[int], float, int, float | None]]:
    """Return the rows of each expected end, in how many seconds it comes, the priority, and since when a late run
    runs."""
    outlook, now = Outlook(scene.mirror, scene.cluster), NOW.timestamp()
    outlook.past.refresh()
    found = [ending for _, ending in outlook.endings(NOW)]
    return sorted(
        (each.rows.tolist(), each.ends_at - now, each.priority, each.late_since and now - each.late_since)
        for each in found
    )


def test_an_elastic_gang_is_as_fast_as_it_is_large() -> None:
    """While it waits, the time with its fewest members counts; while it runs, the time with its present members. Its
    history is stored in terms of its full size. Its time limit does not depend on its size."""
    scene = QueueScene(4)
    scene.finished("old", seconds=int(HOUR), until=ago(hours=5), members=4)
    size: dict[str, Any] = {"replicas": 4, "minReplicas": 1}
    assert length(scene, scene.waits("new", 4, **size)) == (4 * HOUR, Source.SIMILAR)
    assert length(scene, scene.waits("limited", 4, **size, timeLimit="3h")) == (3 * HOUR, Source.SIMILAR)
    half: dict[str, Any] = {"ran": Ran(seconds=1800, until=ago(hours=1)), "checkpoint": {"path": "/ckpt"}}
    assert length(scene, scene.waits("half", 4, **size, **half)) == (2 * HOUR, Source.SIMILAR)
    scene.runs("now", "n[0-1]", since=ago(minutes=40), **size)
    assert ends(scene) == {"team/now": ([0, 1], 80 * 60)}


def test_the_expected_end_of_a_gang_moves_once_it_has_passed() -> None:
    scene = QueueScene(6)
    scene.finished("old", seconds=int(HOUR), until=ago(hours=5))
    scene.runs("young", "n[0-1]", since=ago(minutes=20))
    scene.runs("late", "n2", since=ago(minutes=90))
    scene.runs("late-limited", "n3", since=ago(minutes=90), timeLimit="3h")
    scene.runs("starting", "n4", since=ago(minutes=1), phase=Phase.STARTING)
    scene.runs("served", "n5", since=ago(minutes=1), type="service")
    assert ends(scene) == {
        "team/young": ([0, 1], 40 * 60),
        "team/late": ([2], 30 * 60),
        "team/late-limited": ([3], 90 * 60),
        "team/starting": ([4], 59 * 60),
    }
    normal = scene.cluster.policy.priorities["normal"].value
    assert endings(scene) == [
        ([0, 1], 40 * 60, normal, None),
        ([2], 30 * 60, normal, 90 * 60),
        ([3], 90 * 60, normal, 90 * 60),
        ([4], 59 * 60, normal, None),
    ]


def test_a_late_run_stays_late_when_its_time_limit_is_near() -> None:
    scene = QueueScene(1)
    scene.finished("old", seconds=int(HOUR), until=ago(hours=5))
    run = scene.runs("late", "n0", since=ago(minutes=90), timeLimit="2h", priority="low")
    scene.change(run, started_at=ago(minutes=110))
    assert endings(scene) == [([0], 10 * 60, scene.cluster.policy.priorities["low"].value, 90 * 60)]


def test_the_time_limit_counts_from_the_first_start() -> None:
    scene = QueueScene(1)
    run = scene.runs("again", "n0", since=ago(minutes=10), timeLimit="2h")
    assert run.status is not None
    scene.change(run, started_at=ago(minutes=110))
    assert ends(scene) == {"team/again": ([0], 10 * 60)}


def test_ended_members_hold_no_nodes() -> None:
    scene = QueueScene(2)
    run = scene.runs("half", "n[0-1]", since=ago(minutes=1), timeLimit="1h")
    assert [gang.rows.tolist() for gang in scene.cluster.occupancy.gangs()] == [[0, 1]]
    scene.pod(run, 0, "n0", phase="Succeeded")
    scene.mirror._notify(PODS, "team", "half-1-0")
    assert [gang.rows.tolist() for gang in scene.cluster.occupancy.gangs()] == [[1]]


def test_members_that_were_told_to_end_are_expected_to_end() -> None:
    """Their run is between attempts or has ended, so a reservation may use their nodes."""
    scene = QueueScene(2)
    for name, node in (("out", "n0"), ("stays", "n1")):
        run = scene.runs(name, node, since=ago(minutes=9), timeLimit="1h")
        if name == "out":
            assert run.status is not None
            scene.show(name, msgspec.structs.replace(run.status, phase=Phase.FAILED))
            scene.pod(run, 0, node, deleting=format_time(NOW + timedelta(seconds=30)))
    (reservation,) = plan(scene, scene.waits("next", 1)).schedule.reservations
    assert (reservation.placement.nodes, reservation.starts_at - NOW.timestamp()) == (("n0",), 30.0)


def test_a_node_that_comes_or_goes_moves_the_rows() -> None:
    scene = QueueScene(3)
    scene.runs("bert", "n2", since=ago(minutes=1))
    assert [gang.rows.tolist() for gang in scene.cluster.occupancy.gangs()] == [[2]]
    del scene.mirror.nodes["n0"]
    scene.cluster.note_node("n0")
    assert [gang.rows.tolist() for gang in scene.cluster.occupancy.gangs()] == [[1]]


# ------------------------------------------------------------------------------------------------ the order


def test_the_first_submitted_run_is_first_in_a_plain_queue() -> None:
    """Runs of the same second are ordered by name; a higher priority comes first."""
    scene = QueueScene(0, queue={"order": "fifo"})
    waiting = [
        scene.waits("c", 1, since=ago(minutes=2)),
        scene.waits("b", 1, since=ago(minutes=3)),
        scene.waits("a", 1, since=ago(minutes=2)),
        scene.waits("urgent", 1, since=ago(seconds=1), priority=100),
    ]
    found = plan(scene, *waiting)
    places = {name: found.ranking.place(f"team/{name}").position for name in ("urgent", "b", "a", "c")}
    assert places == {"urgent": 1, "b": 2, "a": 3, "c": 4}


def test_a_user_with_a_large_recent_share_comes_later() -> None:
    scene = QueueScene(4)
    scene.finished("old", seconds=86400, until=ago(days=1), members=4, image="other", owner="bob")
    found = plan(scene, scene.waits("bobs", 1, owner="bob"), scene.waits("adas", 1))
    assert [found.ranking.place(f"team/{name}").position for name in ("adas", "bobs")] == [1, 2]
    assert found.ranking.place("team/adas").user_share == 0.0
    assert found.ranking.place("team/bobs").user_share == pytest.approx(0.5 ** (1 / 7) - 0.5 ** (2 / 7))
    assert found.ranking.place("team/bobs").team_share == found.ranking.place("team/bobs").user_share


def test_present_usage_counts_towards_the_share() -> None:
    scene = QueueScene(4)
    scene.runs("now", "n[0-1]", since=ago(days=7), owner="bob")
    scene.runs("web", "n2", since=ago(days=7), owner="bob", type="service")
    place = plan(scene, scene.waits("bobs", 1, owner="bob")).ranking.place("team/bobs")
    assert place.user_share == pytest.approx(0.75 / 2)


def test_the_first_run_that_does_not_fit_gets_a_reservation() -> None:
    """A run that ends in time passes it; another run is told which run it would delay."""
    scene = QueueScene(2)
    scene.runs("now", "n0", since=ago(minutes=10), timeLimit="1h")
    large = scene.waits("large", 2, since=ago(hours=9), timeLimit="1h")
    long, short = scene.waits("long", 1, timeLimit="2h"), scene.waits("short", 1, timeLimit="30m")
    found = plan(scene, large, long)
    assert started(found) == []
    (reservation,) = found.schedule.reservations
    assert (reservation.key, reservation.starts_at - NOW.timestamp()) == ("team/large", 50 * 60)
    assert reservation.key == "team/large"
    assert {shortage.key: shortage.behind for shortage in found.schedule.shortages} == {
        "team/large": (),
        "team/long": ("team/large",),
    }
    assert started(plan(scene, large, long, short)) == ["short"]
    without = QueueScene(2, queue={"reservations": False})
    without.runs("now", "n0", since=ago(minutes=10), timeLimit="1h")
    assert started(plan(without, large, long)) == ["long"]


def test_a_run_with_short_predecessors_passes_in_spite_of_its_limit() -> None:
    scene = QueueScene(2)
    scene.runs("now", "n0", since=ago(minutes=10), timeLimit="1h", image="other")
    large = scene.waits("large", 2, since=ago(hours=9), timeLimit="1h", owner="bob")
    long = scene.waits("long", 1, timeLimit="2d")
    assert started(plan(scene, large, long)) == []
    scene.finished("before", seconds=600, until=ago(hours=1))
    assert started(plan(scene, large, long)) == ["long"]


def test_nothing_is_kept_of_deleted_runs_between_requests() -> None:
    """This holds for a Web API that is not asked about the queue for months."""
    scene = QueueScene(2)
    outlook = Outlook(scene.mirror, scene.cluster)
    for number in range(5):
        scene.runs(f"run-{number}", "n0", since=ago(minutes=1))
        scene.lose(f"run-{number}")
    assert not outlook.past._changed and not scene.cluster.occupancy._changed
    scene.runs("known", "n1", since=ago(minutes=1))
    outlook.past.refresh()
    assert [gang.key for gang in scene.cluster.occupancy.gangs()] == ["team/known"]
    asked = scene.waits("asked", 1)
    scene.lose("asked")
    assert outlook.past.expect(asked.run).source is Source.UNKNOWN
    scene.lose("known")
    outlook.past.refresh()
    assert not scene.cluster.occupancy.gangs() and not outlook.past._records and not outlook.past._known


# ------------------------------------------------------------------------------------------------ observers

changes = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from(["finished", "runs", "waits", "lose"]),
        st.integers(1, 50),
        st.sampled_from(["ada", "bob"]),
    ),
    max_size=25,
)


@settings(max_examples=50, deadline=None)
@given(changes)
def test_an_old_observer_and_a_new_one_agree(steps: list[tuple[str, str, int, str]]) -> None:
    """Expectations and shares follow only from the present contents of the mirror."""
    scene = QueueScene(4)
    waiting = [scene.waits(f"new-{owner}", 1, owner=owner).run for owner in ("ada", "bob")]
    old = UsageHistory(scene.mirror, scene.cluster)
    for name, what, number, owner in steps:
        if what == "finished":
            scene.finished(name, seconds=number * 60, until=ago(hours=number), owner=owner, members=2)
        elif what == "runs":
            scene.runs(name, "n[0-1]", since=ago(hours=number), owner=owner)
        elif what == "waits":
            scene.waits(name, 1, owner=owner, ran=Ran(seconds=number, until=ago(hours=number)))
        elif ("team", name) in scene.mirror.runs:
            scene.lose(name)
        if number % 3:
            old.refresh()
    new = UsageHistory(scene.mirror, scene.cluster)
    old.refresh()
    new.refresh()
    for run in waiting:
        assert old.expect(run) == new.expect(run)
    for account in ("ada", "bob"):
        assert old.users.share(account, NOW.timestamp()) == pytest.approx(new.users.share(account, NOW.timestamp()))
    assert old.teams.share("team", NOW.timestamp()) == pytest.approx(new.teams.share("team", NOW.timestamp()))


def test_sweep_members_of_every_attempt_hold_nodes() -> None:
    """Two members of the first attempt are running. Of the second attempt one member has ended and the other has no Pod
    yet. Each is expected to take as long as members that ended, counted from its own start: the two old ones are late,
    whatever started since."""
    scene = QueueScene(4)
    run = scene.runs("grid", "n[0-1]", since=ago(minutes=30), array="0-9")
    assert run.status is not None and run.status.attempt is not None
    attempt = msgspec.structs.replace(
        run.status.attempt, number=2, ranks="5-6", nodes="n[2-3]", started_at="", planned_at=ago(minutes=1)
    )
    ledger = SweepState(succeeded="5", longest_seconds=600)
    run = scene.change(run, attempt=attempt, attempts=2, sweep=ledger)
    (gang,) = scene.cluster.occupancy.gangs()
    assert sorted(gang.rows.tolist()) == [0, 1, 3]
    normal = scene.cluster.policy.priorities["normal"].value
    assert endings(scene) == [([0, 1], 10 * 60, normal, 30 * 60), ([3], 9 * 60, normal, None)]
    assert length(scene, PendingRun(run, scene.waits("x", 1).request)) == (600, Source.SIMILAR)


def test_a_finished_sweep_teaches_the_length_of_a_member() -> None:
    """On average it had two of four nodes for its hour, so its user's share equals that of an ordinary run with two
    nodes."""
    scene = QueueScene(4)
    run = scene.finished("grid", seconds=3600, until=ago(hours=1), members=4, array="0-3")
    assert run.status is not None
    ledger = SweepState(succeeded="0-3", longest_seconds=1800, member_seconds=2 * 3600)
    run = scene.change(run, sweep=ledger)
    scene.finished("bobs", seconds=3600, until=ago(hours=1), members=2, owner="bob")
    past = UsageHistory(scene.mirror, scene.cluster)
    past.refresh()
    assert past.users.share("ada", NOW.timestamp()) == pytest.approx(past.users.share("bob", NOW.timestamp()))
    assert past.users.share("ada", NOW.timestamp()) > 0
    for array in ("0-3", "0-99"):
        assert length(scene, scene.waits("next", 1, array=array)) == (1800, Source.SIMILAR)
    scene.change(run, sweep=SweepState(failed="0-3", member_seconds=60))
    assert expected(scene, scene.waits("next", 1)).source is Source.UNKNOWN, "no member succeeded"


def test_a_waiting_sweep_is_ordered_by_the_length_of_all_its_work() -> None:
    """Four of thirty members run at a time, so the whole sweep takes eight times as long as one member. Its size is
    what it needs to go on."""
    scene = QueueScene(8)
    waits = scene.waits("grid", 26, timeLimit="1h", array="0-29")
    assert waits.run.status is not None
    ledger, members = SweepState(longest_seconds=60), MemberCounts(total=30, running=4)
    waits = PendingRun(scene.change(waits.run, sweep=ledger, members=members), replace(waits.request, fewest=1))
    short, long = scene.waits("short", 1, timeLimit="7m"), scene.waits("long", 1, timeLimit="8m")
    order = [run.gang.key for run in plan(scene, long, waits, short).queue]
    assert order == ["team/short", "team/grid", "team/long"]
