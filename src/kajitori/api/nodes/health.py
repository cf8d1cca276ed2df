"""Views of node health, and the changes that users can make to it. Nodes are written with the caller's credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic import Field, model_validator

from kajitori.api.context import Api
from kajitori.api.rendering.nodes import drains_of, trail_of
from kajitori.api.rights import User
from kajitori.api.views.nodes import HealthEntry, NodeTest
from kajitori.cluster.objects import Node
from kajitori.cluster.run_object import RunObject
from kajitori.core.documents.faults import Document, show
from kajitori.core.documents.fields import Text
from kajitori.core.naming import names
from kajitori.core.nodes.health import BY_HAND, DRAINED_BY
from kajitori.core.nodes.trail import (
    TrailEvent,
    append_entry,
    describe_entry,
    last_test,
    new_entry,
    write_trail,
)
from kajitori.core.policy.file import Policy
from kajitori.core.spec.reasons import Phase
from kajitori.core.suggestions import did_you_mean, first_few
from kajitori.errors import Conflict, Fault, FieldError, InvalidInput, NotFound
from kajitori.kube.resources import NODES

TRIES = 5
"""Attempts to write a Node. A write conflicts if another client writes first; kubelets write Nodes all the time."""

_RESULTS = {TrailEvent.UNTESTED: "untested", TrailEvent.FAILED: "failed", TrailEvent.OUT: "failed"}


def health_of(node: Node) -> list[HealthEntry]:
    """Return the health history of a node with its drains by users, the oldest entry first."""
    entries = (*trail_of(node), *drains_of(node))
    return [
        HealthEntry(
            at=entry.at,
            what=entry.what.value,
            reason=entry.reason,
            by=entry.by,
            evidence=list(entry.evidence),
            run=entry.run,
            times=entry.times,
            says=describe_entry(entry),
        )
        for entry in sorted(entries, key=lambda entry: entry.time or datetime.max.replace(tzinfo=UTC))
    ]


def running_tests(api: Api) -> dict[str, RunObject]:
    """Return, by node, the run that tests the node now."""
    latest = {node: runs[-1] for node, runs in api.health.tests().items()}
    return {node: run for node, run in latest.items() if run.status is None or not run.status.phase.is_final}


def test_of(node: Node, policy: Policy, running: Mapping[str, RunObject]) -> NodeTest | None:
    """Return the running or requested test of a node, else its last one. None if the node was never tested."""
    annotations = node.metadata.annotations
    wanted_by = annotations.get(names.ANNOTATION_TEST_WANTED, "")
    run = running.get(node.metadata.name)
    if run is not None:
        meta, status = run.metadata, run.status
        says = (status.message or status.phase.value) if status is not None else Phase.QUEUED.value
        return NodeTest(state="testing", run=meta.name, namespace=meta.namespace, by=wanted_by, says=says)
    if wanted_by:
        return NodeTest(state="asked", by=wanted_by)
    entry = last_test(trail_of(node))
    if entry is None:
        return None
    return NodeTest(
        state=_RESULTS.get(entry.what, "passed"),
        at=entry.at,
        run=entry.run,
        namespace=policy.preflight.namespace,
        by=entry.by,
        says=entry.evidence[0] if entry.evidence else "",
    )


class TestRequest(Document):
    """A request to test nodes."""

    __test__ = False  # otherwise pytest takes this for a test class

    nodes: list[Text] = Field(default_factory=list, max_length=100_000)
    """Names of the nodes."""
    every: bool = Field(default=False, alias="all")
    """Test all nodes that the policy has a test for and that can be tested now."""

    @model_validator(mode="after")
    def _one_of_both(self) -> TestRequest:
        if bool(self.nodes) == self.every:
            raise FieldError("say which nodes", "give nodes, or all: true")
        return self


def can_be_tested(api: Api, name: str) -> bool:
    """Whether the policy has a test for a node, and the node can run it now."""
    node = api.mirror.nodes.get(name)
    return node is not None and not _why_not_tested(node, api.cluster.policy)


def check_testable(api: Api, chosen: Sequence[str], known: Collection[str]) -> None:
    """Raise NotFound if some names belong to no node, else InvalidInput with all nodes that can't be tested."""
    unknown = [name for name in chosen if name not in known or name not in api.mirror.nodes]
    if unknown:
        shown = first_few([repr(show(name)) for name in unknown])
        message = "there is no node" if len(unknown) == 1 else "there are no nodes"
        raise NotFound(f"{message} {shown}", hint=did_you_mean(unknown[0], known))
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
    """Raise InvalidInput, which names the field to set, if the policy has no test for nodes."""
    if api.cluster.policy.preflight.image is None:
        where = api.policy.current().path or "the policy"
        hint = (
            f"add to {where}: preflight: {{image: REGISTRY/IMAGE, command: [PROGRAM]}}; examples/preflight has a test"
        )
        raise InvalidInput.one(
            "preflight.image", "policy names no image for tests, so no node can be tested", hint=hint
        )


def _why_not_tested(node: Node, policy: Policy) -> tuple[str, str] | None:
    """Return why a node can't be tested and what to do about it; None if it can be tested."""
    preflight, name = policy.preflight, node.metadata.name
    if not preflight.covers(node.metadata.labels):
        labels = ", ".join(f"{key}={value}" for key, value in preflight.nodes.items())
        return f"policy tests only nodes with {labels}", "change preflight.nodes in the policy"
    if not node.is_ready:
        return "it is not ready", "wait until its kubelet answers"
    if node.spec.unschedulable:
        return "it is cordoned", f"kaji uncordon {name}"
    return None


async def request_tests(user: User, chosen: Sequence[str]) -> list[str]:
    """Annotate Nodes so that the controller tests them. Return the names of the Nodes that still exist."""
    patch = {"metadata": {"annotations": {names.ANNOTATION_TEST_WANTED: user.name}}}
    patches = (user.client.patch(NODES, name, patch) for name in chosen)
    answers = await asyncio.gather(*patches, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, NotFound):
            raise answer
    return [name for name, answer in zip(chosen, answers, strict=True) if not isinstance(answer, NotFound)]


async def mark_healthy(api: Api, user: User, name: str) -> Node:
    """Remove Kajitori's taints from a Node, for whatever reason it has them, and record the user in its history."""
    policy, now = api.cluster.policy, api.mirror.now()
    return await change_node(user, name, lambda node, found: _healthy_patch(node, found, policy, user, now))


async def change_node(user: User, name: str, patch_of: Callable[[Node, dict[str, Any]], dict[str, Any] | None]) -> Node:
    """Patch a Node, unless `patch_of` returns None, and return it. `patch_of` gets its present state: ours, and all of
    it.

    Raises Conflict if other clients win all of `TRIES` attempts.
    """
    for _ in range(TRIES):
        document = await user.client.get(NODES, name)
        node = msgspec.convert(document, Node)
        patch = patch_of(node, document)
        if patch is None:
            return node
        patch["metadata"]["resourceVersion"] = document["metadata"]["resourceVersion"]
        try:
            return msgspec.convert(await user.client.patch(NODES, name, patch), Node)
        except Conflict:
            continue  # another client wrote the Node after we read it
    raise Conflict(f"other clients keep changing node {name}", hint="try again")


def _healthy_patch(
    node: Node, document: dict[str, Any], policy: Policy, user: User, now: datetime
) -> dict[str, Any] | None:
    ours = {names.TAINT_UNHEALTHY, policy.preflight.taint}
    taints = document["spec"].get("taints") or []
    if not any(taint["key"] in ours for taint in taints):
        return None
    entry = new_entry(now, TrailEvent.BACK, BY_HAND, by=user.name)
    trail = append_entry(trail_of(node), entry)
    annotations: dict[str, str | None] = {names.ANNOTATION_HEALTH: write_trail(trail)}
    spec: dict[str, Any] = {"taints": [taint for taint in taints if taint["key"] not in ours] or None}
    if node.drained_by.startswith(DRAINED_BY):
        annotations[names.ANNOTATION_DRAIN] = None
        spec["unschedulable"] = None
    return {"metadata": {"annotations": annotations}, "spec": spec}
