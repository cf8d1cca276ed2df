"""Elastic gangs in the queue: which of them grow, and that no other run gets the nodes kept for one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago, in_queue, who_starts

from kajitori.cluster.queue.outlook import PendingRun
from kajitori.cluster.run_object import RUNS
from kajitori.controllers.queue.growing import Growing
from kajitori.controllers.queue.queue import Queue
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Resize
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.core.spec.status_parts.preemption import Preempted

ELASTIC: dict[str, Any] = {
    "replicas": 4,
    "minReplicas": 1,
    "resources": {"cpu": 1, "memory": "1Gi", "gpu": 8},
}


class Scene(QueueScene):
    """A QueueScene with a queue and a search for room to grow."""

    def __init__(self, nodes: int, **policy: Any) -> None:
        super().__init__(nodes, **policy)
        self.queue = Queue(self.mirror, self.cluster)
        self.growing = Growing(self.cluster)

    def grows(self, minutes: int, *, busy: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
        keys = [("team", name) for name in busy]
        found = self.queue.growing(self.growing, keys, NOW + timedelta(minutes=minutes))
        return {growth.key[1]: growth.nodes for growth in found}

    def queues(self, name: str, members: int, *, fewest: int | None = None, priority: int = 0, **status: Any) -> None:
        """Add a waiting run as the controller does."""
        pending = self.waits(name, members, priority=priority)
        request = replace(pending.request, fewest=fewest, grows=fewest is not None)
        assert pending.run.status is not None
        current = msgspec.structs.replace(pending.run.status, **status)
        self.queue.wait(in_queue(PendingRun(self.show(name, current), request)))

    def starts(self) -> dict[str, tuple[str, ...]]:
        return who_starts(self.queue.plan((), NOW))


def test_it_grows_once_there_has_been_room_for_long_enough() -> None:
    """From then on no other run gets these nodes, even before the mirror shows the growth."""
    scene = Scene(6)
    scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    scene.runs("rigid", "n2", since=ago(hours=1))
    assert scene.grows(0) == scene.grows(9) == {}
    assert scene.grows(10, busy=("bert",)) == {}
    assert scene.grows(11) == {"bert": ("n0", "n1", "n3", "n4")}
    scene.queues("other", 2)
    assert scene.starts() == {}
    scene.queues("small", 1)
    assert scene.starts() == {"small": ("n5",)}


def test_it_does_not_grow_while_a_run_waits_for_such_nodes() -> None:
    scene = Scene(4)
    scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    scene.queues("large", 4)
    assert scene.grows(0) == scene.grows(60) == {}
    scene.queue.leave(("team", "large"))
    assert scene.grows(61) == {}
    assert scene.grows(71) == {"bert": ("n0", "n1", "n2", "n3")}


def test_nodes_that_a_quota_forbids_are_free_for_others_again() -> None:
    scene = Scene(4)
    scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    assert scene.grows(0) == {} and scene.grows(10)
    scene.queue.take_back(("team", "bert"))
    scene.growing.put_off(("team", "bert"))
    assert scene.grows(11) == {}
    scene.queues("other", 2)
    assert scene.starts() == {"other": ("n2", "n3")}


def test_no_gang_grows_if_policy_forbids_it() -> None:
    scene = Scene(4, elastic={"grow": False})
    scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    assert not scene.growing.is_needed()
    assert scene.grows(0) == scene.grows(60) == {}


@pytest.mark.parametrize(("after", "seconds"), [("10m", 15.0), ("20s", 5.0), ("0s", 0.5)])
def test_room_is_searched_four_times_within_policys_patience(after: str, seconds: float) -> None:
    """The interval has a minimum, which limits the cost, and a maximum, so that room is found soon."""
    assert Scene(1, elastic={"growAfter": after}).growing.pause_seconds == seconds


def test_a_changed_spec_takes_effect_at_once() -> None:
    scene = Scene(4)
    run = scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    assert scene.growing.is_needed()
    rigid = {"image": "bert:3", "command": ["train"], **ELASTIC, "minReplicas": None}
    meta = msgspec.structs.replace(run.metadata, generation=2)
    changed = msgspec.structs.replace(run, metadata=meta, spec=msgspec.Raw(msgspec.json.encode(rigid)))
    scene.mirror.runs["team", "bert"] = changed
    scene.mirror._notify(RUNS, "team", "bert")
    assert not scene.growing.is_needed()


def test_a_gang_of_full_size_or_refused_by_policy_does_not_grow() -> None:
    scene = Scene(8)
    scene.runs("full", "n[0-3]", since=ago(hours=1), **ELASTIC)
    scene.runs("refused", "n4", since=ago(hours=1), **ELASTIC, priority="low", volumes=[{"name": "gone", "path": "/a"}])
    scene.runs("stopped", "n5", since=ago(hours=1), **ELASTIC, stopped=True)
    assert scene.grows(0) == scene.grows(60) == {}


def test_of_two_gangs_that_could_grow_the_one_of_higher_priority_grows() -> None:
    scene = Scene(4)
    scene.runs("low", "n0", since=ago(hours=2), **ELASTIC, priority="low")
    scene.runs("high", "n1", since=ago(hours=1), **ELASTIC, priority="high")
    assert scene.grows(0) == {}
    assert scene.grows(10) == {"high": ("n1", "n2", "n3")}


NOT_NOW: dict[str, dict[str, Any]] = {
    "it starts": {"phase": Phase.STARTING},
    "a member of it is being ended": {"reason": Reason.MEMBER_DELETED},
    "it is to have other nodes": {"resize": Resize(nodes="n0", fewest=1)},
    "it is preempted": {"preemption": Preempted(by="team/other", uid="u", who="team/other")},
    "a member of it does not run": {"members": MemberCounts(total=2, running=1, pending=1)},
    "it has not started": {"attempt": None},
}


@pytest.mark.parametrize("case", NOT_NOW)
def test_only_a_gang_that_runs_undisturbed_grows(case: str) -> None:
    scene = Scene(4)
    run = scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    assert run.status is not None and scene.growing.is_needed()
    scene.show("bert", msgspec.structs.replace(run.status, **NOT_NOW[case]), **ELASTIC)
    assert not scene.growing.is_needed()


def test_a_leaving_or_unreconciled_run_does_not_grow() -> None:
    scene = Scene(4)
    run = scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    leaving = msgspec.structs.replace(run.metadata, deletion_timestamp=ago(minutes=1))
    edited = msgspec.structs.replace(run.metadata, generation=2)
    unreadable = msgspec.Raw(b'{"replicas": "many"}')
    for changed in (
        msgspec.structs.replace(run, metadata=leaving),
        msgspec.structs.replace(run, status=None),
        msgspec.structs.replace(run, metadata=edited, spec=unreadable),
    ):
        scene.mirror.runs["team", "bert"] = changed
        scene.mirror._notify(RUNS, "team", "bert")
        scene.growing = Growing(scene.cluster)
        assert not scene.growing.is_needed()


def kept(scene: Scene, nodes: str, *, pods: bool) -> RunStatus:
    """Put an elastic gang between two attempts: it had n0 and n1, and `nodes` are kept for it."""
    run = scene.runs("bert", "n[0-1]", since=ago(hours=1), **ELASTIC)
    assert run.status is not None
    resize = Resize(nodes=nodes, fewest=1)
    status = msgspec.structs.replace(run.status, phase=Phase.RESTARTING, reason=Reason.GROWS, resize=resize)
    scene.show("bert", status)
    if not pods:
        for rank, node in enumerate(("n0", "n1")):
            scene.pod(run, rank, node, phase="Failed")
    return status


def test_no_other_run_gets_its_nodes_while_its_members_end() -> None:
    """Its present nodes and its future ones are taken; a new controller knows them from the status."""
    for pods in (True, False):
        scene = Scene(4)
        kept(scene, "n[0-2]", pods=pods)
        scene.queues("other", 2)
        assert scene.starts() == {}
        scene.queues("small", 1)
        assert scene.starts() == {"small": ("n3",)}


def test_it_returns_to_its_kept_nodes_before_other_runs_are_placed() -> None:
    scene = Scene(4)
    status = kept(scene, "n[0-2]", pods=False)
    scene.queues("large", 3)
    scene.queues("bert", 4, fewest=1, attempt=status.attempt, attempts=1, resize=status.resize)
    assert scene.starts() == {"bert": ("n0", "n1", "n2")}


def test_it_does_not_grow_into_nodes_kept_for_a_returning_gang() -> None:
    """The returning gang's members have ended, so its nodes look free. There was room for one more member all along."""
    scene = Scene(5)
    status = kept(scene, "n[0-2]", pods=False)
    scene.queues("bert", 4, fewest=1, attempt=status.attempt, attempts=1, resize=status.resize)
    scene.runs("urgent", "n3", since=ago(hours=1), **ELASTIC, priority="high")
    assert scene.grows(0) == {}
    assert scene.grows(10) == {"urgent": ("n3", "n4")}


def test_it_does_not_grow_into_nodes_freed_for_another_run() -> None:
    """They were freed for a run of lower priority that is within its guarantee."""
    scene = Scene(4)
    scene.queues("owed", 2, priority=-100)
    uid = scene.mirror.runs["team", "owed"].metadata.uid
    scene.show("gave", RunStatus(phase=Phase.QUEUED, preemption=Preempted(by="team/owed", uid=uid, who="team/owed")))
    scene.runs("bert", "n3", since=ago(hours=1), **ELASTIC, priority="high")
    assert scene.grows(0) == {}
    assert scene.grows(10) == {"bert": ("n3", "n2")}


def test_nothing_is_kept_of_deleted_runs() -> None:
    scene = Scene(1)
    scene.runs("rigid", "n0", since=ago(hours=1))
    assert not scene.growing.is_needed()
    scene.lose("rigid")
    assert not scene.growing.is_needed()
    assert not scene.cluster.specs._known


def test_it_takes_nodes_at_once_that_no_other_run_could_use() -> None:
    """After the loss of a node it need not restart again for a node that was free anyway."""
    scene = Scene(4)
    status = kept(scene, "n1", pods=False)
    scene.queues("bert", 4, fewest=1, attempt=status.attempt, attempts=1, resize=status.resize)
    assert scene.starts() == {"bert": ("n1", "n0", "n2", "n3")}
