"""The creation of an object by the embedded API server, without store and network: the steps of `kinds`."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kajitori.embedded.apiserver.admission import admission
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.registry import KindRegistry, built_in
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.writes import automatic
from kajitori.kube.resources import Resource


class MemoryView:
    """A view of a store that is a dictionary."""

    def __init__(self, *objects: tuple[Resource, Object]) -> None:
        self._objects: dict[tuple[str, str], dict[tuple[str, str], Object]] = {}
        for resource, obj in objects:
            self.put(resource, obj)

    def put(self, resource: Resource, obj: Object) -> None:
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        self._objects.setdefault((resource.group, resource.plural), {})[key] = obj

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        del self._objects[resource.group, resource.plural][namespace, name]

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self._objects.get((resource.group, resource.plural), {}).get((namespace, name))

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Object]:
        found = self._objects.get((resource.group, resource.plural), {})
        return [one for (where, _), one in found.items() if not namespace or where == namespace]


@dataclass
class Answer:
    """The result: `object` as it would be stored, or the error."""

    object: Object
    unknown: list[str] = field(default_factory=list)
    error: StatusError | None = None

    @property
    def faults(self) -> list[str]:
        """Sorted texts of all causes; the message if there are none."""
        if self.error is None:
            return []
        causes = (self.error.details or {}).get("causes")
        if not causes:
            return [self.error.message]
        return sorted(f"{one['field']}: {one['message']}" for one in causes)


CLIENT_CA = "a PEM that nobody reads here"


def fresh() -> tuple[KindRegistry, MemoryView]:
    """Return a registry of the built-in kinds, and a view with the objects of a new server."""
    registry, view = built_in(), MemoryView()
    for change in automatic.at_start(registry, view, CLIENT_CA):
        obj = copy.deepcopy(change.object)
        change.kind.strategy.default(obj)
        change.kind.strategy.prepare_create(obj)
        view.put(change.kind.stored, obj)
    return registry, view


async def create(registry: KindRegistry, view: MemoryView, body: dict[str, Any], namespace: str = "default") -> Answer:
    """Take a new object through defaults, admission and validation; it is not stored."""
    obj = copy.deepcopy(body)
    kind: Kind | None = registry.find_kind(obj["apiVersion"], obj["kind"])
    assert kind is not None
    answer = Answer(obj)
    try:
        answer.unknown = kind.conform(obj)
        kind.strategy.default(obj)
        meta = obj.setdefault("metadata", {})
        if kind.resource.namespaced:
            meta.setdefault("namespace", namespace)
        kind.strategy.prepare_create(obj)
        where = meta.get("namespace", "") if kind.resource.namespaced else ""
        request = admission.AdmissionRequest("CREATE", kind, where, meta.get("name", ""), obj)
        await admission.admit(request, view)
        causes = kind.validate_metadata(obj) + kind.strategy.validate_create(obj)
        if causes:
            raise StatusError.invalid(kind.resource.group, kind.resource.kind, meta.get("name", ""), causes)
        admission.check(request, view)
        answer.object = kind.decode(kind.encode(obj))
    except StatusError as error:
        answer.error = error
    return answer
