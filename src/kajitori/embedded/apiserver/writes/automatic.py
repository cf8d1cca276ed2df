"""Writes that follow from other writes: default ServiceAccounts, the use of quotas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kajitori.embedded.apiserver.addresses import CLUSTER_RANGE
from kajitori.embedded.apiserver.admission import quotas
from kajitori.embedded.apiserver.admission.admission import QUOTAS, SERVICE_ACCOUNTS, StoreView
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.policies import SYSTEM_PRIORITIES
from kajitori.kube import resources
from kajitori.kube.resources import Resource

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITY_TEXTS = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


@dataclass(frozen=True, slots=True)
class Change:
    """An object to store as it is, with uid and creation time: created if it does not exist; or a part of it to
    replace."""

    kind: Kind
    object: Object
    part: str = ""
    """"status", "data": replace that part of the stored object; "": create it, and do nothing if it exists."""


def may_follow(kind: Kind, namespace: str, view: StoreView) -> bool:
    """Return whether anything may follow from a change of an object of this kind. If not, the object need not be
    decoded."""
    if kind.stored in (resources.NAMESPACES, SERVICE_ACCOUNTS, QUOTAS):
        return True
    return quotas.is_counted(kind) and any(True for _ in view.list(QUOTAS, namespace))


def follow_ups(
    registry: KindRegistry, kind: Kind, old: Object | None, new: Object | None, view: StoreView
) -> list[Change]:
    """Return the writes that follow from a change of `old` to `new` (None if it did not exist, or was deleted).

    It is called when the change is in `view`, and is cheap if nothing follows.
    """
    stored = kind.stored
    if stored == resources.NAMESPACES:
        if new is None or new["metadata"].get("deletionTimestamp"):
            return []
        return _default_account(registry, new["metadata"]["name"], view)
    if stored == SERVICE_ACCOUNTS and new is None and old is not None:
        # A namespace always has its default ServiceAccount, unless the namespace is being deleted.
        namespace = view.get(resources.NAMESPACES, "", old["metadata"]["namespace"])
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return []
        return _default_account(registry, namespace["metadata"]["name"], view)
    some = new or old
    if some is None or not quotas.is_counted(kind):
        return []
    if stored == QUOTAS and new is None:
        quotas.forget(some)
    if stored == QUOTAS and new is not None and (old is None or old.get("spec") != new.get("spec")):
        quotas.forget(new)
        return _quota_changes(registry, [new], view)
    found = [one for one in view.list(QUOTAS, some["metadata"]["namespace"]) if _counts_for(one, stored, some)]
    changes = []
    for quota in found:
        known = quotas.cached_usage(quota)
        if known is None:
            changes += _quota_changes(registry, [quota], view)
        else:
            changes += _quota_change(registry, quota, quotas.changed(quota, known, stored, old, new))
    return changes


def at_start(registry: KindRegistry, view: StoreView, client_ca: str) -> list[Change]:
    """Return the writes before the first request: objects that every cluster has, and follow-ups that were lost when
    the process was killed. These are system namespaces, their ServiceAccounts, system priority classes, the
    `kubernetes` Service, the use of quotas, and the ConfigMap that names the CA of client certificates."""
    missing = [name for name in SYSTEM_NAMESPACES if view.get(resources.NAMESPACES, "", name) is None]
    changes = [_create(registry, resources.NAMESPACES, {"metadata": {"name": name}}) for name in missing]
    for name, value in SYSTEM_PRIORITIES.items():
        if view.get(resources.PRIORITY_CLASSES, "", name) is None:
            body: Object = {"metadata": {"name": name}, "value": value, "description": _PRIORITY_TEXTS[name]}
            changes.append(_create(registry, resources.PRIORITY_CLASSES, body))
    changes += _authentication_config(registry, view, client_ca)
    if view.get(resources.SERVICES, "default", "kubernetes") is None:
        changes.append(_create(registry, resources.SERVICES, _kubernetes_service()))
    going = {
        one["metadata"]["name"]: bool(one["metadata"].get("deletionTimestamp"))
        for one in view.list(resources.NAMESPACES)
    }
    for namespace in sorted({*SYSTEM_NAMESPACES, *going}):
        if not going.get(namespace):
            changes += _default_account(registry, namespace, view)
    return changes + _quota_changes(registry, list(view.list(QUOTAS)), view)


def missing(registry: KindRegistry, wanted: Iterable[tuple[Resource, Object]]) -> list[Change]:
    """Return the writes that create objects; those that exist stay as they are."""
    return [_create(registry, resource, body) for resource, body in wanted]


def _create(registry: KindRegistry, resource: Resource, body: Object) -> Change:
    kind = registry.find(resource.group, resource.version, resource.plural)
    assert kind is not None, resource
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    kind.strategy.default(obj)
    kind.strategy.prepare_create(obj)
    return Change(kind, obj)


def _default_account(registry: KindRegistry, namespace: str, view: StoreView) -> list[Change]:
    if view.get(SERVICE_ACCOUNTS, namespace, "default") is not None:
        return []
    body: Object = {"metadata": {"name": "default", "namespace": namespace}}
    return [_create(registry, SERVICE_ACCOUNTS, body)]


def _authentication_config(registry: KindRegistry, view: StoreView, client_ca: str) -> list[Change]:
    name, namespace, data = "extension-apiserver-authentication", "kube-system", {"client-ca-file": client_ca}
    there = view.get(resources.CONFIG_MAPS, namespace, name)
    body: Object = {"metadata": {"name": name, "namespace": namespace}, "data": data}
    made = _create(registry, resources.CONFIG_MAPS, body)
    if there is None:
        return [made]
    return [] if there.get("data") == data else [Change(made.kind, made.object, "data")]


def _kubernetes_service() -> Object:
    address = str(CLUSTER_RANGE[1])
    return {
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": address,
            "clusterIPs": [address],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }


def _counts_for(quota: Object, stored: Resource, obj: Object) -> bool:
    return quotas.concerns(quota, quotas.usage(stored, {**obj, "status": {}}))


def _quota_changes(registry: KindRegistry, found: list[Object], view: StoreView) -> list[Change]:
    """Recount the use of some quotas, and return the quotas with an outdated status."""
    return [one for quota in found for one in _quota_change(registry, quota, _measured_use(registry, quota, view))]


def _quota_change(registry: KindRegistry, quota: Object, used: quotas.Usage) -> list[Change]:
    kind = registry.find(QUOTAS.group, QUOTAS.version, QUOTAS.plural)
    assert kind is not None
    quotas.cache_usage(quota, used)
    status = quotas.status_of(quota, used)
    return [] if quota.get("status") == status else [Change(kind, {**quota, "status": status}, "status")]


def _measured_use(registry: KindRegistry, quota: Object, view: StoreView) -> quotas.Usage:
    hard = (quota.get("spec") or {}).get("hard") or {}
    namespace = quota["metadata"]["namespace"]
    used = dict.fromkeys(hard, 0)
    seen: set[tuple[str, str]] = set()
    for kind in registry.all():
        stored = kind.stored
        key = (stored.group, stored.plural)
        if key in seen or not quotas.is_counted(kind):
            continue
        seen.add(key)
        mine = [name for name in hard if quotas.may_count(stored, name)]
        if mine:
            counted = quotas.total(quota, ((stored, one) for one in view.list(stored, namespace)))
            used.update({name: counted[name] for name in mine})
    return used
