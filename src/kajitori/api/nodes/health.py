"""The health of nodes, as it is shown and as people change it: what is written on a Node is written as the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import Field, model_validator

from kajitori.api.auth import User
from kajitori.api.context import Api
from kajitori.api.nodes.views import HealthEntry, NodeTest
from kajitori.core.documents.faults import Document, show
from kajitori.core.documents.fields import Text
from kajitori.core.nodes.health import BY_HAND, DRAINED_BY
from kajitori.core.nodes.trail import (
    TrailEvent,
    append_entry,
    describe_entry,
    last_removal,
    last_test,
    new_entry,
    read_trail,
    write_trail,
)
from kajitori.core.policy.file import Policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.words import names
from kajitori.core.words.suggestions import did_you_mean
from kajitori.errors import Conflict, Fault, FieldError, InvalidInput, NotFound
from kajitori.kube.objects import Node, RunObject
from kajitori.kube.resources import NODES

TRIES = 5
"""Of a change of a Node that somebody else changes at the same time: kubelets write theirs all the time."""

_SHOWN = 5
"""Of names that are none."""

_RESULTS = {TrailEvent.UNTESTED: "untested", TrailEvent.FAILED: "failed", TrailEvent.OUT: "failed"}


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
            says=describe_entry(each),
        )
        for each in read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, ""))
    ]


def why_out(node: Node, policy: Policy) -> str:
    """Why a node is out of the pool; empty where it is in it."""
    taints = {taint.key: taint.value for taint in node.spec.taints}
    if names.TAINT_UNHEALTHY in taints:
        left = last_removal(read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")))
        if left is None:
            return f"unhealthy: {taints[names.TAINT_UNHEALTHY] or 'marked by hand'}"
        said = f": {left.evidence[0]}" if left.evidence else ""
        return f"unhealthy: {left.reason}{said}"
    if policy.preflight.taint not in taints:
        return ""
    if not policy.preflight.covers(node.metadata.labels):
        return "not tested, and policy has no test for it (preflight)"
    test = last_test(read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")))
    said = f"; {describe_entry(test)}" if test is not None else ""
    return f"not tested yet{said}"


def tests_that_go_on(api: Api) -> dict[str, RunObject]:
    """By node, the run that tests it now."""
    latest = {node: runs[-1] for node, runs in api.health.tests().items()}
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


class TestRequest(Document):
    """Which nodes to test."""

    __test__ = False  # nothing for pytest

    nodes: list[Text] = Field(default_factory=list, max_length=100_000)
    """Their names."""
    every: bool = Field(default=False, alias="all")
    """All that policy has a test for and that can be tested now."""

    @model_validator(mode="after")
    def _one_of_both(self) -> TestRequest:
        if bool(self.nodes) == self.every:
            raise FieldError("say which nodes", "give nodes, or all: true")
        return self


def can_be_tested(api: Api, name: str) -> bool:
    """Whether policy has a test for a node, and the node could take one."""
    node = api.mirror.nodes.get(name)
    return node is not None and not _why_not_tested(node, api.cluster.policy)


def check_testable(api: Api, chosen: Sequence[str], known: Collection[str]) -> None:
    """Raises NotFound for those that are no nodes, else InvalidInput for all that can't be tested."""
    unknown = [name for name in chosen if name not in known or name not in api.mirror.nodes]
    if unknown:
        shown = ", ".join(repr(show(name)) for name in unknown[:_SHOWN])
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        said = "there is no node" if len(unknown) == 1 else "there are no nodes"
        raise NotFound(f"{said} {shown}{more}", hint=did_you_mean(unknown[0], known))
    check_there_is_a_test(api)
    policy = api.cluster.policy
    faults = [
        Fault("", f"{name} can't be tested: {why[0]}", hint=why[1])
        for name in chosen
        if (why := _why_not_tested(api.mirror.nodes[name], policy))
    ]
    if faults:
        raise InvalidInput(faults)


def check_there_is_a_test(api: Api) -> None:
    """Raises InvalidInput if policy has no test for nodes; it names the field to set."""
    if api.cluster.policy.preflight.image is None:
        where = api.policy.current().path or "the policy"
        hint = (
            f"add to {where}: preflight: {{image: REGISTRY/IMAGE, command: [PROGRAM]}}; examples/preflight has a test"
        )
        raise InvalidInput.one(
            "preflight.image", "policy names no image for tests, so no node can be tested", hint=hint
        )


def _why_not_tested(node: Node, policy: Policy) -> tuple[str, str] | None:
    """Why a node can't be tested, and the way out; None where it can."""
    preflight, name = policy.preflight, node.metadata.name
    if not preflight.covers(node.metadata.labels):
        labels = ", ".join(f"{key}={value}" for key, value in preflight.nodes.items())
        return f"policy tests only nodes with {labels}", "change preflight.nodes in the policy"
    if not node.is_ready:
        return "it is not ready", "wait until its kubelet answers"
    if node.spec.unschedulable:
        return "it is cordoned", f"kaji uncordon {name}"
    return None


async def ask_for_tests(user: User, chosen: Sequence[str]) -> list[str]:
    """Notes on Nodes that somebody wants them tested; the controller does it. Answers those that are still there."""
    patch = {"metadata": {"annotations": {names.ANNOTATION_TEST_WANTED: user.name}}}
    asked = (user.client.patch(NODES, name, patch) for name in chosen)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for each in answers:
        if isinstance(each, BaseException) and not isinstance(each, NotFound):
            raise each
    return [name for name, each in zip(chosen, answers, strict=True) if not isinstance(each, NotFound)]


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
    said = new_entry(api.mirror.now(), TrailEvent.BACK, BY_HAND, by=user.name)
    trail = append_entry(read_trail(node.metadata.annotations.get(names.ANNOTATION_HEALTH, "")), said)
    annotations: dict[str, str | None] = {names.ANNOTATION_HEALTH: write_trail(trail)}
    spec: dict[str, Any] = {"taints": [taint for taint in taints if taint["key"] not in ours] or None}
    if node.drained_by.startswith(DRAINED_BY):
        annotations[names.ANNOTATION_DRAIN] = None
        spec["unschedulable"] = None
    version = found["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version, "annotations": annotations}, "spec": spec}
