"""Everybody's Pods beside the policy's rules: the audit, and whether the rules are in force."""

from __future__ import annotations

from typing import Any

from tests.unit.api.conftest import World

from kajitori.core.admission.enforced import enforced_policies
from kajitori.core.admission.plain_pods.rules import Circumstances
from kajitori.core.policy.file import parse_policy

RULES = {"pods": {"namespaces": ["team"]}, "memoryWithoutLimit": "refuse", "nodePools": {}}


def pod(name: str, *, owner: tuple[str, str] | None = None, **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "team"}
    if owner is not None:
        metadata["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "uid": "u", "controller": True}]
        metadata["labels"] = {"pod-template-hash": "5d4f"}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "web:1"}]}, "status": {}} | more


async def audit(world: World, **params: str) -> dict[str, Any]:
    answer = await world.http.get("/v1/policy/pods", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_pods_that_break_rules_are_listed_by_owner(world: World) -> None:
    world.api.policy.complete(lambda _: parse_policy(RULES))
    world.kubernetes.put("namespaces", {"metadata": {"name": "team"}})
    for name in ("web-5d4f-a", "web-5d4f-b"):
        world.kubernetes.put("pods", pod(name, owner=("ReplicaSet", "web-5d4f")))
    world.kubernetes.put("pods", pod("alone"))
    world.kubernetes.put("pods", pod("over", status={"phase": "Succeeded"}))
    world.kubernetes.put("pods", pod("static", owner=("Node", "n1")))
    found = await audit(world)
    assert (found["namespaces"], found["pods"], found["brokenPods"]) == (["team"], 5, 3)
    assert [(item["owner"], item["pods"], item["rule"]) for item in found["items"]] == [
        ("Deployment web", 2, "memoryLimit"),
        ("Pod alone", 1, "memoryLimit"),
    ]
    assert found["items"][0]["examples"] == ["web-5d4f-a", "web-5d4f-b"]
    assert (await audit(world, namespace="elsewhere"))["namespaces"] == []


async def test_without_rules_no_pod_is_read(world: World) -> None:
    assert (await audit(world))["namespaces"] == []
    assert not [path for _, path, _ in world.kubernetes.requests if path.endswith("/namespaces/team/pods")]


async def test_rules_that_are_not_in_force_are_a_finding(world: World) -> None:
    """Whatever the policy wants the API server to enforce."""

    async def findings() -> list[str]:
        found: list[str] = (await world.http.get("/v1/policy")).json()["findings"]
        return [text for text in found if "does not enforce" in text]

    world.api.policy.complete(lambda _: parse_policy(RULES))
    assert "kajitori-pods, kajitori-pod-templates, kajitori-cron-jobs is missing" in (await findings())[0]
    for body in enforced_policies(parse_policy(RULES), Circumstances(is_completed=True)):
        if body["kind"] == "ValidatingAdmissionPolicy":
            world.kubernetes.put("validatingadmissionpolicies", body)
    assert await findings() == []
    rules = RULES | {"security": {"runChanges": "owner"}}
    world.api.policy.complete(lambda _: parse_policy(rules))
    assert "because kajitori-run-changes is missing" in (await findings())[0]
