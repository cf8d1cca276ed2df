"""Nodes: what they have, what is in use on them, and why they take no work."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from kajitori.api.auth import Caller, User
from kajitori.api.bodies import json_body
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.nodes.health import (
    TestRequest,
    ask_for_tests,
    can_be_tested,
    check_testable,
    check_there_is_a_test,
    health_of,
    take_back,
    tests_that_go_on,
    trial_of,
    why_out,
)
from kajitori.api.nodes.pools import pool_views
from kajitori.api.nodes.views import Amount, MemberOnNode, NodeDetail, NodeList, NodeView, Tested
from kajitori.core.documents.faults import read, show
from kajitori.core.placement.snapshot import NodeFacts, NodeTable
from kajitori.core.policy.file import Policy
from kajitori.core.queue.explain import Use
from kajitori.core.words import names
from kajitori.core.words.suggestions import did_you_mean
from kajitori.errors import InvalidInput, NotFound
from kajitori.kube.mirror.usage import NodeUsage
from kajitori.kube.objects import Node, RunObject
from kajitori.kube.resources import NODES

router = APIRouter(tags=["cluster"])


@router.get("/v1/nodes", responses=describes(NodeList), summary="All nodes, in topology order")
async def list_nodes(api: Shared, user: Caller) -> Response:
    """With what is in use on each."""
    body = api.remembered.get("nodes", lambda: msgspec.json.encode(_all_nodes(api)))
    return Response(body, media_type="application/json")


def _all_nodes(api: Api) -> NodeList:
    return NodeList(items=list(node_views(api)), pools=pool_views(api))


@router.get("/v1/nodes/{name}", responses=describes(NodeDetail), summary="One node and all that runs on it")
async def get_node(api: Shared, user: Caller, name: str) -> Response:
    """With how much each takes."""
    table = api.cluster.table()
    node = api.mirror.nodes.get(name)
    if node is None or name not in table.index:
        raise NotFound(f"there is no node {show(name)!r}", hint=did_you_mean(name, table.index))
    return answer(_detail(api, table.nodes[table.index[name]], node))


@router.post("/v1/nodes/{name}/drain", responses=describes(NodeDetail), summary="Empty a node")
async def drain_node(api: Shared, user: Caller, name: str) -> Response:
    """Nothing new is placed on it. Gangs with a member there are ended as a whole, with the grace that their run has to
    write a checkpoint, and go elsewhere; of a service only the members there. It counts as no failure of theirs. Pods
    that belong to no run stay. Asked twice, it is done once."""
    known = api.mirror.nodes.get(name)
    who = known.metadata.annotations.get(names.ANNOTATION_DRAIN) if known is not None else None
    annotations = {names.ANNOTATION_DRAIN: who or user.name}
    return await _change(api, user, name, {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True}})


@router.post("/v1/nodes/{name}/uncordon", responses=describes(NodeDetail), summary="Let a node take work again")
async def uncordon_node(api: Shared, user: Caller, name: str) -> Response:
    """Whether it was drained or only cordoned. What was moved away does not come back by itself."""
    annotations = {names.ANNOTATION_DRAIN: None}
    return await _change(api, user, name, {"metadata": {"annotations": annotations}, "spec": {"unschedulable": None}})


@router.post("/v1/nodes/{name}/healthy", responses=describes(NodeDetail), summary="Let a node back into the pool")
async def heal_node(api: Shared, user: Caller, name: str) -> Response:
    """Whether it left for its condition, for runs that failed on it, or for a test; or was not tested yet. What was
    before does not count against it any more, and who let it back stands in its trail."""
    table = await _may_change(api, user, name)
    node = await take_back(api, user, name)
    facts = dataclasses.replace(table.nodes[table.index[name]], out=(), schedulable=not node.spec.unschedulable)
    return answer(_detail(api, facts, node))


@router.post(
    "/v1/preflight",
    responses=describes(Tested),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/TestRequest"}}},
        }
    },
    summary="Have nodes tested",
)
async def test_nodes(api: Shared, user: Caller, request: Request) -> Response:
    """With the test of policy (`preflight`), each as soon as no run is on it. A node that fails leaves the pool, one
    that passes comes back; what it was stands in its trail. Asked twice, it is done once. Where one of those that are
    named can't be tested, none is."""
    wanted, faults, _ = read(TestRequest, await json_body(request), "")
    if faults or wanted is None:
        raise InvalidInput(faults)
    known = api.cluster.table().index
    if wanted.every:
        await user.require("patch", "", resource=NODES)
        check_there_is_a_test(api)
        chosen = [name for name in known if can_be_tested(api, name)]
    else:
        chosen = list(dict.fromkeys(wanted.nodes))
        for name in chosen:
            await user.require("patch", "", name, resource=NODES)
        check_testable(api, chosen, known)
    return answer(Tested(nodes=await ask_for_tests(user, chosen)))


async def _change(api: Api, user: User, name: str, patch: dict[str, Any]) -> Response:
    """Patches a node in the caller's name; answers what it is then."""
    table = await _may_change(api, user, name)
    node = msgspec.convert(await user.client.patch(NODES, name, patch), Node)
    facts = dataclasses.replace(table.nodes[table.index[name]], schedulable=not node.spec.unschedulable)
    return answer(_detail(api, facts, node))


async def _may_change(api: Api, user: User, name: str) -> NodeTable:
    """All nodes, where there is one of this name and the caller may change it; else raises NotFound or Forbidden."""
    table = api.cluster.table()
    if name not in table.index or name not in api.mirror.nodes:
        raise NotFound(f"there is no node {show(name)!r}", hint=did_you_mean(name, table.index))
    await user.require("patch", "", name, resource=NODES)
    return table


def node_views(api: Api) -> Iterator[NodeView]:
    """All nodes, in topology order."""
    going_on, promised = tests_that_go_on(api), api.cluster.promised_uses()
    for facts in api.cluster.table().nodes:
        node = api.mirror.nodes.get(facts.name)
        if node is not None:
            yield _view(api, facts, node, going_on, promised.get(facts.name, ()))


def why_no_work(facts: NodeFacts, node: Node, policy: Policy) -> str:
    """Why nothing new is placed on a node; empty where it takes work. Taints keep only those out that do not tolerate
    them, so they are no reason of this kind, but for those that keep a node out of the pool."""
    if facts.stale_taint:
        return f"Ready, but {facts.out_of_order}"
    if not facts.ready:
        for condition in node.status.conditions:
            if condition.type == "Ready" and condition.status != "True":
                said = condition.message or condition.reason
                return f"not ready: {said}" if said else "not ready"
        return "not ready"
    cordoned = f"drained for {node.drained_by}" if node.drained_by else "cordoned"
    return "; ".join(filter(None, (why_out(node, policy), "" if facts.schedulable else cordoned)))


def members_on(api: Api, name: str) -> list[MemberOnNode]:
    """What each unfinished Pod takes of a node, the greatest holders of GPUs first."""
    resource = api.cluster.policy.gpu.resource
    found = []
    for pod in api.mirror.pods_on_node(name):
        if pod.is_finished:
            continue
        run = api.mirror.run_of(pod)
        usage, meta = api.mirror.usage_of_pod(pod), pod.metadata
        found.append(
            MemberOnNode(
                holder=f"{meta.namespace}/{run.metadata.name if run is not None else meta.name}",
                owner=run.owner if run is not None else "",
                is_run=run is not None,
                pod=meta.name,
                rank=pod.member.rank if run is not None and pod.member is not None else None,
                gpus=usage.other(resource),
                cpu_millis=usage.cpu_millis,
                memory_bytes=usage.memory_bytes,
                since=pod.status.start_time or meta.creation_timestamp,
            )
        )
    return sorted(found, key=lambda each: (-each.gpus, each.holder, each.pod))


def _detail(api: Api, facts: NodeFacts, node: Node) -> NodeDetail:
    promised = api.cluster.promised_uses().get(facts.name, ())
    view = _view(api, facts, node, tests_that_go_on(api), promised)
    fields = {field: getattr(view, field) for field in view.__struct_fields__}
    return NodeDetail(**fields, members=members_on(api, facts.name), health=health_of(node))


def _view(
    api: Api, facts: NodeFacts, node: Node, going_on: Mapping[str, RunObject], promised: Sequence[Use]
) -> NodeView:
    """promised: what members will take that are still starting and not bound yet."""
    policy = api.cluster.policy
    usage = api.mirror.usage_of(facts.name) or NodeUsage()
    gpus = usage.other(policy.gpu.resource) + sum(use.gpus for use in promised)
    cpu = usage.cpu_millis + sum(use.cpu_millis for use in promised)
    memory = usage.memory_bytes + sum(use.memory_bytes for use in promised)
    labels = node.metadata.labels
    return NodeView(
        name=facts.name,
        ready=node.is_ready,
        schedulable=facts.schedulable,
        draining=bool(node.drained_by),
        why=why_no_work(facts, node, policy),
        labels=labels,
        taints=[
            f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
            for taint in node.spec.taints
        ],
        gpu_type=facts.gpu_type,
        gpus=Amount(total=facts.gpus, used=gpus),
        cpu_millis=Amount(total=facts.cpu_millis, used=cpu),
        memory_bytes=Amount(total=facts.memory_bytes, used=memory),
        pods=Amount(total=facts.pods, used=usage.pods + len(promised)),
        domains={label: labels[label] for label in policy.topology if label in labels},
        testable=policy.preflight.covers(labels),
        test=trial_of(node, policy, going_on),
        created_at=node.metadata.creation_timestamp,
    )
