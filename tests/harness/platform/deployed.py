"""Contents of the manifests under deploy/, and the rights that they give to each part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kajitori.core.naming import names
from kajitori.kube.client import KubeClient
from kajitori.kube.requests import PatchKind
from kajitori.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, Resource

DEPLOY = Path(__file__).parents[3] / "deploy"
BINDINGS = ("ClusterRoleBinding", "RoleBinding")
CONTROLLER = "kajitori-controller"
"""The service account of deploy/controller.yaml."""
_GROUP = "rbac.authorization.k8s.io"
_KINDS = {
    resource.kind: resource
    for resource in (
        NAMESPACES,
        CLUSTER_ROLES,
        CLUSTER_ROLE_BINDINGS,
        Resource(_GROUP, "v1", "roles", "Role"),
        Resource(_GROUP, "v1", "rolebindings", "RoleBinding"),
    )
}

Right = tuple[str, str, str, str]
"""API group, resource, verb, and the name of the only object if the permission is for one object."""


def manifest(name: str) -> list[dict[str, Any]]:
    """Return the documents of a file under deploy/."""
    return [document for document in yaml.safe_load_all((DEPLOY / name).read_text()) if document]


def bindings(name: str) -> list[dict[str, Any]]:
    """Return the role bindings in a file under deploy/."""
    return [document for document in manifest(name) if document["kind"] in BINDINGS]


def roles() -> dict[tuple[str, str], dict[str, Any]]:
    """Return every role by kind and name."""
    return {
        (role["kind"], role["metadata"]["name"]): role
        for role in manifest("rbac.yaml")
        if role["kind"] in ("ClusterRole", "Role")
    }


def rights(name: str) -> set[Right]:
    """Return the rights of the service account in a file under deploy/."""
    known = roles()
    return {
        (group, resource, verb, object_name)
        for binding in bindings(name)
        for rule in known[binding["roleRef"]["kind"], binding["roleRef"]["name"]]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for object_name in rule.get("resourceNames", [""])
    }


async def grant_controller(client: KubeClient, user: str) -> None:
    """Give a user the rights of the controller, and the optional right to ask kubelets, but no others."""
    known, bound = roles(), bindings("controller.yaml")
    kubelets = f"{CONTROLLER}-kubelets"
    bound.append(bound[0] | {"metadata": {"name": kubelets}, "roleRef": bound[0]["roleRef"] | {"name": kubelets}})
    for namespace in (names.NAMESPACE, names.messages_namespace()):
        await _apply(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for binding in bound:
        await _apply(client, known[binding["roleRef"]["kind"], binding["roleRef"]["name"]])
        await _apply(client, binding | {"subjects": [_user(user)]})


async def grant_tests(client: KubeClient, user: str, namespace: str) -> None:
    """Give the controller the rights to test nodes in another namespace: those in the last rule of its Role in
    rbac.yaml."""
    role = roles()["Role", "kajitori-leader"]
    meta = {"name": "kajitori-tests", "namespace": namespace}
    ref = {"apiGroup": _GROUP, "kind": "Role", "name": meta["name"]}
    await _apply(client, role | {"metadata": meta, "rules": role["rules"][-1:]})
    binding = {"apiVersion": f"{_GROUP}/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": ref}
    await _apply(client, binding | {"subjects": [_user(user)]})


def _user(name: str) -> dict[str, str]:
    return {"apiGroup": _GROUP, "kind": "User", "name": name}


async def _apply(client: KubeClient, document: Mapping[str, Any]) -> None:
    name, namespace = document["metadata"]["name"], document["metadata"].get("namespace")
    kind, apply = _KINDS[document["kind"]], PatchKind.APPLY
    await client.patch(kind, name, document, namespace, kind=apply, field_manager="test", force=True)
