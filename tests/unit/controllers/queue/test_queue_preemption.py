"""Preempted runs, and the runs that get the freed nodes, known from the statuses of Runs alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.scenes.gangs import with_attempt
from tests.helpers.scenes.preemption_scene import TEMPLATE, PreemptionScene
from tests.helpers.scenes.queue_scene import NOW

from kajitori.core import gang
from kajitori.core.formats.times import format_time
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.core.spec.status_parts.preemption import Preempted


@pytest.mark.parametrize("type", ["batch", "service"])
def test_a_preempted_run_is_not_preempted_again_until_it_is_gone(type: str) -> None:
    """This holds even if the leader changes meanwhile, and no other run is preempted in its place."""
    scene = PreemptionScene(3)
    status = scene.runs("low", "n0", type=type)
    scene.runs("spare", "n1")
    scene.runs("high", "n2", priority="high")
    scene.waits("urgent", 1)
    assert len(scene.asks()["team/urgent"]) == 1
    is_preempted = scene.intends("low")
    assert scene.asks() == {}
    # 1. The mirror shows the preemption.
    written = scene.put("low", gang.preempt(status, is_preempted)).status
    assert written is not None
    scene.begin_anew()
    assert scene.asks() == {}
    # 2. Its members were told to end, and it is no longer running.
    over = Phase.QUEUED if type == "service" else Phase.RESTARTING
    left = scene.put("low", msgspec.structs.replace(written, phase=over)).status
    scene.told("low")
    scene.begin_anew()
    assert (scene.asks(), scene.starts()) == ({}, {})
    # 3. Its members are gone. The preempted run keeps the preemption in its status until it starts again.
    scene.ends("low")
    scene.begin_anew()
    assert left is not None and scene.starts() == {"urgent": ("n0",)}


def test_freed_nodes_go_to_the_preemptor_not_to_the_first_in_the_queue() -> None:
    scene = PreemptionScene(2)
    scene.waits("first", 1, priority=100, queued_at="2026-11-20T00:00:00Z")
    scene.waits("urgent", 2)
    is_preempted = Preempted(by="team/urgent", uid="uid-urgent", since=format_time(NOW))
    low = scene.runs("low", "n0")
    scene.put("low", gang.preempt(low, is_preempted))
    scene.begin_anew()
    assert scene.starts() == {}  # though n1 is free
    scene.put("low", msgspec.structs.replace(gang.preempt(low, is_preempted), phase=Phase.QUEUED))
    scene.ends("low")
    scene.begin_anew()
    assert scene.starts() == {"urgent": ("n0", "n1")}


def test_preemptions_are_read_from_the_statuses_of_runs() -> None:
    """A preemption counts while it is in the status, no matter which controller wrote it."""
    scene = PreemptionScene(1)
    scene.waits("urgent", 1)
    low = scene.runs("low", "n0")
    is_preempted = Preempted(by="team/urgent", uid="uid-urgent", since=format_time(NOW))
    scene.put("low", gang.preempt(low, is_preempted))
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
def test_no_nodes_are_kept_for_a_run_that_no_longer_waits(urgent: RunStatus | None) -> None:
    """The preemptor is gone, has ended, or has found other nodes."""
    scene = PreemptionScene(1)
    if urgent is not None:
        scene.put("urgent", urgent)
    is_preempted = Preempted(by="team/urgent", uid="uid-urgent", since=format_time(NOW))
    low = scene.runs("low", "n0")
    scene.put("low", gang.preempt(low, is_preempted))
    scene.waits("other", 1)
    assert scene.asks() == {"team/other": ["team/low"]}
    scene.put("low", msgspec.structs.replace(gang.preempt(low, is_preempted), phase=Phase.QUEUED))
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


def test_nodes_given_away_in_this_cycle_do_not_prevent_a_preemption() -> None:
    scene = PreemptionScene(2)
    scene.runs("low", "n0")
    scene.waits("first", 1, priority=100)
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/low"]}


@pytest.mark.parametrize(
    ("spec", "ends", "free"),
    [
        ({"type": "notebook"}, "12:10:00", "12:11:00"),
        ({"stdin": True, "tty": True}, "12:10:00", "12:11:00"),
        ({"tty": True}, "", "12:01:00"),
        ({"type": "service", "stdin": True, "tty": True}, "", "12:01:00"),
        ({}, "", "12:01:00"),
    ],
)
def test_interactive_runs_are_given_notice_before_they_are_preempted(
    spec: dict[str, Any], ends: str, free: str
) -> None:
    """A notebook, and a run in whose terminal somebody types. The preemptor says when their grace will be over."""
    scene = PreemptionScene(1)
    low = scene.runs("low", "n0", **spec)
    scene.waits("urgent", 1)
    is_preempted = scene.intends("low")
    assert is_preempted.ends_at == (f"2026-11-21T{ends}Z" if ends else "")
    scene.put("low", gang.preempt(low, is_preempted))
    words = scene.queue.preemptions.describe("team/urgent")
    assert words == f"preempts team/low (low); its nodes are free by {free} UTC"


def test_preempted_runs_are_named_with_their_latest_end() -> None:
    """Its grace counts from the preemption; once its members were told to end, from the deletion time of their Pods."""
    scene = PreemptionScene(4)
    scene.waits("urgent", 4)
    is_preempted = Preempted(by="team/urgent", uid="uid-urgent", since=format_time(NOW))
    words = scene.queue.preemptions.describe
    assert words("team/urgent") == ""
    for number in range(4):
        low = scene.runs(f"low-{number}", f"n{number}")
        scene.put(f"low-{number}", gang.preempt(low, is_preempted))
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


def test_a_preemption_whose_write_failed_is_decided_again() -> None:
    scene = PreemptionScene(1)
    scene.runs("low", "n0")
    scene.waits("urgent", 1)
    scene.intends("low")
    assert scene.asks() == {}
    scene.queue.preemptions.note_failed(("team", "low"))
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_nodes_of_a_run_that_is_being_stopped_count_as_freed_soon() -> None:
    """This holds before its members are told. A service that starts or replaces a member is not ending."""
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


def test_the_cost_of_preempting_a_gang_counts_from_its_last_checkpoint() -> None:
    """A program that writes a checkpoint every fifty minutes has saved fifty minutes of its hour."""
    scene = PreemptionScene(2)
    scene.runs("without", "n0", checkpoint={"path": "/ckpt"})
    scene.runs("with", "n1", checkpoint={"path": "/ckpt", "every": "50m"})
    scene.waits("urgent", 1)
    (request,) = scene.plan().preemptions.requests
    (victim,) = request.victims
    assert (victim.key, victim.unsaved_seconds, victim.grace_seconds) == ("team/with", 600.0, 60.0)


def test_a_cycle_is_due_when_a_gangs_minimum_run_time_ends() -> None:
    scene = PreemptionScene(1, preemption={"minimumRunTime": "90m"})
    scene.runs("low", "n0")
    scene.waits("urgent", 1)
    requests = scene.plan().preemptions
    assert (requests.requests, requests.look_again_in_seconds) == ((), 1800.0)


@pytest.mark.parametrize(("type", "is_preempted"), [("batch", False), ("service", True)])
def test_replaced_members_do_not_reset_a_services_minimum_run_time(type: str, is_preempted: bool) -> None:
    scene = PreemptionScene(1, preemption={"minimumRunTime": "30m"})
    status = scene.runs("low", "n0", type=type)
    scene.put("low", with_attempt(status, started_at=format_time(NOW - timedelta(minutes=1))))
    scene.waits("urgent", 1)
    assert bool(scene.asks()) == is_preempted


def test_a_low_service_is_preempted_and_a_higher_one_is_not() -> None:
    scene = PreemptionScene(2)
    scene.runs("shop", "n0", type="service", priority="normal")
    scene.runs("web", "n1", type="service")
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/web"]}


def test_a_run_that_ends_before_its_grace_would_is_not_preempted() -> None:
    """No other run is preempted in its place."""
    for limit, is_preempted in (("61m", False), ("2h", True)):
        scene = PreemptionScene(1)
        scene.runs("low", "n0", timeLimit=limit)
        scene.waits("urgent", 1)
        assert bool(scene.asks()) == is_preempted


def test_a_test_of_a_node_preempts_nothing() -> None:
    """It can wait; no work is interrupted for it."""
    scene = PreemptionScene(1, preflight={"namespace": "team"})
    scene.runs("low", "n0")
    scene.waits("preflight", 1, priority=100, annotations={names.ANNOTATION_TESTED_NODE: "n0"})
    assert scene.asks() == {}
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_borrowed_nodes_are_preempted_for_the_guaranteed_team() -> None:
    scene = PreemptionScene(2, guarantees=[{"namespace": "team", "gpus": 8}])
    scene.runs("theirs", "n0", "n1", team="other", priority="high")
    scene.waits("ours", 1, priority=-100)
    (request,) = scene.plan().preemptions.requests
    assert ([victim.key for victim in request.victims], request.guaranteed) == (["other/theirs"], True)
    (preemption,) = scene.queue.preemptions.statuses_for(request, scene.mirror.runs["team", "ours"], NOW).values()
    assert (preemption.by, preemption.who, preemption.guaranteed) == ("team/ours", "team/ours (normal)", True)
