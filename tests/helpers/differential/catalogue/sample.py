"""One kind in a sequence of requests, and the metadata that all kinds share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c-a", "uid": "00000000-0000-0000-0000-000000000001"}


@dataclass(frozen=True, eq=False)
class KindSample:
    """A kind, with objects and requests to try."""

    name: str
    collection: str
    base: Object
    pieces: tuple[Object, ...]
    names: tuple[str, ...] = ("a", "b")
    statuses: tuple[Object | None, ...] = ()
    selectors: tuple[str, ...] = ("metadata.name={p}-x", "metadata.namespace!={p}", "spec.unknown=1")
    custom: bool = False
    scale: bool = False
    weight: int = 4
    watched: bool = True
    table: str = TABLE
    """The `Accept` header that asks for a Table; empty if the two servers' Tables differ on purpose."""

    @property
    def cluster_scoped(self) -> bool:
        return "/namespaces/" not in self.collection

    def name_of(self, name: str) -> str:
        """Return the full name. Names of objects outside namespaces begin with the sequence's prefix."""
        return f"{{p}}-{name}" if self.cluster_scoped else f"{self.name[0]}-{name}"


META: tuple[Object, ...] = (
    {"labels": {"tier": "a"}},
    {"labels": {"tier": "b", "extra": ""}},
    {"labels": {"tier": None}},
    {"labels": {"tier": "not valid!"}},
    {"labels": {"-bad/key/": "x"}},
    {"labels": {"n": 5}},
    {"labels": None},
    {"annotations": {"note": "something", "kajitori.dev/owner": "ada"}},
    {"annotations": {"note": None}},
    {"annotations": {"Bad Key": "x"}},
    {"annotations": {}},
    {"finalizers": ["kajitori.dev/members"]},
    {"finalizers": ["kajitori.dev/members", "example.com/two"]},
    {"finalizers": ["nodomain"]},
    {"finalizers": []},
    {"finalizers": None},
    {"ownerReferences": [OWNER]},
    {"ownerReferences": [OWNER | {"controller": True, "blockOwnerDeletion": True}]},
    {"ownerReferences": [OWNER | {"uid": ""}]},
    {"ownerReferences": [OWNER | {"controller": True}, OWNER | {"controller": True, "uid": "2"}]},
    {"ownerReferences": []},
    {"uid": "00000000-0000-0000-0000-00000000000f"},
    {"creationTimestamp": None},
    {"creationTimestamp": "2001-02-03T04:05:06Z"},
    {"resourceVersion": "0"},
    {"managedFields": []},
    {"managedFields": [{}]},
    {"unknown": 1},
    {"name": "Bad_Name"},
    {"name": "other"},
    {"name": ""},
    {"namespace": "elsewhere"},
    {"generateName": "gen-x-"},
)
