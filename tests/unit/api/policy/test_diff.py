"""The effects of a new policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import run

from kajitori.cluster.mirror.mirror import Callback
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import parse_policy


async def diff(world: World, policy: str, user: str = "ada") -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {user}"}
    answer = await world.http.post("/v1/policy/diff", content=policy.encode(), headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def waiting(world: World) -> None:
    """Let three runs wait: two large ones, and a small one of another image."""
    for name, more in (("first", {"replicas": 900}), ("second", {"replicas": 901}), ("third", {"image": "evil:1"})):
        world.kubernetes.put("runs", run(name, owner="ada", **({"resources": {"gpu": 8}} | more)))
    await world.caught_up()


async def test_the_policy_in_force_changes_nothing(world: World) -> None:
    found = await diff(world, "{}")
    assert not [part for part in ("fields", "refused", "moved", "lacks", "pods") if found[part]]


async def test_changed_fields_are_named_with_both_values(world: World) -> None:
    found = await diff(world, "queue: {order: fifo}\npods: {namespaces: [team], reasons: {root: ask ops}}")
    assert found["fields"] == [
        {"field": "pods.namespaces", "before": "[]", "after": "[team]"},
        {"field": "pods.reasons.root", "before": "", "after": "ask ops"},
        {"field": "queue.order", "before": "length", "after": "fifo"},
    ]


async def test_waiting_runs_that_it_refuses_are_named(world: World) -> None:
    """The reasons are shown to users who may read the run."""
    await waiting(world)
    policy = "{images: {deny: ['evil:*']}, nodesOnDemand: true}"
    found = await diff(world, policy)
    assert [(item["run"], item["owner"]) for item in found["refused"]] == [("team/third", "ada")]
    assert [fault["code"] for fault in found["refused"][0]["faults"]] == ["ImageRefused"]
    world.kubernetes.denied.add(("bob", "get", "runs", "team"))
    assert (await diff(world, policy, "bob"))["refused"][0]["faults"] == []


async def test_waiting_runs_that_change_places_are_named(world: World) -> None:
    for name, limit in (("long", "9h"), ("short", "1h")):
        world.kubernetes.put("runs", run(name, owner="ada", timeLimit=limit))
    await world.caught_up()
    assert (await diff(world, "{}"))["moved"] == []
    assert (await diff(world, "queue: {order: fifo}"))["moved"] == [
        {"run": "team/long", "owner": "ada", "before": 2, "after": 1},
        {"run": "team/short", "owner": "ada", "before": 1, "after": 2},
    ]


async def test_objects_that_only_the_new_policy_needs_are_named_if_missing(world: World) -> None:
    found = await diff(world, "checkpoint: {kind: claim, storageClass: fast}")
    assert [fault["field"] for fault in found["lacks"]] == ["checkpoint.storageClass"]


async def test_pods_that_only_the_new_policy_refuses_are_named(world: World) -> None:
    """A rule that they break already under the policy in force is not new."""
    world.kubernetes.put("namespaces", {"metadata": {"name": "team"}})
    body = {"metadata": {"name": "web", "namespace": "team"}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}
    world.kubernetes.put("pods", body | {"status": {}})
    new = "{pods: {namespaces: [team]}, images: {allow: ['python:*']}, memoryWithoutLimit: refuse}"
    broken = [(item["owner"], item["rule"]) for item in (await diff(world, new))["pods"]]
    assert broken == [("Pod web", "images"), ("Pod web", "memoryLimit")]
    in_force = parse_policy({"pods": {"namespaces": ["team"]}, "memoryWithoutLimit": "refuse"})
    world.change(policy=PolicyFile(None, without_file=in_force))
    assert [item["rule"] for item in (await diff(world, new))["pods"]] == ["images"]
    listed = [path for _, path, _ in world.kubernetes.requests if path.endswith("/namespaces/team/pods")]
    assert len(listed) == 2


async def test_comparing_leaves_no_follower_of_the_mirror_behind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    followers: list[Callback] = []
    follow = world.mirror.on_change

    def counted(callback: Callback) -> Callable[[], None]:
        followers.append(callback)
        unfollow = follow(callback)

        def end() -> None:
            followers.remove(callback)
            unfollow()

        return end

    await waiting(world)
    policy = "{images: {deny: ['evil:*']}, nodesOnDemand: true}"
    await diff(world, policy)  # the server's own view is complete after the first question
    monkeypatch.setattr(world.mirror, "on_change", counted)
    assert len((await diff(world, policy))["refused"]) == 1
    assert followers == []
