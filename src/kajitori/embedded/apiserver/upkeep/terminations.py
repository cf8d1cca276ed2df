"""Deletion of namespaces and of definitions of custom resources: their contents are deleted first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.patches.own_metadata import now_text
from kajitori.embedded.apiserver.requests.options import DeleteOptions
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.upkeep.deletion import DEFINITION_FINALIZER, delete_record
from kajitori.embedded.apiserver.upkeep.garbage import drop_finalizer, kind_of
from kajitori.embedded.apiserver.writes.objects import Objects
from kajitori.embedded.store import DELETED, Event, Record

Add = Callable[[str, str], None]
NAMESPACES = "/namespaces"
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
_FINALIZER = "kubernetes"
_AT_ONCE = 256
_IN_BACKGROUND = DeleteOptions(propagation="Background")


class Terminations:
    """Deletes the contents of namespaces and definitions that are being deleted, then lets them go."""

    def __init__(self, objects: Objects, add: Add) -> None:
        self._objects = objects
        self._add = add
        self._namespaces: set[str] = set()
        self._definitions: dict[str, str] = {}
        """Resources (`group/plural`) of definitions that are being deleted, by the name of the definition."""

    def track(self, record: Record) -> None:
        """Queue a namespace or definition if it is being deleted."""
        if record.resource not in (NAMESPACES, DEFINITIONS) or b'"deletionTimestamp"' not in record.value:
            return
        if not record.object["metadata"].get("deletionTimestamp"):
            return
        if record.resource == NAMESPACES:
            self._namespaces.add(record.name)
        else:
            self._definitions[_defined_resource(record.object)] = record.name
        self._add(record.resource, record.key)

    def on_event(self, event: Event) -> None:
        """Record a change."""
        record = event.record
        if event.type is not DELETED:
            self.track(record)
            return
        if record.resource == NAMESPACES:
            self._namespaces.discard(record.name)
        elif record.resource == DEFINITIONS:
            self._definitions.pop(_defined_resource(record.object), None)
        if record.namespace in self._namespaces:
            self._add(NAMESPACES, record.namespace)
        if record.resource in self._definitions:
            self._add(DEFINITIONS, self._definitions[record.resource])

    def process(self, record: Record) -> None:
        """Take the due steps for one namespace or definition. The writes are not durable yet.

        Raises:
            Stale: it changed meanwhile.
        """
        if record.resource == NAMESPACES and record.name in self._namespaces:
            self._empty_namespace(record)
        elif record.resource == DEFINITIONS and record.name in self._definitions.values():
            self._empty_definition(record)

    def _empty_namespace(self, record: Record) -> None:
        store = self._objects.store
        left: list[Record] = []
        budget = _AT_ONCE
        for resource in store.resources():
            for one in store.records(resource, record.name):
                if self._delete(one):
                    budget -= 1
                    if not budget:
                        # Leave the rest for another turn, since requests wait meanwhile.
                        self._add(NAMESPACES, record.name)
                        return
            left += store.records(resource, record.name)
        kind = kind_of(self._objects.registry, record)
        current = store.get(NAMESPACES, "", record.name)
        if kind is None or current is None:
            return
        namespace = current.decode()
        if left:
            self._report(kind, current, namespace, left)
            return
        spec = namespace.setdefault("spec", {})
        kept = [one for one in spec.get("finalizers") or [] if one != _FINALIZER]
        if kept or namespace["metadata"].get("finalizers"):
            if kept:
                spec["finalizers"] = kept
            else:
                spec.pop("finalizers", None)
            if namespace != current.object:
                self._objects.put(kind, current, namespace)
            return
        self._objects.remove(kind, current)

    def _delete(self, record: Record) -> bool:
        """Delete some contents, and return whether there were any."""
        kind = kind_of(self._objects.registry, record)
        if kind is None:
            # Without the definition, the finalizers of its objects can no longer be removed.
            self._objects.store.delete(record)
            return True
        if b'"deletionTimestamp"' in record.value and record.object["metadata"].get("deletionTimestamp"):
            return False
        delete_record(self._objects, kind, record, _IN_BACKGROUND)
        return True

    def _report(self, kind: Kind, record: Record, namespace: Object, left: list[Record]) -> None:
        resources = Counter(_definition_name(one.resource) for one in left)
        held_ones = [one for one in left if b'"finalizers"' in one.value]
        finalizers = Counter(name for one in held_ones for name in one.object["metadata"].get("finalizers") or ())
        remain = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(resources.items()))
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        conditions = [
            _namespace_condition("ContentRemaining", "SomeResourcesRemain", f"Some resources are remaining: {remain}")
        ]
        if held:
            detail = f"Some content in the namespace has finalizers remaining: {held}"
            conditions.append(_namespace_condition("FinalizersRemaining", "SomeFinalizersRemain", detail))
        before = {one.get("type"): one for one in (namespace.get("status") or {}).get("conditions") or []}
        for one in conditions:
            known = before.get(one["type"], {})
            same = known.get("message") == one["message"]
            one["lastTransitionTime"] = known["lastTransitionTime"] if same else now_text()
        namespace.setdefault("status", {})["conditions"] = conditions
        if namespace != record.object:
            self._objects.put(kind, record, namespace)

    def _empty_definition(self, record: Record) -> None:
        definition = record.object
        if DEFINITION_FINALIZER not in (definition["metadata"].get("finalizers") or ()):
            return
        store = self._objects.store
        resource = _defined_resource(definition)
        for index, one in enumerate(store.records(resource)):
            if index == _AT_ONCE:
                self._add(DEFINITIONS, record.name)
                break
            self._delete(one)
        current = store.get(DEFINITIONS, "", record.name)
        kind = kind_of(self._objects.registry, record)
        if current is not None and kind is not None and not store.count(resource):
            drop_finalizer(self._objects, kind, current, DEFINITION_FINALIZER)


def _defined_resource(definition: Object) -> str:
    spec = definition["spec"]
    return f"{spec['group']}/{spec['names']['plural']}"


def _definition_name(resource: str) -> str:
    group, _, plural = resource.partition("/")
    return f"{plural}.{group}"


def _namespace_condition(kind: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": f"Namespace{kind}", "status": "True", "reason": reason, "message": message}
