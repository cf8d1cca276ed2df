"""Subresources with behaviour of their own: binding, eviction, scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kajitori.core.kubernetes.selectors import label_selector_of
from kajitori.embedded.apiserver.crds import version_of
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.patches.managed import manage
from kajitori.embedded.apiserver.patches.own_metadata import now_text
from kajitori.embedded.apiserver.requests.answers import encode_plain, store_key
from kajitori.embedded.apiserver.requests.formats import encode_json
from kajitori.embedded.apiserver.requests.options import WriteOptions, parse_delete
from kajitori.embedded.apiserver.requests.target import Target
from kajitori.embedded.apiserver.schemas.conform import type_name
from kajitori.embedded.apiserver.schemas.nesting import decode_json
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.strategies.strategy import at_path
from kajitori.embedded.apiserver.upkeep import deletion
from kajitori.embedded.apiserver.writes.objects import Caller, Objects
from kajitori.embedded.store import Stale
from kajitori.kube.resources import Resource

_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
_RETRY_SECONDS = 10
_CREATED = encode_json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


class Subresources:
    """Handlers of the subresources."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def bind(self, target: Target, body: Object, options: WriteOptions) -> bytes:
        """Bind a Pod to a node.

        Raises:
            StatusError: 404, 409 (it is bound already), 422.
        """
        pods, name = target.kind, target.name
        given, node = body.get("metadata") or {}, _bound_node(body, name)
        while True:
            record = self._objects.get(pods, target.namespace, name)
            pod = record.decode()
            meta, spec = pod["metadata"], pod["spec"]
            StatusError.check_preconditions(
                pods.resource, meta, given.get("uid") or None, given.get("resourceVersion") or None
            )
            for is_unfit, why in (
                (meta.get("deletionTimestamp"), "it is being deleted"),
                (spec.get("nodeName"), f"it is already assigned to node {spec.get('nodeName')}"),
                (spec.get("schedulingGates"), "it has schedulingGates"),
            ):
                if is_unfit:
                    raise StatusError.conflict(pods.resource, name, why)
            spec["nodeName"] = node
            for kept in ("annotations", "labels"):
                if given.get(kept):
                    meta[kept] = {**(meta.get(kept) or {}), **given[kept]}
            _set_condition(pod, "PodScheduled")
            if options.dry_run:
                return _CREATED
            try:
                stored = self._objects.put(pods, record, pod)
            except Stale:
                continue
            await self._objects.durable(stored.revision)
            return _CREATED

    async def evict(self, target: Target, body: Object, caller: Caller, options: WriteOptions) -> bytes:
        """Delete a Pod if its disruption budget allows that now.

        Raises:
            StatusError: 404, 429 (not now), 500 (two budgets).
        """
        name = target.name
        if (body.get("metadata") or {}).get("name") != name:
            raise StatusError.bad_request("name in URL does not match name in Eviction object")
        wanted = {**(body.get("deleteOptions") or {})}
        if options.dry_run:
            wanted["dryRun"] = ["All"]
        pod = self._objects.get(target.kind, target.namespace, name).object
        if _counts_as_disruption(pod):
            self._check_budget(target, pod, dry_run=bool(wanted.get("dryRun")))
        if not wanted.get("dryRun"):
            given = wanted.get("preconditions") or {}
            record = self._objects.get(target.kind, target.namespace, name)
            pod = record.decode()
            StatusError.check_preconditions(
                target.kind.resource, pod["metadata"], given.get("uid"), given.get("resourceVersion")
            )
            _set_condition(pod, "DisruptionTarget", reason="EvictionByEvictionAPI", message="Eviction API: evicting")
            if pod != record.object:
                record = self._objects.put(target.kind, record, pod)
            if given.get("resourceVersion"):
                wanted["preconditions"] = {**given, "resourceVersion": record.object["metadata"]["resourceVersion"]}
        # Parsed only now, as in kube-apiserver: even an invalid request marks the Pod.
        delete = parse_delete({}, wanted)
        await deletion.delete(self._objects, target.kind, target.namespace, name, caller, delete)
        return _CREATED

    def _check_budget(self, target: Target, pod: Object, *, dry_run: bool) -> None:
        budgets = self._objects.registry.find(_BUDGETS.group, _BUDGETS.version, _BUDGETS.plural)
        if budgets is None:
            return
        labels = pod["metadata"].get("labels") or {}
        found = [
            record
            for record in self._objects.store.records(store_key(budgets), target.namespace)
            if (selector := label_selector_of((record.object.get("spec") or {}).get("selector"))) is not None
            and selector.matches(labels)
        ]
        if not found:
            return
        if len(found) > 1:
            raise StatusError.internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        record = found[0]
        budget = record.decode()
        spec, status = budget.get("spec") or {}, budget.setdefault("status", {})
        healthy = _is_ready(pod)
        if not healthy and (spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow"):
            return
        if not healthy and status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
            return
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            why = f"The disruption budget {record.name} is still being processed by the server."
            raise _not_now(why, retry_seconds=_RETRY_SECONDS)
        if status.get("disruptionsAllowed", 0) <= 0:
            why = (
                f"The disruption budget {record.name} needs {status.get('desiredHealthy', 0)} healthy pods and has "
                f"{status.get('currentHealthy', 0)} currently"
            )
            raise _not_now(why)
        if dry_run:
            return
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = now_text()
        self._objects.put(budgets, record, budget)

    # --- scale -------------------------------------------------------------------------------------------------------

    async def scale(self, target: Target) -> bytes:
        """Return the numbers of wanted and existing replicas (autoscaling/v1 Scale).

        Raises:
            StatusError: 404.
        """
        record = self._objects.get(target.kind, target.namespace, target.name)
        value = encode_plain(_scale_of(target.kind, target.kind.decode(record.decode())))
        await self._objects.durable(record.revision)
        return value

    async def rescale(
        self, target: Target, change: Callable[[Object], Object], caller: Caller, options: WriteOptions
    ) -> bytes:
        """Set the number of wanted replicas.

        Raises:
            StatusError: 404, 409, 422.
        """
        kind = target.kind
        path = _scale_paths(kind)["specReplicasPath"]

        def apply(old: Object) -> Object:
            scale = change(_scale_of(kind, old))
            _put_path(old, path, (scale.get("spec") or {}).get("replicas", 0))
            version = (scale.get("metadata") or {}).get("resourceVersion")
            if version:
                old["metadata"]["resourceVersion"] = version
            return old

        def own(new: Object, old: Object | None) -> None:
            manage(kind, new, old, manager=options.field_manager or caller.manager, subresource="scale")

        written = await self._objects.update(kind, target.namespace, target.name, apply, caller, options, own=own)
        return encode_plain(_scale_of(kind, decode_json(written.value)))


def scale_fault(scale: Object) -> str:
    """Return the fault of the number of replicas that a Scale asks for; empty if there is none."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if type(replicas) is int or (type(replicas) is float and replicas.is_integer()):
        return ""
    return f"spec.replicas: expected a whole number, not {type_name(replicas)}"


def _bound_node(binding: Object, pod: str) -> str:
    """Return the node that a Binding names.

    Raises:
        StatusError: 400, it is about another Pod; 500, it names no node.
    """
    if (binding.get("metadata") or {}).get("name") != pod:
        raise StatusError.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target")
    if not isinstance(target, dict) or target.get("kind") not in (None, "", "Node") or not target.get("name"):
        raise StatusError(500, "", "target must name a Node")
    return str(target["name"])


def _set_condition(pod: Object, kind: str, **why: str) -> None:
    """Set a condition of a Pod to true, with reason and message if given."""
    conditions: list[Any] = pod.setdefault("status", {}).setdefault("conditions", [])
    before: Object = next((one for one in conditions if one.get("type") == kind), {})
    since = before.get("lastTransitionTime") if before.get("status") == "True" else None
    now = {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": since or now_text(), **why}
    if before:
        conditions[conditions.index(before)] = now
    else:
        conditions.append(now)


def _counts_as_disruption(pod: Object) -> bool:
    """Return whether an eviction disturbs anything: a Pod that has ended, is ending or never started does not count."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed", "Pending") and not pod["metadata"].get("deletionTimestamp")


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _not_now(why: str, *, retry_seconds: int = 0) -> StatusError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    error = StatusError.too_many_requests(message, retry_seconds=retry_seconds)
    error.details = {"causes": [{"reason": "DisruptionBudget", "message": why}], **(error.details or {})}
    return error


def _scale_paths(kind: Kind) -> Object:
    found: Object = (version_of(kind).get("subresources") or {}).get("scale") or {}
    return found


def _scale_of(kind: Kind, obj: Object) -> Object:
    paths, meta = _scale_paths(kind), obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": at_path(obj, paths.get("statusReplicasPath", "")) or 0}
    if selector := at_path(obj, paths.get("labelSelectorPath", "")):
        status["selector"] = selector
    replicas = at_path(obj, paths.get("specReplicasPath", ""))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {} if not replicas else {"replicas": replicas},
        "status": status,
    }


def _put_path(obj: Object, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for name in parents:
        obj = obj.setdefault(name, {})
    obj[last] = value
