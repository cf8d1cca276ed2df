"""The occupants of the cluster, as what-ifs use them."""

from __future__ import annotations

import msgspec
from tests.helpers.scenes.queue_scene import NOW, QueueScene, ago

from kajitori.cluster.objects import Pod
from kajitori.cluster.queue.outlook import Outlook
from kajitori.cluster.queue.simulation import frozen_cluster
from kajitori.core.queue.freeing import Step, StepKind
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status_parts.members import SweepState


def add(scene: QueueScene, name: str, *, node: str = "", nominated: str = "", controller: str = "") -> None:
    owner = [{"kind": controller, "name": "x", "uid": "u", "controller": True}] if controller else []
    document = {
        "metadata": {"name": name, "namespace": "kube-system", "ownerReferences": owner},
        "spec": {"nodeName": node, "containers": [{"name": "x", "resources": {"requests": {"cpu": "500m"}}}]},
        "status": {"phase": "Pending" if nominated else "Running", "nominatedNodeName": nominated},
    }
    made = msgspec.convert(document, Pod)
    scene.show_pod(made)


async def test_every_occupant_is_listed_with_all_its_resources() -> None:
    """Occupants are runs with their promises and expected ends, foreign Pods, and Pods for which the scheduler makes
    room. Without them, only Pods of DaemonSets are left, which come back by themselves."""
    scene = QueueScene(6)
    scene.runs("bert", "n[0-1]", since=ago(hours=1), timeLimit="3h")
    scene.runs("starts", "n[2-3]", since=ago(minutes=1), phase=Phase.STARTING)
    scene.lose_pod("starts-1-1")
    add(scene, "web", node="n4", controller="ReplicaSet")
    add(scene, "agent", node="n4", controller="DaemonSet")
    add(scene, "coming", nominated="n5")
    outlook = Outlook(scene.mirror, scene.cluster)
    moment = frozen_cluster(scene.cluster, outlook.endings(NOW), NOW.timestamp())
    found = await moment.simulation(())
    occupants = {occupant.key: occupant for occupant in found.occupants}
    assert set(occupants) == {"team/bert", "team/starts", "kube-system/web", "kube-system/coming"}
    assert occupants["team/bert"].ends_at == NOW.timestamp() + 2 * 3600
    assert sorted(occupants["team/starts"].rows.tolist()) == [2, 3]
    assert [occupants[key].is_run for key in sorted(occupants)] == [False, False, True, True]
    left = found.after([Step(StepKind.RUN, occupant.key, occupant) for occupant in found.occupants]).snapshot
    assert left.used[4].tolist() == [500, 0, 0, 1]
    assert not left.used[[0, 1, 2, 3, 5]].any()
    assert not left.members.any() and not left.alone.any()


async def test_members_of_a_sweep_end_one_by_one() -> None:
    """Members without a Pod, too. If the sweep is stopped, all its members end."""
    scene = QueueScene(4)
    for name, nodes, phase in (("grid", "n[0-1]", Phase.RUNNING), ("next", "n[2-3]", Phase.STARTING)):
        run = scene.runs(name, nodes, since=ago(hours=1), phase=phase, array="0-9", timeLimit="3h")
        assert run.status is not None
        run = scene.show(name, msgspec.structs.replace(run.status, sweep=SweepState()), array="0-9", timeLimit="3h")
    for rank, node in enumerate(("n2", "n3")):
        assert scene.mirror.pods["team", f"next-1-{rank}"].spec.node_name == node
        scene.lose_pod(f"next-1-{rank}")
    outlook = Outlook(scene.mirror, scene.cluster)
    moment = frozen_cluster(scene.cluster, outlook.endings(NOW), NOW.timestamp())
    found = await moment.simulation((), asked="team/grid")
    occupants = {
        occupant.key: (occupant.kind, occupant.run, occupant.rows.tolist(), occupant.endings != ())
        for occupant in found.occupants
    }
    assert occupants == {
        f"team/{run}-1-{rank}": (StepKind.MEMBER, f"team/{run}", [row], True)
        for row, (run, rank) in enumerate((("grid", 0), ("grid", 1), ("next", 0), ("next", 1)))
    }
    left = found.after([Step(StepKind.AHEAD, "team/grid")]).snapshot
    assert left.members.tolist() == [0, 0, 1, 1]


async def test_a_services_own_members_are_no_occupants_for_it() -> None:
    """A member that ends is replaced."""
    scene = QueueScene(2)
    scene.runs("web", "n0", since=ago(hours=1), type="service")
    outlook = Outlook(scene.mirror, scene.cluster)
    moment = frozen_cluster(scene.cluster, outlook.endings(NOW), NOW.timestamp())
    assert not (await moment.simulation((), asked="team/web")).occupants
    assert len((await moment.simulation(())).occupants) == 1
