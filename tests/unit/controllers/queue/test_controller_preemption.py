"""Preempted runs, and the runs that get the freed nodes, as the statuses of Runs alone show it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from tests.helpers.gangs import with_attempt
from tests.helpers.preemption_scene import TEMPLATE, PreemptionScene
from tests.helpers.queue_scene import NOW

from kajitori.core import gang
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import Attempt, Preempted, RunStatus, template_text
from kajitori.core.words import names
from kajitori.core.words.times import format_time


@pytest.mark.parametrize("type", ["batch", "service"])
def test_a_preempted_run_is_not_preempted_again_until_it_is_gone(type: str) -> None:
    """Even if the leader changes meanwhile; and no other run is preempted in its place."""
    scene = PreemptionScene(3)
    status = scene.runs("low", "n0", type=type)
    scene.runs("spare", "n1")
    scene.runs("high", "n2", priority="high")
    scene.waits("urgent", 1)
    assert len(scene.asks()["team/urgent"]) == 1
    asked = scene.intends("low")
    assert scene.asks() == {}
    # 1. The mirror shows it.
    written = scene.put("low", gang.preempt(status, asked)).status
    assert written is not None
    scene.begin_anew()
    assert scene.asks() == {}
    # 2. Its members were told, and it is not running any more.
    over = Phase.QUEUED if type == "service" else Phase.RESTARTING
    left = scene.put("low", msgspec.structs.replace(written, phase=over)).status
    scene.told("low")
    scene.begin_anew()
    assert (scene.asks(), scene.starts()) == ({}, {})
    # 3. They are gone. Who was asked keeps that in its status until it starts again.
    scene.ends("low")
    scene.begin_anew()
    assert left is not None and scene.starts() == {"urgent": ("n0",)}


def test_what_comes_free_is_nobody_elses_though_he_comes_first() -> None:
    scene = PreemptionScene(2)
    scene.waits("first", 1, priority=100, queued_at="2026-11-20T00:00:00Z")
    scene.waits("urgent", 2)
    asked = Preempted(by="team/urgent", uid="uid-urgent", since=format_time(NOW))
    low = scene.runs("low", "n0")
    scene.put("low", gang.preempt(low, asked))
    scene.begin_anew()
    assert scene.starts() == {}  # n1 is free
    scene.put("low", msgspec.structs.replace(gang.preempt(low, asked), phase=Phase.QUEUED))
    scene.ends("low")
    scene.begin_anew()
    assert scene.starts() == {"urgent": ("n0", "n1")}


def test_whoever_leads_follows_what_statuses_say_of_it() -> None:
    """From when it stands there, whoever wrote it, until it does not any more."""
    scene = PreemptionScene(1)
    scene.waits("urgent", 1)
    low = scene.runs("low", "n0")
    asked = Preempted(by="team/urgent", uid="uid-urgent", since=format_time(NOW))
    scene.put("low", gang.preempt(low, asked))
    assert scene.asks() == {}
    scene.put("low", low)
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_freed_nodes_go_by_priority_then_by_waiting_time() -> None:
    scene = PreemptionScene(2)
    for name, priority, queued_at in (
        ("late", 0, "2026-11-21T11:00:00Z"),
        ("early", 0, "2026-11-21T10:00:00Z"),
        ("high", 100, "2026-11-21T11:30:00Z"),
    ):
        scene.waits(name, 1, priority=priority, queued_at=queued_at)
        status = RunStatus(phase=Phase.QUEUED, preemption=Preempted(by=f"team/{name}", uid=f"uid-{name}"))
        scene.put(f"left-for-{name}", status)
    assert scene.starts() == {"high": ("n0",), "early": ("n1",)}


@pytest.mark.parametrize(
    "urgent",
    [
        None,
        RunStatus(phase=Phase.STOPPED),
        RunStatus(
            phase=Phase.STARTING, attempts=1, attempt=Attempt(number=1, nodes="n9", template=template_text(TEMPLATE))
        ),
    ],
)
def test_for_one_who_does_not_wait_any_more_nothing_is_kept(urgent: RunStatus | None) -> None:
    """It is gone, has ended, or has found other nodes."""
    scene = PreemptionScene(1)
    if urgent is not None:
        scene.put("urgent", urgent)
    asked = Preempted(by="team/urgent", uid="uid-urgent", since=format_time(NOW))
    low = scene.runs("low", "n0")
    scene.put("low", gang.preempt(low, asked))
    scene.waits("other", 1)
    assert scene.asks() == {"team/other": ["team/low"]}
    scene.put("low", msgspec.structs.replace(gang.preempt(low, asked), phase=Phase.QUEUED))
    scene.ends("low")
    assert scene.starts() == {"other": ("n0",)}


@pytest.mark.parametrize("changed", [{"uid": "another"}, {"deletion_timestamp": "2026-11-21T11:59:00Z"}])
def test_no_nodes_are_kept_for_a_deleted_or_recreated_run(changed: dict[str, str]) -> None:
    scene = PreemptionScene(1)
    waits = scene.put("urgent", RunStatus())
    low = scene.runs("low", "n0")
    scene.put("low", gang.preempt(low, Preempted(by="team/urgent", uid=waits.metadata.uid)))
    scene.waits("other", 1)
    assert scene.asks() == {}
    meta = msgspec.structs.replace(waits.metadata, **changed)
    scene.mirror.runs["team", "urgent"] = msgspec.structs.replace(waits, metadata=meta)
    assert scene.asks() == {"team/other": ["team/low"]}


def test_room_that_somebody_starts_on_at_this_moment_helps_nobody_else() -> None:
    scene = PreemptionScene(2)
    scene.runs("low", "n0")
    scene.waits("first", 1, priority=100)
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_preempted_runs_are_named_with_their_latest_end() -> None:
    """His grace counts from when he was asked; once his members are told, what their Pods say."""
    scene = PreemptionScene(4)
    scene.waits("urgent", 4)
    asked = Preempted(by="team/urgent", uid="uid-urgent", since=format_time(NOW))
    words = scene.queue.preemptions.describe
    assert words("team/urgent") == ""
    for number in range(4):
        low = scene.runs(f"low-{number}", f"n{number}")
        scene.put(f"low-{number}", gang.preempt(low, asked))
        if number == 0:
            assert words("team/urgent") == "preempts team/low-0 (low); its nodes are free by 12:01:00 UTC"
    shown = ", ".join(f"team/low-{number} (low)" for number in range(3))
    assert words("team/urgent") == f"preempts {shown} and 1 more; their nodes are free by 12:01:00 UTC"
    for number in range(4):
        scene.told(f"low-{number}")
    assert words("team/urgent").endswith("their nodes are free by 12:00:50 UTC")
    for number in range(4):
        scene.ends(f"low-{number}")
    assert words("team/urgent") == f"preempted {shown} and 1 more"


def test_a_write_that_failed_asks_again() -> None:
    scene = PreemptionScene(1)
    scene.runs("low", "n0")
    scene.waits("urgent", 1)
    scene.intends("low")
    assert scene.asks() == {}
    scene.queue.preemptions.note_failed(("team", "low"))
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_a_run_that_is_being_stopped_counts_as_coming_free() -> None:
    """Its members may not have been told yet; a service that starts, or replaces a member, is not on its way out."""
    for stopping in ("batch", "service"):
        scene = PreemptionScene(2)
        status = scene.runs("stopped", "n0", type=stopping)
        scene.put("stopped", msgspec.structs.replace(status, reason=Reason.STOPPING))
        scene.runs("low", "n1")
        scene.waits("urgent", 1)
        assert scene.asks() == {}
    scene = PreemptionScene(2)
    scene.runs("between-two-attempts", "n0", phase=Phase.RESTARTING)
    scene.runs("low", "n1")
    scene.waits("urgent", 1)
    assert scene.asks() == {}
    for phase in (Phase.STARTING, Phase.RESTARTING):
        scene = PreemptionScene(2)
        scene.runs("web", "n0", type="service", phase=phase, priority="normal")
        scene.runs("low", "n1")
        scene.waits("urgent", 1)
        assert scene.asks() == {"team/urgent": ["team/low"]}


def test_how_much_a_gang_loses_is_told_by_its_checkpoints() -> None:
    """Fifty minutes of the last hour are saved where a program writes one every fifty minutes."""
    scene = PreemptionScene(2)
    scene.runs("without", "n0", checkpoint={"path": "/ckpt"})
    scene.runs("with", "n1", checkpoint={"path": "/ckpt", "every": "50m"})
    scene.waits("urgent", 1)
    (request,) = scene.plan().preemptions.requests
    (victim,) = request.victims
    assert (victim.key, victim.unsaved_seconds, victim.grace_seconds) == ("team/with", 600.0, 60.0)


def test_a_gang_is_looked_at_again_when_its_minimum_run_time_is_over() -> None:
    scene = PreemptionScene(1, preemption={"minimumRunTime": "90m"})
    scene.runs("low", "n0")
    scene.waits("urgent", 1)
    requests = scene.plan().preemptions
    assert (requests.requests, requests.look_again_in_seconds) == ((), 1800.0)


@pytest.mark.parametrize(("type", "asked"), [("batch", False), ("service", True)])
def test_a_service_runs_since_its_start_whatever_members_were_replaced(type: str, asked: bool) -> None:
    scene = PreemptionScene(1, preemption={"minimumRunTime": "30m"})
    status = scene.runs("low", "n0", type=type)
    scene.put("low", with_attempt(status, started_at=format_time(NOW - timedelta(minutes=1))))
    scene.waits("urgent", 1)
    assert bool(scene.asks()) == asked


def test_a_low_service_is_preempted_and_a_higher_one_is_not() -> None:
    scene = PreemptionScene(2)
    scene.runs("shop", "n0", type="service", priority="normal")
    scene.runs("web", "n1", type="service")
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/web"]}


def test_whose_time_is_over_before_he_could_be_asked_to_leave_is_not_asked() -> None:
    """Nor is anybody in his place."""
    for limit, asked in (("61m", False), ("2h", True)):
        scene = PreemptionScene(1)
        scene.runs("low", "n0", timeLimit=limit)
        scene.waits("urgent", 1)
        assert bool(scene.asks()) == asked


def test_a_test_of_a_node_preempts_nothing() -> None:
    """It can wait; work goes on meanwhile."""
    scene = PreemptionScene(1, preflight={"namespace": "team"})
    scene.runs("low", "n0")
    scene.waits("preflight", 1, priority=100, annotations={names.ANNOTATION_TESTED_NODE: "n0"})
    assert scene.asks() == {}
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_a_team_is_guaranteed_what_another_one_borrowed() -> None:
    scene = PreemptionScene(2, guarantees=[{"namespace": "team", "gpus": 8}])
    scene.runs("theirs", "n0", "n1", team="other", priority="high")
    scene.waits("ours", 1, priority=-100)
    (request,) = scene.plan().preemptions.requests
    assert ([victim.key for victim in request.victims], request.guaranteed) == (["other/theirs"], True)
    (said,) = scene.queue.preemptions.statuses_for(request, scene.mirror.runs["team", "ours"], NOW).values()
    assert (said.by, said.who, said.guaranteed) == ("team/ours", "team/ours (normal)", True)
