"""Random sequences of operations; the same seed gives the same sequence."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from tests.helpers.differential.bodies import merged
from tests.helpers.differential.catalogue import SORTS, KindSample, Object
from tests.helpers.differential.odd_requests import OddRequests
from tests.helpers.differential.operations import APPLY, JSON_PATCH, MERGE, STRATEGIC, Operation
from tests.helpers.differential.reads import Reads
from tests.helpers.differential.subresources import Subresources

_PATCH_PATHS = (
    "/metadata/labels/tier",
    "/metadata/labels",
    "/metadata/annotations/note",
    "/metadata/name",
    "/spec",
    "/data/a",
    "/data",
    "/spec/size",
    "/spec/nodeName",
    "/spec/containers/0/image",
    "/spec/containers/-",
    "/nothing/here",
    "",
    "/metadata/finalizers",
    "/metadata/finalizers/0",
    "/metadata/resourceVersion",
    "/kind",
    "relative",
    "/spec/replicas",
    "/spec/taints",
    "/status/phase",
)
_VALUES: tuple[Any, ...] = (
    "a",
    "b",
    5,
    True,
    None,
    {},
    [],
    {"x": "y"},
    ["kajitori.dev/members"],
    "not valid!",
    "bert:9",
)


def setup() -> list[Operation]:
    """Return the first operations: the sequence's namespaces."""
    return [
        Operation("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in ("{p}", "{p}-q")
    ]


def fences() -> list[Operation]:
    """Return operations that create one more valid object in each watched collection."""
    made = []
    for sort in SORTS:
        body = copy.deepcopy(sort.base)
        body["metadata"]["name"] = sort.name_of("zz")
        made.append(Operation("POST", sort.collection, body))
    return made


def sequence(seed: int, length: int) -> list[Operation]:
    """Return namespaces, watches, `length` random operations, and reads of everything at the end."""
    return Generator(random.Random(seed)).sequence(length)


class Generator(Reads, Subresources, OddRequests):
    """Generates operations from one source of randomness."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.sorts: tuple[KindSample, ...] = ()

    def sequence(self, length: int) -> list[Operation]:
        rng = self.rng
        # Few kinds per sequence, so that operations meet the same objects again.
        chosen = rng.choices(SORTS, [one.weight for one in SORTS], k=rng.randint(1, 4))
        self.sorts = tuple(dict.fromkeys(chosen))
        operations = setup()
        for sort in self.sorts:
            if sort.watched:
                params = (("labelSelector", "sea={p}"),) if sort.cluster_scoped else ()
                operations.append(Operation("GET", sort.collection, params=params, watch=True))
                if rng.random() < 0.5:
                    operations.append(self.selecting_watch(sort))
        operations += [self.operation() for _ in range(length)]
        operations += [self.list_of(sort, plain=True) for sort in self.sorts]
        return operations

    def operation(self) -> Operation:
        """Return any operation."""
        sort = self.rng.choice(self.sorts)
        ways: list[tuple[int, Callable[[KindSample], Operation]]] = [
            (20, self.create),
            (14, self.update),
            (10, self.merge_patch),
            (6, self.strategic_patch),
            (6, self.json_patch),
            (14, self.apply),
            (8, self.delete),
            (5, self.get),
            (6, self.list_of),
            (8 if sort.statuses else 0, self.status),
            (4 if sort.scale else 0, self.scale),
            (6 if sort.name == "pod" else 0, self.pod_extra),
            (3 if sort.name == "namespace" else 0, self.finalize),
            (1, self.delete_collection),
            (4, self.odd),
            (1, self.late_watch),
        ]
        way = self.rng.choices([one for _, one in ways], [weight for weight, _ in ways])[0]
        return way(sort)

    def create(self, sort: KindSample) -> Operation:
        body = self.body(sort, self.name(sort))
        if self.rng.random() < 0.12 and isinstance(body.get("metadata"), dict):
            body["metadata"].pop("name", None)
            body["metadata"]["generateName"] = f"gen-{sort.name}-"
            self.unordered.add(sort.collection)
        return Operation("POST", sort.collection, body, self.params())

    def update(self, sort: KindSample) -> Operation:
        name = self.name(sort)
        path = self.path(sort, name)
        return Operation("PUT", path, self.reference(self.body(sort, name), path), self.params())

    def merge_patch(self, sort: KindSample) -> Operation:
        path = self.path(sort)
        body = copy.deepcopy(self.piece(sort))
        if self.rng.random() < 0.2:
            body = self.reference(merged({"metadata": {}}, body), path)
        return Operation("PATCH", path, body, self.params(), MERGE)

    def strategic_patch(self, sort: KindSample) -> Operation:
        extra: tuple[Object, ...] = (
            {"metadata": {"finalizers": ["example.com/three"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["kajitori.dev/members"]}},
            {"metadata": {"labels": {"$patch": "replace", "only": "this"}}},
            {"metadata": {"labels": {"$patch": "delete"}}},
            {"metadata": {"$retainKeys": ["name"], "name": "x"}},
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "00000000-0000-0000-0000-000000000001"}]}},
            {"spec": {"containers": [{"name": "main", "$patch": "delete"}]}},
            {"spec": {"containers": [{"image": "no name"}]}},
            {"spec": {"containers": [{"name": "new", "image": "side:2"}]}},
            {"spec": {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]}},
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "main"}],
                    "containers": [{"name": "main", "image": "y"}],
                }
            },
            # Not for a list without a merge key: kube-apiserver panics.
            {"spec": {"$setElementOrder/imagePullSecrets": [{"name": "a"}]}},
            {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}},
            {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}},
            {"spec": {"taints": [{"$patch": "replace"}]}},
            {"spec": {"ports": [{"port": 80, "name": "web"}]}},
            {"data": {"$patch": "replace", "z": "1"}},
            {"$patch": "delete"},
            {"spec": {"$patch": "odd"}},
        )
        rng = self.rng
        body = copy.deepcopy(rng.choice(extra) if rng.random() < 0.4 else self.piece(sort))
        return Operation("PATCH", self.path(sort), body, self.params(), STRATEGIC)

    def json_patch(self, sort: KindSample) -> Operation:
        rng = self.rng
        steps = []
        for _ in range(rng.randint(1, 3)):
            verb = rng.choice(("add", "add", "replace", "remove", "test", "copy", "move", "odd"))
            step: Object = {"op": verb, "path": rng.choice(_PATCH_PATHS)}
            if verb in ("add", "replace", "test") and rng.random() < 0.95:
                step["value"] = rng.choice(_VALUES)
            if verb in ("copy", "move"):
                step["from"] = rng.choice(("/metadata/labels", "/metadata/labels/tier", "/metadata/annotations"))
            steps.append(step)
        return Operation("PATCH", self.path(sort), steps, self.params(), JSON_PATCH)

    def apply(self, sort: KindSample) -> Operation:
        rng = self.rng
        name = self.name(sort)
        body = self.body(sort, name, 0.45)
        if rng.random() < 0.3:
            body = {key: body[key] for key in ("apiVersion", "kind", "metadata") if key in body}
            body = merged(body, self.piece(sort))
        if rng.random() < 0.1:
            body = self.reference(body, self.path(sort, name))
        if rng.random() < 0.05:
            body.pop(rng.choice(("apiVersion", "kind")), None)
        return Operation("PATCH", self.path(sort, name), body, self.params(apply=True), APPLY)

    def delete(self, sort: KindSample) -> Operation:
        rng = self.rng
        path = self.path(sort)
        options: Object = {}
        if rng.random() < 0.3:
            options["gracePeriodSeconds"] = rng.choice((0, 0, 1, 30, -1))
        if rng.random() < 0.3:
            options["propagationPolicy"] = rng.choice(("Background", "Foreground", "Orphan", "Odd"))
        if rng.random() < 0.1:
            options["orphanDependents"] = rng.choice((True, False))
        if rng.random() < 0.2:
            options["preconditions"] = rng.choice(
                (
                    {"uid": f"@uid({path})"},
                    {"uid": "other"},
                    {"resourceVersion": f"@rv({path})"},
                    {"resourceVersion": f"@oldrv({path})"},
                    {},
                )
            )
        if "/resourcequotas/" in path:
            # Their status is written when the embedded server thinks fit: versions differ.
            options.get("preconditions", {}).pop("resourceVersion", None)
        if rng.random() < 0.1:
            options["dryRun"] = rng.choice((["All"], ["Some"], "All"))
        if rng.random() < 0.03:
            options["bogus"] = 1
        if rng.random() < 0.3:
            params = tuple(
                (key, str(value).lower() if isinstance(value, bool) else str(value))
                for key, value in options.items()
                if isinstance(value, str | int)
            )
            return Operation("DELETE", path, params=params)
        if options and rng.random() < 0.8:
            options |= {"apiVersion": rng.choice(("v1", "meta.k8s.io/v1")), "kind": "DeleteOptions"}
        return Operation("DELETE", path, options or None)

    def delete_collection(self, sort: KindSample) -> Operation:
        rng = self.rng
        params = [
            ("labelSelector", "sea={p},tier=a" if sort.cluster_scoped else rng.choice(("tier=a", "!tier", "tier")))
        ]
        if rng.random() < 0.3:
            params.append(("dryRun", "All"))
        if rng.random() < 0.2:
            params.append(("gracePeriodSeconds", "0"))
        return Operation("DELETE", sort.collection, params=tuple(params))
