"""Preempted members of sweeps, and the runs that get their nodes."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from tests.helpers.scenes.preemption_scene import PreemptionScene
from tests.helpers.scenes.queue_scene import NOW

from kajitori.cluster.queue.preemptions import PREEMPTORS_PER_SWEEP, key_of
from kajitori.core import gang
from kajitori.core.formats.times import format_time
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.spec.status_parts.members import SweepState


def test_only_as_many_sweep_members_are_preempted_as_it_takes() -> None:
    """The youngest members are preempted; the message names them, and their nodes are kept for the preemptor."""
    scene = PreemptionScene(4)
    status = scene.sweep("grid", 50, 10, 20, 40)
    scene.waits("urgent", 2, queued_at="2026-11-21T10:00:00Z")
    assert scene.asks() == {"team/urgent": ["team/grid", "team/grid"]}
    asked = scene.intends("grid")
    assert (asked.ranks, asked.attempt) == ("1-2", 1)
    assert scene.asks() == {}
    # 1. The preemption is written, and the members end.
    asked_status = msgspec.structs.replace(gang.preempt(status, asked), sweep=SweepState(again="1-2"))
    scene.put("grid", asked_status)
    scene.begin_anew()
    assert (scene.asks(), scene.starts()) == ({}, {})
    said = "preempts members 1-2 of team/grid (low); their nodes are free by 12:01:00 UTC"
    assert scene.queue.preemptions.describe("team/urgent") == said
    # 2. One of them has ended, then both.
    scene.member_ends("grid", 1)
    assert (scene.asks(), scene.starts()) == ({}, {})
    scene.member_ends("grid", 2)
    assert scene.starts() == {"urgent": ("n1", "n2")}
    assert scene.asks() == {}


def test_more_members_are_preempted_while_others_are_ending() -> None:
    """Each preemptor gets the nodes of the members preempted for it. The next leader knows them from the sweep's
    status."""
    scene = PreemptionScene(4)
    status = scene.sweep("grid", 50, 10, 20, 40)
    scene.waits("urgent", 2, queued_at="2026-11-21T10:00:00Z")
    first = scene.intends("grid")
    assert scene.asks() == {}
    # 1. Another preemptor arrives before that is written, and before the members have ended.
    scene.waits("second", 1)
    assert scene.asks() == {"team/second": ["team/grid"]}
    both = scene.intends("grid", "second")
    assert [(part.by, part.ranks) for part in both.each] == [("team/second", "3"), ("team/urgent", "1-2")]
    assert both.others == first.each
    assert scene.asks() == {}
    scene.put("grid", msgspec.structs.replace(gang.preempt(status, both), sweep=SweepState(again="1-3")))
    scene.begin_anew()
    assert (scene.asks(), scene.starts()) == ({}, {})
    words = scene.queue.preemptions.describe
    assert words("team/urgent").startswith("preempts members 1-2 of team/grid (low)")
    assert words("team/second").startswith("preempts member 3 of team/grid (low); its nodes")
    # 2. The first freed nodes go to the preemptor that has waited longest.
    scene.member_ends("grid", 1)
    assert scene.starts() == {}
    scene.member_ends("grid", 3)
    assert scene.starts() == {"urgent": ("n1", "n3")}
    scene.member_ends("grid", 2)
    assert scene.starts() == {"second": ("n2",)}
    # 3. A preemptor that has started is no longer in the sweep's status.
    scene.runs("urgent", "n1", "n2", priority="high")
    scene.queue.leave(("team", "urgent"))
    scene.waits("third", 1)
    scene.runs("second", "n3", priority="high")
    scene.queue.leave(("team", "second"))
    assert scene.asks() == {"team/third": ["team/grid"]}
    (alone,) = scene.intends("grid", "third").each
    assert (alone.by, alone.ranks) == ("team/third", "0")


def test_a_sweep_is_preempted_for_a_limited_number_of_runs_at_a_time() -> None:
    """So its status stays small."""
    scene = PreemptionScene(PREEMPTORS_PER_SWEEP + 2)
    status = scene.sweep("grid", *range(1, PREEMPTORS_PER_SWEEP + 3))
    for number in range(PREEMPTORS_PER_SWEEP + 2):
        name = f"wants-{number:02}"
        scene.waits(name, 1)
        if number < PREEMPTORS_PER_SWEEP:
            status = gang.preempt(status, scene.intends("grid", name))
            scene.put("grid", status)
    assert status.preemption is not None and len(status.preemption.each) == PREEMPTORS_PER_SWEEP
    assert scene.asks() == {}
    scene.put("wants-03", RunStatus(phase=Phase.STOPPED))
    scene.queue.leave(("team", "wants-03"))
    assert len(scene.asks()) == 2
    assert len(to_document(status)["preemption"]["others"]) < PREEMPTORS_PER_SWEEP


def test_one_cycle_preempts_members_of_a_sweep_for_several_runs() -> None:
    """All preemptions are in one write of the sweep's status."""
    scene = PreemptionScene(3)
    scene.sweep("grid", 50, 10, 20)
    for name in ("first", "second"):
        scene.waits(name, 1)
    first, second = scene.plan().preemptions.requests
    asked = {}
    for request in (first, second):
        asked = scene.queue.preemptions.statuses_for(request, scene.mirror.runs[key_of(request.key)], NOW)
        for key, status in asked.items():
            scene.queue.preemptions.note_preempting(key, status)
    assert [(part.by, part.ranks) for part in asked["team", "grid"].each] == [(second.key, "2"), (first.key, "1")]


def test_members_of_a_sweep_without_a_shown_pod_count_as_its_youngest() -> None:
    scene = PreemptionScene(2)
    status = msgspec.structs.replace(scene.runs("grid", "n0", "n1"), sweep=SweepState())
    scene.put("grid", status)
    scene.ends("grid")
    scene.pods["grid"] = []
    scene.add("grid", 0, "n0", creationTimestamp=format_time(NOW - timedelta(minutes=5)))
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/grid"]}
    assert scene.intends("grid").ranks == "1"
    scene.waits("second", 1)
    assert scene.asks() == {"team/second": ["team/grid"]}
    assert scene.intends("grid", "second").ranks == "0"
    assert scene.asks() == {}
