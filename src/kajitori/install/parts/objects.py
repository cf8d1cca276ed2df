"""Building blocks of the rendered objects: metadata, rules, bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from kajitori.core.naming.names import LABEL_MANAGED_BY, MANAGED_BY

Object = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"
AGGREGATE_TO = "rbac.kajitori.dev/aggregate-to-"
"""Prefix of the labels by which Kubernetes aggregates the roles of people."""


class Identity(NamedTuple):
    """The identity of an object in a cluster, independent of the version of its API."""

    group: str
    kind: str
    namespace: str
    name: str


def identity(document: Mapping[str, Any]) -> Identity:
    """Return the identity of an object."""
    group = str(document["apiVersion"]).rpartition("/")[0]
    meta = document["metadata"]
    return Identity(group, document["kind"], meta.get("namespace", ""), meta["name"])


def made(api_version: str, kind: str, name: str, namespace: str = "", /, **fields: Any) -> Object:
    """Return an object of ours."""
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {LABEL_MANAGED_BY: MANAGED_BY}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def rule(group: str, resources: str, verbs: str, *, only: Sequence[str] = ()) -> Object:
    """Return a rule of a role. Resources and verbs are separated by blanks; `only` restricts it to objects by name."""
    found: Object = {"apiGroups": [group], "resources": resources.split()}
    if only:
        found["resourceNames"] = list(only)
    return {**found, "verbs": verbs.split()}


def cluster_role(name: str, rules: Iterable[Object], parts_of: str = "") -> Object:
    """Return a ClusterRole. `parts_of`: the roles of people that contain it, separated by blanks."""
    found = made(f"{RBAC}/v1", "ClusterRole", name, rules=list(rules))
    found["metadata"]["labels"] |= {AGGREGATE_TO + one: "true" for one in parts_of.split()}
    return found


def aggregated_role(name: str, part: str) -> Object:
    """Return the ClusterRole that aggregates the roles with the label of `part`."""
    selectors = [{"matchLabels": {AGGREGATE_TO + part: "true"}}]
    return made(f"{RBAC}/v1", "ClusterRole", name, aggregationRule={"clusterRoleSelectors": selectors})


def role(name: str, namespace: str, rules: Iterable[Object]) -> Object:
    return made(f"{RBAC}/v1", "Role", name, namespace, rules=list(rules))


def account(name: str, namespace: str, **fields: Any) -> Object:
    return made("v1", "ServiceAccount", name, namespace, **fields)


def bound(to: str, kind: str, role_name: str, account_name: str, account_namespace: str, namespace: str = "") -> Object:
    """Return the binding, with the name `to`, of a role to a service account. With a namespace it is a RoleBinding."""
    reference = {"apiGroup": RBAC, "kind": kind, "name": role_name}
    subjects = [{"kind": "ServiceAccount", "name": account_name, "namespace": account_namespace}]
    binding = "RoleBinding" if namespace else "ClusterRoleBinding"
    return made(f"{RBAC}/v1", binding, to, namespace, roleRef=reference, subjects=subjects)


class _Dumper(yaml.SafeDumper):
    """Plain YAML for people: no references between parts, texts of several lines as such."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def as_yaml(objects: Iterable[Mapping[str, Any] | Sequence[Any]]) -> str:
    """Return objects as YAML documents."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
