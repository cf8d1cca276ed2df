"""Routes about nodes: list, show, drain, uncordon, test, and return to the pool."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from kajitori.api.audit import note_reason
from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.nodes.draining import drain, uncordon
from kajitori.api.nodes.health import (
    TestRequest,
    can_be_tested,
    check_testable,
    check_there_is_a_test,
    health_of,
    mark_healthy,
    request_tests,
    running_tests,
    test_of,
)
from kajitori.api.rendering.nodes import gpu_amounts, unavailable_reason
from kajitori.api.requests.bodies import body_of, takes
from kajitori.api.rights import User
from kajitori.api.views.nodes import Amount, MemberOnNode, NodeDetail, NodeView, Tested
from kajitori.cluster.mirror.usage import NodeUsage
from kajitori.cluster.objects import Node
from kajitori.cluster.run_object import RunObject
from kajitori.core.documents.faults import Document, show
from kajitori.core.documents.fields import Text
from kajitori.core.placement.snapshot import NodeFacts, NodeTable
from kajitori.core.queue.explain import Use
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import NotFound
from kajitori.kube.resources import NODES

router = APIRouter(tags=["cluster"])


@router.get("/v1/nodes/{name}", responses=describes(NodeDetail), summary="One node and everything that runs on it")
async def get_node(api: Shared, user: Caller, name: str) -> Response:
    """Each Pod with the resources that it takes, and the node's health history."""
    table = api.cluster.table()
    node = api.mirror.nodes.get(name)
    if node is None or name not in table.index:
        raise NotFound(f"there is no node {show(name)!r}", hint=did_you_mean(name, table.index))
    detail = _detail(api, table.nodes[table.index[name]], node)
    detail.changeable = await user.may("patch", "", resource=NODES) or await user.may("patch", "", name, resource=NODES)
    return answer(detail)


class DrainRequest(Document):
    """How to empty a node."""

    reason: Text = Field(default="", max_length=200)
    """Why, in words; everybody who sees the node sees it."""


@router.post(
    "/v1/nodes/{name}/drain",
    responses=describes(NodeDetail),
    openapi_extra=takes(DrainRequest, required=False),
    summary="Empty a node",
)
async def drain_node(api: Shared, user: Caller, request: Request, name: str) -> Response:
    """Cordon the node and move its runs away. A gang with a member there stops as a whole and starts elsewhere; it has
    its grace period to write a checkpoint. A service only moves the members on this node. The restarts count as no
    failures of the runs. Pods that belong to no run stay. A second request has no further effect: the first
    reason stays. The node's health history records the user and the reason."""
    wanted = await body_of(request, DrainRequest, required=False)
    note_reason(request.state, wanted.reason)
    table = await _require_change(api, user, name)
    return _changed(api, table, await drain(user, name, wanted.reason, api.mirror.now()))


@router.post("/v1/nodes/{name}/uncordon", responses=describes(NodeDetail), summary="Let a node take work again")
async def uncordon_node(api: Shared, user: Caller, name: str) -> Response:
    """Ends a drain as well as a plain cordon. Runs that were moved away do not move back. The
    node's health history records the user."""
    table = await _require_change(api, user, name)
    return _changed(api, table, await uncordon(user, name, api.mirror.now()))


@router.post("/v1/nodes/{name}/healthy", responses=describes(NodeDetail), summary="Return a node to the pool")
async def heal_node(api: Shared, user: Caller, name: str) -> Response:
    """Works whether a condition, failed runs or a failed test took the node out of the pool, or it was not tested yet.
    Earlier failures no longer count against it. Its health history records the user who returned it."""
    table = await _require_change(api, user, name)
    node = await mark_healthy(api, user, name)
    return _changed(api, table, node, out=())


@router.post(
    "/v1/preflight",
    responses=describes(Tested),
    openapi_extra=takes(TestRequest),
    summary="Test nodes",
)
async def test_nodes(api: Shared, user: Caller, request: Request) -> Response:
    """Run the policy's test (`preflight`) on each node as soon as no run is on it. A node that fails the test leaves
    the pool, a node that passes returns to it; its health history records the result. A second request has no further
    effect. If one of the named nodes can't be tested, none is tested."""
    wanted = await body_of(request, TestRequest)
    nodes = api.cluster.table().index
    if wanted.every:
        await user.require("patch", "", resource=NODES)
        check_there_is_a_test(api)
        chosen = [name for name in nodes if can_be_tested(api, name)]
    else:
        chosen = list(dict.fromkeys(wanted.nodes))
        for name in chosen:
            await user.require("patch", "", name, resource=NODES)
        check_testable(api, chosen, nodes)
    return answer(Tested(nodes=await request_tests(user, chosen)))


def _changed(api: Api, table: NodeTable, node: Node, **changes: Any) -> Response:
    """Return the answer that shows a changed node, which the mirror may not show yet. `changes` are of its facts."""
    facts = dataclasses.replace(
        table.nodes[table.index[node.metadata.name]],
        schedulable=not node.spec.unschedulable,
        drained_by=node.drained_by,
        **changes,
    )
    return answer(_detail(api, facts, node))


async def _require_change(api: Api, user: User, name: str) -> NodeTable:
    """Return the table of all nodes. Raises NotFound if the node does not exist, Forbidden if the caller may not change
    it."""
    table = api.cluster.table()
    if name not in table.index or name not in api.mirror.nodes:
        raise NotFound(f"there is no node {show(name)!r}", hint=did_you_mean(name, table.index))
    await user.require("patch", "", name, resource=NODES)
    return table


def node_views(api: Api) -> Iterator[NodeView]:
    """Yield the views of all nodes, in topology order."""
    running, promised = running_tests(api), api.cluster.promised_uses()
    for facts in api.cluster.table().nodes:
        node = api.mirror.nodes.get(facts.name)
        if node is not None:
            yield _view(api, facts, node, running, promised.get(facts.name, ()))


def members_on(api: Api, name: str) -> list[MemberOnNode]:
    """Return the resources that each unfinished Pod takes on a node, the Pods with most GPUs first."""
    members = []
    for pod in api.mirror.pods_on_node(name):
        if pod.is_finished:
            continue
        run = api.mirror.run_of(pod)
        usage, meta = api.mirror.usage_of_pod(pod), pod.metadata
        members.append(
            MemberOnNode(
                holder=f"{meta.namespace}/{run.metadata.name if run is not None else meta.name}",
                owner=run.owner if run is not None else "",
                is_run=run is not None,
                pod=meta.name,
                rank=pod.member.rank if run is not None and pod.member is not None else None,
                gpus=sum(api.cluster.occupancy.gpus_of(pod).values()),
                cpu_millis=usage.cpu_millis,
                memory_bytes=usage.memory_bytes,
                since=pod.status.start_time or meta.creation_timestamp,
            )
        )
    return sorted(members, key=lambda member: (-member.gpus, member.holder, member.pod))


def _detail(api: Api, facts: NodeFacts, node: Node) -> NodeDetail:
    promised = api.cluster.promised_uses().get(facts.name, ())
    view = _view(api, facts, node, running_tests(api), promised)
    fields = {field: getattr(view, field) for field in view.__struct_fields__}
    return NodeDetail(**fields, members=members_on(api, facts.name), health=health_of(node), changeable=True)


def _view(
    api: Api, facts: NodeFacts, node: Node, running: Mapping[str, RunObject], promised: Sequence[Use]
) -> NodeView:
    """Return the view of a node. `promised` are the resources of starting members that are not bound to it yet."""
    policy = api.cluster.policy
    usage = api.mirror.usage_of(facts.name) or NodeUsage()
    types = gpu_amounts(api.cluster, facts, (*api.cluster.uses(facts.name), *promised))
    cpu = usage.cpu_millis + sum(use.cpu_millis for use in promised)
    memory = usage.memory_bytes + sum(use.memory_bytes for use in promised)
    labels = node.metadata.labels
    return NodeView(
        name=facts.name,
        ready=node.is_ready,
        schedulable=facts.schedulable,
        draining=bool(node.drained_by),
        why=unavailable_reason(facts, node, policy),
        labels=labels,
        taints=[
            f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
            for taint in node.spec.taints
        ],
        gpu_type=facts.gpu_type,
        gpus=next((amount for offer, amount in types if offer.is_whole), Amount(total=0, used=0)),
        partial_gpus={offer.type: amount for offer, amount in types if not offer.is_whole},
        cpu_millis=Amount(total=facts.cpu_millis, used=cpu),
        memory_bytes=Amount(total=facts.memory_bytes, used=memory),
        pods=Amount(total=facts.pods, used=usage.pods + len(promised)),
        domains={label: labels[label] for label in policy.topology if label in labels},
        testable=policy.preflight.covers(labels),
        test=test_of(node, policy, running),
        created_at=node.metadata.creation_timestamp,
    )
