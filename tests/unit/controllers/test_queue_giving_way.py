"""Who is asked to give way, and who gets what comes free, by what stands in the statuses of Runs alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.helpers.queue_scene import MEMBER, in_queue, mirror_of_nodes, who_starts

from kajitori.controllers.queue import Cycle, Queue, Waiting
from kajitori.core import gang, names
from kajitori.core.nodelist import compress
from kajitori.core.planner import GangRequest
from kajitori.core.policy import parse_policy
from kajitori.core.reasons import Phase, Reason
from kajitori.core.status import Attempt, GivesWay, MemberCounts, RunStatus, SweepState, template_text, to_document
from kajitori.core.times import format_time
from kajitori.kube.cluster import ClusterView
from kajitori.kube.giving_way import ASKED_OF_A_SWEEP, key_of
from kajitori.kube.objects import ObjectMeta, Pod, RunObject
from kajitori.kube.outlook import Applicant
from kajitori.kube.resources import PODS, RUNS
from kajitori.kube.watch import Added, Deleted
from kajitori.policyfile import PolicyFile

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
AN_HOUR_AGO = format_time(NOW - timedelta(hours=1))
GPUS = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi", names.GPU_RESOURCE: "8"}}
TEMPLATE: dict[str, Any] = {
    "metadata": {},
    "spec": {"containers": [{"name": "main", "resources": GPUS}], "terminationGracePeriodSeconds": 60},
}


class Scene:
    """Nodes with eight GPUs each, runs on them and runs that wait; nothing is watched, and nothing is remembered but
    what the mirror shows."""

    def __init__(self, nodes: int, **policy: Any) -> None:
        self.mirror = mirror_of_nodes(nodes)
        self.policy = PolicyFile(None, without_file=parse_policy(policy))
        self.pods: dict[str, list[Pod]] = {}
        self.waiting: list[Waiting] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        """Another controller leads now."""
        self.queue = Queue(self.mirror, ClusterView(self.mirror, self.policy))
        for waiting in self.waiting:
            self.queue.wait(waiting)

    def put(
        self, name: str, status: RunStatus, team: str = "team", annotations: dict[str, str] | None = None, **spec: Any
    ) -> RunObject:
        before = self.mirror.runs.get((team, name))
        version = str(int(before.metadata.resource_version) + 1) if before else "1"
        meta = ObjectMeta(
            name=name, namespace=team, uid=f"uid-{name}", resource_version=version, annotations=annotations or {}
        )
        raw = before.spec if before else msgspec.Raw(msgspec.json.encode({"image": "x", **spec}))
        self.mirror.runs[team, name] = run = RunObject(metadata=meta, spec=raw, status=status)
        self.mirror._tell(RUNS, team, name)
        return run

    def runs(self, name: str, *nodes: str, phase: Phase = Phase.RUNNING, team: str = "team", **spec: Any) -> RunStatus:
        """A run with a member on each of these nodes, since an hour."""
        attempt = Attempt(
            number=1, nodes=compress(nodes), template=template_text(TEMPLATE), created=True, started_at=AN_HOUR_AGO
        )
        members = MemberCounts(total=len(nodes), running=len(nodes))
        status = RunStatus(phase=phase, attempt=attempt, attempts=1, members=members, started_at=AN_HOUR_AGO)
        self.put(name, status, team, **({"priority": "low"} | spec))
        self.pods[name] = []
        for rank, node in enumerate(nodes):
            self.add(name, rank, node, team)
        return status

    def add(self, name: str, rank: int, node: str, team: str = "team", **metadata: Any) -> None:
        owner = {"kind": "Run", "name": name, "uid": f"uid-{name}", "controller": True}
        meta = {"name": f"{name}-1-{rank}", "namespace": team, "uid": f"{name}-{rank}", "ownerReferences": [owner]}
        document = {
            "metadata": meta | metadata,
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": GPUS}]},
            "status": {"phase": "Running"},
        }
        pod = msgspec.convert(document, Pod)
        self.pods[name].append(pod)
        self.mirror.pods[team, pod.metadata.name] = pod
        self.mirror._index(Added(pod))
        self.mirror._tell(PODS, team, pod.metadata.name)

    def sweep(self, name: str, *minutes: int) -> RunStatus:
        """A sweep with a member on each node, which began so long ago."""
        nodes = [f"n{rank}" for rank in range(len(minutes))]
        status = msgspec.structs.replace(self.runs(name, *nodes), sweep=SweepState())
        self.put(name, status)
        self.ends(name)
        self.pods[name] = []
        for rank, age in enumerate(minutes):
            self.add(name, rank, nodes[rank], creationTimestamp=format_time(NOW - timedelta(minutes=age)))
        return status

    def member_ends(self, name: str, rank: int) -> None:
        """Its Pod is gone."""
        (gone,) = (pod for pod in self.pods[name] if pod.member is not None and pod.member.rank == rank)
        self.pods[name].remove(gone)
        del self.mirror.pods["team", gone.metadata.name]
        self.mirror._index(Deleted(gone))
        self.mirror._tell(PODS, "team", gone.metadata.name)

    def ends(self, name: str, team: str = "team") -> None:
        """All of its Pods are gone."""
        for pod in self.pods.pop(name):
            del self.mirror.pods[team, pod.metadata.name]
            self.mirror._index(Deleted(pod))
            self.mirror._tell(PODS, team, pod.metadata.name)

    def told(self, name: str) -> None:
        """All of its Pods were asked to end."""
        nodes = [pod.spec.node_name for pod in self.pods[name]]
        self.ends(name)
        self.pods[name] = []
        for rank, node in enumerate(nodes):
            self.add(name, rank, node, deletionTimestamp="2026-11-21T12:00:50Z")

    def waits(
        self,
        name: str,
        ranks: int,
        *,
        priority: int = 0,
        queued_at: str = "2026-11-21T11:00:00Z",
        annotations: dict[str, str] | None = None,
    ) -> None:
        run = self.put(name, RunStatus(queued_at=queued_at), annotations=annotations)
        request = GangRequest(f"team/{name}", MEMBER, tuple(range(ranks)), priority=priority, queued_at=queued_at)
        self.waiting.append(in_queue(Applicant(run, request)))
        self.queue.wait(self.waiting[-1])

    def plan(self) -> Cycle:
        return self.queue.plan((), NOW)

    def asks(self) -> dict[str, list[str]]:
        return {each.key: [v.key for v in each.victims] for each in self.plan().requests.requests}

    def starts(self) -> dict[str, tuple[str, ...]]:
        return who_starts(self.plan())

    def intends(self, name: str, to: str = "urgent", **more: Any) -> GivesWay:
        """What is about to be written into its status."""
        (request,) = (each for each in self.plan().requests.requests if each.key == f"team/{to}")
        waiting = self.mirror.runs["team", to]
        asked = self.queue.giving_way.intents(request, waiting, NOW)["team", name]
        self.queue.giving_way.note_asking(("team", name), asked)
        return asked


@pytest.mark.parametrize("type", ["batch", "service"])
def test_a_run_that_is_asked_is_not_asked_again_from_the_write_on_until_it_is_gone(type: str) -> None:
    """However the controllers change meanwhile; and nobody else is asked in its place."""
    scene = Scene(3)
    status = scene.runs("low", "n0", type=type)
    scene.runs("spare", "n1")
    scene.runs("high", "n2", priority="high")
    scene.waits("urgent", 1)
    assert len(scene.asks()["team/urgent"]) == 1
    asked = scene.intends("low")
    assert scene.asks() == {}
    # 1. The mirror shows it.
    written = scene.put("low", gang.give_way(status, asked)).status
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


def test_of_a_sweep_only_as_many_members_are_asked_as_it_takes() -> None:
    """The youngest; it is said which, and what they leave is kept."""
    scene = Scene(4)
    status = scene.sweep("grid", 50, 10, 20, 40)
    scene.waits("urgent", 2, queued_at="2026-11-21T10:00:00Z")
    assert scene.asks() == {"team/urgent": ["team/grid", "team/grid"]}
    asked = scene.intends("grid")
    assert (asked.ranks, asked.attempt) == ("1-2", 1)
    assert scene.asks() == {}
    # 1. It is written, and they are given up.
    asked_status = msgspec.structs.replace(gang.give_way(status, asked), sweep=SweepState(again="1-2"))
    scene.put("grid", asked_status)
    scene.begin_anew()
    assert (scene.asks(), scene.starts()) == ({}, {})
    said = "asks members 1-2 of team/grid (low) to give way; their nodes are free by 12:01:00 UTC"
    assert scene.queue.giving_way.words_for("team/urgent") == said
    # 2. One of them is gone, then both.
    scene.member_ends("grid", 1)
    assert (scene.asks(), scene.starts()) == ({}, {})
    scene.member_ends("grid", 2)
    assert scene.starts() == {"urgent": ("n1", "n2")}
    assert scene.asks() == {}


def test_while_members_of_a_sweep_give_way_others_are_asked_for_whoever_comes_next() -> None:
    """Each run has what its own members leave. Whoever leads next knows all of it from the sweep's status."""
    scene = Scene(4)
    status = scene.sweep("grid", 50, 10, 20, 40)
    scene.waits("urgent", 2, queued_at="2026-11-21T10:00:00Z")
    first = scene.intends("grid")
    assert scene.asks() == {}
    # 1. Another one comes before that is written, and before they are gone.
    scene.waits("second", 1)
    assert scene.asks() == {"team/second": ["team/grid"]}
    both = scene.intends("grid", "second")
    assert [(each.to, each.ranks) for each in both.each] == [("team/second", "3"), ("team/urgent", "1-2")]
    assert both.others == first.each
    assert scene.asks() == {}
    scene.put("grid", msgspec.structs.replace(gang.give_way(status, both), sweep=SweepState(again="1-3")))
    scene.begin_anew()
    assert (scene.asks(), scene.starts()) == ({}, {})
    words = scene.queue.giving_way.words_for
    assert words("team/urgent").startswith("asks members 1-2 of team/grid (low) to give way")
    assert words("team/second").startswith("asks member 3 of team/grid (low) to give way; its nodes")
    # 2. What comes free is first for whoever waits for longest.
    scene.member_ends("grid", 1)
    assert scene.starts() == {}
    scene.member_ends("grid", 3)
    assert scene.starts() == {"urgent": ("n1", "n3")}
    scene.member_ends("grid", 2)
    assert scene.starts() == {"second": ("n2",)}
    # 3. Who has what he waited for is not named any more.
    scene.runs("urgent", "n1", "n2", priority="high")
    scene.queue.leave(("team", "urgent"))
    scene.waits("third", 1)
    scene.runs("second", "n3", priority="high")
    scene.queue.leave(("team", "second"))
    assert scene.asks() == {"team/third": ["team/grid"]}
    (alone,) = scene.intends("grid", "third").each
    assert (alone.to, alone.ranks) == ("team/third", "0")


def test_of_a_sweep_further_members_are_asked_for_so_many_runs_at_a_time() -> None:
    """So that its status stays small."""
    scene = Scene(ASKED_OF_A_SWEEP + 2)
    status = scene.sweep("grid", *range(1, ASKED_OF_A_SWEEP + 3))
    for number in range(ASKED_OF_A_SWEEP + 2):
        name = f"wants-{number:02}"
        scene.waits(name, 1)
        if number < ASKED_OF_A_SWEEP:
            status = gang.give_way(status, scene.intends("grid", name))
            scene.put("grid", status)
    assert status.gives_way is not None and len(status.gives_way.each) == ASKED_OF_A_SWEEP
    assert scene.asks() == {}
    scene.put("wants-03", RunStatus(phase=Phase.STOPPED))
    scene.queue.leave(("team", "wants-03"))
    assert len(scene.asks()) == 2
    assert len(to_document(status)["givesWay"]["others"]) < ASKED_OF_A_SWEEP


def test_in_one_look_members_of_a_sweep_are_asked_for_several() -> None:
    """All of it is one write."""
    scene = Scene(3)
    scene.sweep("grid", 50, 10, 20)
    for name in ("first", "second"):
        scene.waits(name, 1)
    first, second = scene.plan().requests.requests
    asked = {}
    for request in (first, second):
        asked = scene.queue.giving_way.intents(request, scene.mirror.runs[key_of(request.key)], NOW)
        for key, each in asked.items():
            scene.queue.giving_way.note_asking(key, each)
    assert [(each.to, each.ranks) for each in asked["team", "grid"].each] == [(second.key, "2"), (first.key, "1")]


def test_what_comes_free_is_nobody_elses_though_he_comes_first() -> None:
    scene = Scene(2)
    scene.waits("first", 1, priority=100, queued_at="2026-11-20T00:00:00Z")
    scene.waits("urgent", 2)
    asked = GivesWay(to="team/urgent", uid="uid-urgent", since=format_time(NOW))
    low = scene.runs("low", "n0")
    scene.put("low", gang.give_way(low, asked))
    scene.begin_anew()
    assert scene.starts() == {}  # n1 is free
    scene.put("low", msgspec.structs.replace(gang.give_way(low, asked), phase=Phase.QUEUED))
    scene.ends("low")
    scene.begin_anew()
    assert scene.starts() == {"urgent": ("n0", "n1")}


def test_whoever_leads_follows_what_statuses_say_of_it() -> None:
    """From when it stands there, whoever wrote it, until it does not any more."""
    scene = Scene(1)
    scene.waits("urgent", 1)
    low = scene.runs("low", "n0")
    asked = GivesWay(to="team/urgent", uid="uid-urgent", since=format_time(NOW))
    scene.put("low", gang.give_way(low, asked))
    assert scene.asks() == {}
    scene.put("low", low)
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_what_came_free_for_several_goes_to_the_most_important_first_then_to_who_waits_for_longest() -> None:
    scene = Scene(2)
    for name, priority, queued_at in (
        ("late", 0, "2026-11-21T11:00:00Z"),
        ("early", 0, "2026-11-21T10:00:00Z"),
        ("high", 100, "2026-11-21T11:30:00Z"),
    ):
        scene.waits(name, 1, priority=priority, queued_at=queued_at)
        status = RunStatus(phase=Phase.QUEUED, gives_way=GivesWay(to=f"team/{name}", uid=f"uid-{name}"))
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
    scene = Scene(1)
    if urgent is not None:
        scene.put("urgent", urgent)
    asked = GivesWay(to="team/urgent", uid="uid-urgent", since=format_time(NOW))
    low = scene.runs("low", "n0")
    scene.put("low", gang.give_way(low, asked))
    scene.waits("other", 1)
    assert scene.asks() == {"team/other": ["team/low"]}
    scene.put("low", msgspec.structs.replace(gang.give_way(low, asked), phase=Phase.QUEUED))
    scene.ends("low")
    assert scene.starts() == {"other": ("n0",)}


@pytest.mark.parametrize("changed", [{"uid": "another"}, {"deletion_timestamp": "2026-11-21T11:59:00Z"}])
def test_for_another_run_of_its_name_or_one_that_is_deleted_nothing_is_kept(changed: dict[str, str]) -> None:
    scene = Scene(1)
    waits = scene.put("urgent", RunStatus())
    low = scene.runs("low", "n0")
    scene.put("low", gang.give_way(low, GivesWay(to="team/urgent", uid=waits.metadata.uid)))
    scene.waits("other", 1)
    assert scene.asks() == {}
    meta = msgspec.structs.replace(waits.metadata, **changed)
    scene.mirror.runs["team", "urgent"] = msgspec.structs.replace(waits, metadata=meta)
    assert scene.asks() == {"team/other": ["team/low"]}


def test_room_that_somebody_starts_on_at_this_moment_helps_nobody_else() -> None:
    scene = Scene(2)
    scene.runs("low", "n0")
    scene.waits("first", 1, priority=100)
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_members_of_a_sweep_that_nobody_has_seen_yet_are_its_youngest() -> None:
    scene = Scene(2)
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


def test_who_gives_way_is_named_and_when_the_last_of_them_is_gone_at_the_latest() -> None:
    """His grace counts from when he was asked; once his members are told, what their Pods say."""
    scene = Scene(4)
    scene.waits("urgent", 4)
    asked = GivesWay(to="team/urgent", uid="uid-urgent", since=format_time(NOW))
    words = scene.queue.giving_way.words_for
    assert words("team/urgent") == ""
    for number in range(4):
        low = scene.runs(f"low-{number}", f"n{number}")
        scene.put(f"low-{number}", gang.give_way(low, asked))
        if number == 0:
            assert words("team/urgent") == "asks team/low-0 (low) to give way; its nodes are free by 12:01:00 UTC"
    shown = ", ".join(f"team/low-{number} (low)" for number in range(3))
    assert words("team/urgent") == f"asks {shown} and 1 more to give way; their nodes are free by 12:01:00 UTC"
    for number in range(4):
        scene.told(f"low-{number}")
    assert words("team/urgent").endswith("their nodes are free by 12:00:50 UTC")
    for number in range(4):
        scene.ends(f"low-{number}")
    assert words("team/urgent") == f"{shown} and 1 more gave way"


def test_a_write_that_failed_asks_again() -> None:
    scene = Scene(1)
    scene.runs("low", "n0")
    scene.waits("urgent", 1)
    scene.intends("low")
    assert scene.asks() == {}
    scene.queue.giving_way.note_failed(("team", "low"))
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_a_run_that_is_being_stopped_counts_as_coming_free() -> None:
    """Its members may not have been told yet; a service that starts, or replaces a member, is not on its way out."""
    for stopping in ("batch", "service"):
        scene = Scene(2)
        status = scene.runs("stopped", "n0", type=stopping)
        scene.put("stopped", msgspec.structs.replace(status, reason=Reason.STOPPING))
        scene.runs("low", "n1")
        scene.waits("urgent", 1)
        assert scene.asks() == {}
    scene = Scene(2)
    scene.runs("between-two-attempts", "n0", phase=Phase.RESTARTING)
    scene.runs("low", "n1")
    scene.waits("urgent", 1)
    assert scene.asks() == {}
    for phase in (Phase.STARTING, Phase.RESTARTING):
        scene = Scene(2)
        scene.runs("web", "n0", type="service", phase=phase, priority="normal")
        scene.runs("low", "n1")
        scene.waits("urgent", 1)
        assert scene.asks() == {"team/urgent": ["team/low"]}


def test_how_much_a_gang_loses_is_told_by_its_checkpoints() -> None:
    """Fifty minutes of the last hour are saved where a program writes one every fifty minutes."""
    scene = Scene(2)
    scene.runs("without", "n0", checkpoint={"path": "/ckpt"})
    scene.runs("with", "n1", checkpoint={"path": "/ckpt", "every": "50m"})
    scene.waits("urgent", 1)
    (request,) = scene.plan().requests.requests
    (victim,) = request.victims
    assert (victim.key, victim.unsaved_seconds, victim.grace_seconds) == ("team/with", 600.0, 60.0)


def test_a_gang_is_looked_at_again_when_its_minimum_run_time_is_over() -> None:
    scene = Scene(1, preemption={"minimumRunTime": "90m"})
    scene.runs("low", "n0")
    scene.waits("urgent", 1)
    requests = scene.plan().requests
    assert (requests.requests, requests.look_again_in_seconds) == ((), 1800.0)


@pytest.mark.parametrize(("type", "asked"), [("batch", False), ("service", True)])
def test_a_service_has_run_since_it_started_whichever_of_its_members_was_replaced_since(type: str, asked: bool) -> None:
    scene = Scene(1, preemption={"minimumRunTime": "30m"})
    status = scene.runs("low", "n0", type=type)
    assert status.attempt is not None
    status.attempt.started_at = format_time(NOW - timedelta(minutes=1))
    scene.put("low", status)
    scene.waits("urgent", 1)
    assert bool(scene.asks()) == asked


def test_a_service_of_low_priority_gives_way_beside_a_more_important_one() -> None:
    scene = Scene(2)
    scene.runs("shop", "n0", type="service", priority="normal")
    scene.runs("web", "n1", type="service")
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/web"]}


def test_whose_time_is_over_before_he_could_be_asked_to_leave_is_not_asked() -> None:
    """Nor is anybody in his place."""
    for limit, asked in (("61m", False), ("2h", True)):
        scene = Scene(1)
        scene.runs("low", "n0", timeLimit=limit)
        scene.waits("urgent", 1)
        assert bool(scene.asks()) == asked


def test_nobody_gives_way_to_a_test_of_a_node() -> None:
    """It can wait; work goes on meanwhile."""
    scene = Scene(1, preflight={"namespace": "team"})
    scene.runs("low", "n0")
    scene.waits("preflight", 1, priority=100, annotations={names.ANNOTATION_TESTED_NODE: "n0"})
    assert scene.asks() == {}
    scene.waits("urgent", 1)
    assert scene.asks() == {"team/urgent": ["team/low"]}


def test_a_team_is_guaranteed_what_another_one_borrowed() -> None:
    scene = Scene(2, guarantees=[{"namespace": "team", "gpus": 8}])
    scene.runs("theirs", "n0", "n1", team="other", priority="high")
    scene.waits("ours", 1, priority=-100)
    (request,) = scene.plan().requests.requests
    assert ([victim.key for victim in request.victims], request.guaranteed) == (["other/theirs"], True)
    (said,) = scene.queue.giving_way.intents(request, scene.mirror.runs["team", "ours"], NOW).values()
    assert (said.to, said.who, said.guaranteed) == ("team/ours", "team/ours (normal)", True)
