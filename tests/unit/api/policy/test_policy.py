"""The policy in force, and others that are checked."""

from __future__ import annotations

from tests.unit.api.conftest import World
from tests.unit.api.steps import get


async def test_the_policy_is_shown_and_another_one_can_be_checked(world: World) -> None:
    current = await get(world, "/v1/policy")
    assert current["version"] == 1
    assert (current["faults"], current["findings"]) == ([], [])
    assert current["policy"]["defaults"]["restarts"] == 3
    good = await world.http.post("/v1/policy/check", content=b"defaults: {restarts: 7}")
    assert good.json()["policy"]["defaults"]["restarts"] == 7
    bad = await world.http.post("/v1/policy/check", content=b"defaults: {restarts: -1}\nceilngs: {}\n")
    assert bad.status_code == 422
    assert len(bad.json()["faults"]) == 2
    assert any("line 2" in fault["field"] for fault in bad.json()["faults"])


async def test_objects_that_the_caller_may_not_read_are_notes(world: World) -> None:
    """The lookup uses the caller's rights: what they do not show is neither there nor missing."""
    world.kubernetes.denied.add(("ada", "get", "secrets", "team"))
    policy = b"{checkpoint: {kind: none}, images: {pullSecrets: [registry]}, network: {enforced: false}}"
    for user, is_readable in (("ada", False), ("bob", True)):
        headers = {"Authorization": f"Bearer {user}"}
        answer = (await world.http.post("/v1/policy/cluster", content=policy, headers=headers)).json()
        assert ("images.pullSecrets[0]" in {fault["field"] for fault in answer["faults"]}) is is_readable
        assert (
            bool([note for note in answer["notes"] if "images.pullSecrets[0] is not checked" in note])
            is not is_readable
        )
