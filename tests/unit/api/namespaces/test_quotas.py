"""The quotas of a namespace over the Web API."""

from __future__ import annotations

from tests.unit.api.conftest import World


async def test_quotas_are_listed_with_their_use(world: World) -> None:
    """Those of other namespaces are not, and a caller without the right is told so."""
    hard, used = {"requests.nvidia.com/gpu": "16", "limits.memory": "10Gi"}, {"requests.nvidia.com/gpu": "12"}
    spec = {"hard": hard, "scopes": ["NotTerminating"]}
    for namespace in ("team", "other"):
        meta = {"name": "gpus", "namespace": namespace}
        world.kubernetes.put("resourcequotas", {"metadata": meta, "spec": spec, "status": {"hard": hard, "used": used}})
    found = (await world.http.get("/v1/quotas", params={"namespace": "team"})).json()
    assert [(each["resource"], each["used"], each["limit"], each["left"], each["part"]) for each in found["items"]] == [
        ("limits.memory", "0", "10Gi", "10Gi", 0.0),
        ("requests.nvidia.com/gpu", "12", "16", "4", 0.75),
    ]
    assert (found["note"], {each["limitedTo"] for each in found["items"]}) == ("", {"NotTerminating"})
    world.kubernetes.denied.add(("ada", "list", "resourcequotas", "team"))
    found = (await world.http.get("/v1/quotas", params={"namespace": "team"})).json()
    assert (found["items"], found["note"]) == ([], "ada may not list quotas in namespace team")
