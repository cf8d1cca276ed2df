"""Node pools from the mirror and policy: their nodes, their possible nodes, and nodes kept for runs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from tests.helpers.scenes.queue_scene import MEMBER, NOW, QueueScene, ago

from kajitori.cluster.objects import Node
from kajitori.core.naming import names
from kajitori.core.placement.planner import GangRequest
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState
from kajitori.kube.watch import Deleted

POOL = {
    "nodeSelector": {"pool": "spot"},
    "node": {"cpu": 32, "memory": "64Gi", "gpu": 8},
    "maxNodes": 5,
}
ASKED = NodeRequest(
    pool="spot", nodes=2, attempt=1, number=1, state=RequestState.PROVISIONED, first_asked_at=ago(minutes=5)
)


def scene(*created: str) -> QueueScene:
    """Return a scene with nodes of the pool that came at these times."""
    made = QueueScene(len(created), nodePools={"spot": POOL}, preflight={"image": "test:1"})
    for name, moment in zip(list(made.mirror.nodes), created, strict=True):
        node = made.mirror.nodes[name]
        meta = msgspec.structs.replace(node.metadata, labels={"pool": "spot"}, creation_timestamp=moment)
        made.mirror.nodes[name] = Node(metadata=meta, spec=node.spec, status=node.status)
    return made


def show_waiting(made: QueueScene, name: str, request: NodeRequest = ASKED) -> None:
    made.show(name, RunStatus(phase=Phase.QUEUED, queued_at=ago(minutes=6), node_request=request))


def kept(made: QueueScene) -> dict[str, list[str]]:
    nodes = made.cluster.table().nodes
    return {key: [nodes[row].name for row in rows.tolist()] for key, rows in made.cluster.kept().items()}


def barred_for(made: QueueScene, key: str) -> set[str]:
    """Return the nodes that this run may not use."""
    return set(made.cluster.barred()(GangRequest(key, MEMBER, (0,))).member.barred)


def test_nodes_that_a_pool_may_get_are_in_the_possible_table() -> None:
    made = scene(ago(days=1), ago(days=1))
    assert len(made.cluster.possible_table()) == 5 and len(made.cluster.table()) == 2
    assert made.cluster.pools["spot"].rows.tolist() == [0, 1]
    assert QueueScene(2).cluster.possible_table() is not None and not QueueScene(2).cluster.pools


def test_nodes_that_came_for_a_run_are_barred_for_others() -> None:
    """Nodes that existed before are not barred, and none is for the run itself. Equal members stay one object."""
    made = scene(ago(days=1), ago(minutes=2), ago(minutes=1))
    show_waiting(made, "bert")
    assert kept(made) == {"team/bert": ["n1", "n2"]}
    assert barred_for(made, "team/other") == {"n1", "n2"} and barred_for(made, "team/bert") == set()
    barred = made.cluster.barred()
    one, two = (barred(GangRequest(f"team/{name}", MEMBER, (0,))) for name in "ab")
    assert one.member is two.member
    show_waiting(made, "bert", msgspec.structs.replace(ASKED, state=RequestState.FAILED))
    assert kept(made) == {} and barred_for(made, "team/other") == set()


def test_nodes_on_which_a_run_starts_are_not_kept_for_another() -> None:
    """This holds before its Pods are bound."""
    made = scene(ago(minutes=3), ago(minutes=2), ago(minutes=1))
    show_waiting(made, "bert")
    made.runs("first", "n0", since=ago(minutes=2))
    starting = made.runs("second", "n1", since=ago(minutes=1), phase=Phase.STARTING)
    for key in [key for key in made.mirror.pods if key[1].startswith(starting.metadata.name)]:
        made.mirror._index(Deleted(made.mirror.pods.pop(key)))
    assert kept(made) == {"team/bert": ["n2"]}


def test_a_new_node_is_tested_though_it_is_kept() -> None:
    """A test may use every node, and a tested node stays kept for its run."""
    made = scene(ago(minutes=2), ago(minutes=1))
    show_waiting(made, "bert")
    test = made.runs("test-n0", "n0", since=ago(minutes=1), team=names.NAMESPACE)
    meta = msgspec.structs.replace(test.metadata, annotations={names.ANNOTATION_TESTED_NODE: "n0"})
    made.mirror.runs[names.NAMESPACE, "test-n0"] = msgspec.structs.replace(test, metadata=meta)
    assert kept(made) == {"team/bert": ["n0", "n1"]}
    assert barred_for(made, f"{names.NAMESPACE}/test-n0") == set()
    assert barred_for(made, "team/other") == {"n0", "n1"}


def test_requests_are_unchanged_if_no_nodes_are_kept() -> None:
    made = scene(ago(days=1))
    request = GangRequest("team/bert", replace(MEMBER), (0,), queued_at=str(NOW))
    assert made.cluster.barred()(request) is request
