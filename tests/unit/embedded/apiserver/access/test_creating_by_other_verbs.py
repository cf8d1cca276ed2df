"""A right to update or patch is no right to create, although an apply and some updates create objects."""

from __future__ import annotations

from typing import Any

from tests.harness.servers.embedded_server import EmbeddedServer, embedded_server

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
APPLY = "application/apply-patch+yaml"


async def grant(server: EmbeddedServer, verbs: list[str]) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"verbs": verbs, "apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"]}
    metadata = {"name": "-".join(verbs)}
    await server.call("POST", f"{roles}/roles", {"metadata": metadata, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", **metadata}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ana"}
    made = await server.call(
        "POST", f"{roles}/rolebindings", {"metadata": metadata, "roleRef": reference, "subjects": [subject]}
    )
    assert made.code == 201, made.body


async def test_whoever_creates_by_apply_or_update_needs_the_right_to_create() -> None:
    async with embedded_server(users=["ana"], roles=True, controllers=False) as server:
        as_ana = {"Authorization": f"Bearer {server.tokens['ana']}"}

        async def apply(**data: str) -> Any:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes"}, "data": data}
            path = f"{MAPS}/notes?fieldManager=ana"
            return await server.call("PATCH", path, body, content_type=APPLY, headers=as_ana)

        async def put_lease() -> Any:
            body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "turn"}}
            return await server.call("PUT", f"{LEASES}/turn", body, headers=as_ana)

        await grant(server, ["get", "update", "patch"])
        for refused, plural in ((await apply(a="1"), "configmaps"), (await put_lease(), "leases")):
            assert refused.code == 403
            assert f'User "ana" cannot create resource "{plural}"' in refused.body["message"]
        await grant(server, ["create"])
        assert [(await apply(a="1")).code, (await apply(a="2")).code, (await put_lease()).code] == [201, 200, 201]
