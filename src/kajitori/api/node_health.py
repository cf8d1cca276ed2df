"""The health of nodes, as it is shown and as people change it: what is written on a Node is written as the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kajitori.api.auth import User
from kajitori.api.context import Api
from kajitori.api.views import HealthEntry, NodeTest
from kajitori.core import names
from kajitori.core.health import BY_HAND, DRAINED_BY
from kajitori.core.health_trail import What, added, entry, in_words, last_test, left_as, read_trail, write_trail
from kajitori.core.policy import Policy
from kajitori.core.reasons import Phase
from kajitori.errors import Conflict, WrongState
from kajitori.kube.health import HealthView
from kajitori.kube.objects import Node, RunObject
from kajitori.kube.resources import NODES

TRIES = 5
"""Of a change of a Node that somebody else changes at the same time: kubelets write theirs all the time."""

_RESULTS = {What.UNTESTED: "untested", What.FAILED: "failed", What.OUT: "failed"}


def health_of(node: Node) -> list[HealthEntry]:
    """What happened to a node, the oldest first."""
    return [
        HealthEntry(
            at=each.at,
            what=each.what.value,
            reason=each.reason,
            by=each.by,
            evidence=list(each.evidence),
            run=each.run,
            times=each.times,
            says=in_words(each),
        )
        for each in read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, ""))
    ]


def why_out(node: Node, policy: Policy) -> str:
    """Why a node is out of the pool; empty where it is in it."""
    taints = {taint.key: taint.value for taint in node.spec.taints}
    if names.TAINT_UNHEALTHY in taints:
        left = left_as(read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")))
        if left is None:
            return f"unhealthy: {taints[names.TAINT_UNHEALTHY] or 'marked by hand'}"
        said = f": {left.evidence[0]}" if left.evidence else ""
        return f"unhealthy: {left.reason}{said}"
    if policy.preflight.taint not in taints:
        return ""
    if not policy.preflight.covers(node.metadata.labels):
        return "not tested, and policy has no test for it (preflight)"
    test = last_test(read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")))
    said = f"; {in_words(test)}" if test is not None else ""
    return f"not tested yet{said}"


def tests_that_go_on(api: Api) -> dict[str, RunObject]:
    """By node, the run that tests it now."""
    latest = {node: runs[-1] for node, runs in HealthView(api.mirror, api.cluster).tests().items()}
    return {node: run for node, run in latest.items() if run.status is None or not run.status.phase.is_final}


def trial_of(node: Node, policy: Policy, going_on: Mapping[str, RunObject]) -> NodeTest | None:
    """The test that goes on or is to come; else the last one. None where there was none."""
    annotations = node.metadata.annotations
    wanted_by = annotations.get(names.ANNOTATION_TEST_WANTED, "")
    run = going_on.get(node.metadata.name)
    if run is not None:
        meta, status = run.metadata, run.status
        says = (status.message or status.phase.value) if status is not None else Phase.QUEUED.value
        return NodeTest(state="testing", run=meta.name, namespace=meta.namespace, by=wanted_by, says=says)
    if wanted_by:
        return NodeTest(state="asked", by=wanted_by)
    found = last_test(read_trail(annotations.get(names.ANNOTATION_HEALTH, "")))
    if found is None:
        return None
    return NodeTest(
        state=_RESULTS.get(found.what, "passed"),
        at=found.at,
        run=found.run,
        namespace=policy.preflight.namespace,
        by=found.by,
        says=found.evidence[0] if found.evidence else "",
    )


async def ask_for_test(api: Api, user: User, name: str, node: Node) -> Node:
    """Notes on the Node that somebody wants it tested; the controller does it. Answers the Node as it is then."""
    preflight = api.cluster.policy.preflight
    if not preflight.covers(node.metadata.labels):
        labels = ", ".join(f"{key}={value}" for key, value in preflight.nodes.items())
        lacks = "names no image for tests" if preflight.image is None else f"tests only nodes with {labels}"
        raise WrongState(f"{name} can't be tested: policy {lacks}", hint="ask the operators to change preflight in it")
    if not node.is_ready or node.spec.unschedulable:
        how = "not ready" if not node.is_ready else "cordoned"
        hint = f"kaji uncordon {name}" if node.is_ready else "wait until its kubelet answers"
        raise WrongState(f"{name} can't be tested: it is {how}", hint=hint)
    patch = {"metadata": {"annotations": {names.ANNOTATION_TEST_WANTED: user.name}}}
    return msgspec.convert(await user.client.patch(NODES, name, patch), Node)


async def take_back(api: Api, user: User, name: str) -> Node:
    """Takes our marks off a Node, whatever they say, and notes who did it. Answers the Node as it is then."""
    for _ in range(TRIES):
        found = await user.client.get(NODES, name)
        patch = _patch_back(found, api.cluster.policy, user, api)
        if patch is None:
            return msgspec.convert(found, Node)
        try:
            return msgspec.convert(await user.client.patch(NODES, name, patch), Node)
        except Conflict:
            continue  # somebody else wrote it between the two: read anew
    raise Conflict(f"node {name} is being changed by others all the time", hint="try again")


def _patch_back(found: dict[str, Any], policy: Policy, user: User, api: Api) -> dict[str, Any] | None:
    node = msgspec.convert(found, Node)
    ours = {names.TAINT_UNHEALTHY, policy.preflight.taint}
    taints = found["spec"].get("taints") or []
    if not any(taint["key"] in ours for taint in taints):
        return None
    said = entry(api.mirror.now(), What.BACK, BY_HAND, by=user.name)
    trail = added(read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")), said)
    annotations: dict[str, str | None] = {names.ANNOTATION_HEALTH: write_trail(trail)}
    spec: dict[str, Any] = {"taints": [taint for taint in taints if taint["key"] not in ours] or None}
    if node.drained_by.startswith(DRAINED_BY):
        annotations[names.ANNOTATION_DRAIN] = None
        spec["unschedulable"] = None
    version = found["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": spec}
