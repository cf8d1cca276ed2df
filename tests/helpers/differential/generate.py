"""Random sequences of operations; the same seed gives the same sequence."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from tests.helpers.differential.catalogue import META, SORTS, KindSample, Object
from tests.helpers.differential.operations import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Operation

_FIELD_VALIDATIONS = ("Strict", "Warn", "Ignore", "Odd")
_MANAGERS = ("m1", "m2", "m3")
_LABEL_SELECTORS = (
    "tier=a",
    "tier!=a",
    "tier in (a,b)",
    "tier notin (a)",
    "tier",
    "!tier",
    "tier=a,extra",
    "tier==b",
    "tier in (",
    "bad key=1",
    "tier=a!",
    "=",
    "sea={p},tier=a",
    "tier>1",
    ",",
)
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
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
_ODD_BODIES = (
    "",
    "{",
    "null",
    "[]",
    "5",
    '"text"',
    '{"kind":',
    '{"metadata":{"name":"a"},"metadata":{"name":"b"}}',
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c-z"},"data":{"a":"1","a":"2"}}',
    "a: b\n",
    '{"apiVersion":"v1"}',
    '{"kind":"Pod"}',
    "\udcff\udcfe",
    '{"metadata": []}',
    '{"metadata": 5}',
)
_ODD_TYPES = ("", "text/plain", "application/xml", "application/json; charset=utf-8", "application/yaml", MERGE, APPLY)


def merged(target: Any, piece: Any) -> Any:
    """Return the target with a piece merged in; a null stays, since a body may contain it."""
    if not isinstance(piece, dict) or not isinstance(target, dict):
        return copy.deepcopy(piece)
    out = dict(target)
    for key, value in piece.items():
        out[key] = merged(out.get(key), value)
    return out


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


class Generator:
    """Generates operations from one source of randomness."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sorts: tuple[KindSample, ...] = ()
        self.unordered: set[str] = set()
        """Collections with random names: their pages have other objects on each server."""

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

    # --- bodies -----------------------------------------------------------------------------------------------------

    def body(self, sort: KindSample, name: str, chance: float = 0.5) -> Object:
        """Return a valid object, or one with pieces changed."""
        rng = self.rng
        body = copy.deepcopy(sort.base)
        body["metadata"]["name"] = sort.name_of(name)
        while rng.random() < chance:
            body = merged(body, self.piece(sort))
        return body

    def piece(self, sort: KindSample) -> Object:
        if self.rng.random() < 0.3:
            return {"metadata": self.rng.choice(META)}
        return self.rng.choice(sort.pieces)

    def name(self, sort: KindSample) -> str:
        return self.rng.choice(sort.names)

    def path(self, sort: KindSample, name: str = "") -> str:
        return f"{sort.collection}/{sort.name_of(name or self.name(sort))}"

    def params(self, *, apply: bool = False) -> tuple[tuple[str, str], ...]:
        rng = self.rng
        params: list[tuple[str, str]] = []
        if rng.random() < 0.1:
            params.append(("dryRun", "All" if rng.random() < 0.9 else "Some"))
        if rng.random() < 0.3:
            params.append(("fieldValidation", rng.choice(_FIELD_VALIDATIONS[: 4 if rng.random() < 0.2 else 3])))
        if apply:
            if rng.random() < 0.97:
                params.append(("fieldManager", rng.choice(_MANAGERS)))
            if rng.random() < 0.35:
                params.append(("force", "true"))
        elif rng.random() < 0.2:
            params.append(("fieldManager", rng.choice(("m1", "m2", "x" * 129, "bad\u0007name", ""))))
        return tuple(params)

    def reference(self, body: Object, path: str) -> Object:
        """Return an object with the current resource version, an old one, or none."""
        chance = self.rng.random()
        what = "rv" if chance < 0.55 else "oldrv" if chance < 0.7 else ""
        if "/resourcequotas/" in path:
            # Their status is written when the embedded server thinks fit: versions differ.
            return body
        if what and isinstance(body.get("metadata"), dict):
            body["metadata"].setdefault("resourceVersion", f"@{what}({path})")
        if self.rng.random() < 0.1 and isinstance(body.get("metadata"), dict):
            body["metadata"].setdefault("uid", f"@uid({path})")
        return body

    # --- verbs ------------------------------------------------------------------------------------------------------

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

    def get(self, sort: KindSample) -> Operation:
        rng = self.rng
        params = (("resourceVersion", rng.choice(("0", "1"))),) if rng.random() < 0.15 else ()
        accept = rng.choice(("", "", "", sort.table, METADATA, "application/yaml", "text/html"))
        return Operation("GET", self.path(sort), params=params, accept=accept)

    def list_of(self, sort: KindSample, *, plain: bool = False) -> Operation:
        rng = self.rng
        params: list[tuple[str, str]] = [("labelSelector", "sea={p}")] if sort.cluster_scoped else []
        if plain:
            return Operation("GET", sort.collection, params=tuple(params))
        chance = rng.random()
        if chance < 0.3:
            params = [("labelSelector", rng.choice(_LABEL_SELECTORS))]
            if sort.cluster_scoped:
                params = [("labelSelector", "sea={p},tier=a")]
        elif chance < 0.6:
            params.append(("fieldSelector", rng.choice(sort.selectors)))
        if sort.collection in self.unordered:
            return Operation("GET", sort.collection, params=tuple(params))
        if rng.random() < 0.3:
            params.append(("limit", rng.choice(("1", "2", "0", "-1", "abc"))))
        if rng.random() < 0.2:
            params.append(("continue", rng.choice(("@continue()", "@continue()", "garbage"))))
        if rng.random() < 0.15:
            params.append(("resourceVersion", rng.choice(("0", "0", "abc"))))
        if rng.random() < 0.1:
            params.append(("resourceVersionMatch", rng.choice(("NotOlderThan", "Exact", "Odd"))))
        accept = rng.choice(("", "", "", sort.table, METADATA_LIST))
        return Operation("GET", sort.collection, params=tuple(params), accept=accept)

    def status(self, sort: KindSample) -> Operation:
        rng = self.rng
        name = self.name(sort)
        path = self.path(sort, name)
        status = copy.deepcopy(rng.choice(sort.statuses))
        chance = rng.random()
        if chance < 0.4:
            body = self.reference(self.body(sort, name, 0.15) | {"status": status}, path)
            return Operation("PUT", f"{path}/status", body, self.params())
        if chance < 0.6:
            return Operation("PATCH", f"{path}/status", {"status": status}, self.params(), MERGE)
        if chance < 0.75:
            return Operation("PATCH", f"{path}/status", {"status": status}, self.params(), STRATEGIC)
        if chance < 0.95:
            body = {key: sort.base[key] for key in ("apiVersion", "kind")} | {"status": status}
            body["metadata"] = {"name": sort.name_of(name)}
            return Operation("PATCH", f"{path}/status", body, self.params(apply=True), APPLY)
        return Operation(rng.choice(("GET", "DELETE", "POST")), f"{path}/status")

    def scale(self, sort: KindSample) -> Operation:
        rng = self.rng
        path = self.path(sort)
        replicas = rng.choice((1, 5, 0, -1, "many", 2.5))
        chance = rng.random()
        if chance < 0.3:
            return Operation(
                "GET",
                f"{path}/scale",
            )
        if chance < 0.6:
            body = {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": path.rpartition("/")[2], "namespace": "{p}"},
                "spec": {"replicas": replicas},
            }
            if rng.random() < 0.4:
                body = self.reference(body, path)
            return Operation("PUT", f"{path}/scale", body, self.params())
        kind = rng.choice((MERGE, MERGE, STRATEGIC, JSON_PATCH))
        patch: Any = {"spec": {"replicas": replicas}}
        if kind == JSON_PATCH:
            patch = [{"op": "replace", "path": "/spec/replicas", "value": replicas}]
        return Operation("PATCH", f"{path}/scale", patch, self.params(), kind)

    def pod_extra(self, sort: KindSample) -> Operation:
        rng = self.rng
        path = self.path(sort)
        name = path.rpartition("/")[2]
        if rng.random() < 0.5:
            body: Object = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": rng.choice(("{p}-a", "{p}-b", "", "Bad Node"))},
            }
            if rng.random() < 0.15:
                body["target"] = rng.choice(({}, {"kind": "Pod", "name": "x"}, {"name": "{p}-a"}))
            if rng.random() < 0.15:
                body["metadata"] |= rng.choice(
                    (
                        {"uid": "other"},
                        {"uid": f"@uid({path})"},
                        {"annotations": {"n": "1"}},
                        {"resourceVersion": "1"},
                        {"name": "different"},
                        {"labels": {"bound": "yes"}},
                    )
                )
            return Operation("POST", f"{path}/binding", body, self.params())
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        if rng.random() < 0.3:
            body["deleteOptions"] = rng.choice(
                (
                    {"gracePeriodSeconds": 0},
                    {"dryRun": ["All"]},
                    {"preconditions": {"uid": "other"}},
                    {"preconditions": {"resourceVersion": f"@oldrv({path})"}},
                    {"propagationPolicy": "Odd"},
                )
            )
        if rng.random() < 0.1:
            body["metadata"] = {"name": "different"}
        return Operation("POST", f"{path}/eviction", body, self.params())

    def finalize(self, sort: KindSample) -> Operation:
        name = self.name(sort)
        path = self.path(sort, name)
        body = merged(self.body(sort, name, 0.2), {"spec": {"finalizers": self.rng.choice(([], ["kubernetes"]))}})
        return Operation("PUT", f"{path}/finalize", body)

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

    def late_watch(self, sort: KindSample) -> Operation:
        rng = self.rng
        if not sort.watched:
            return self.list_of(sort)
        params: list[tuple[str, str]] = [("labelSelector", "sea={p}")] if sort.cluster_scoped else []
        extra: tuple[tuple[tuple[str, str], ...], ...] = (
            (),
            (("resourceVersion", f"@since({self.path(sort)})"),),
            (("resourceVersion", "0"),),
            (("resourceVersion", "abc"),),
            (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"), ("allowWatchBookmarks", "true")),
            (("sendInitialEvents", "true"),),
            (("resourceVersionMatch", "Exact"),),
        )
        chosen = rng.choice(extra)
        if sort.collection in self.unordered:
            # Random names have another order on each server.
            return Operation("GET", sort.collection, params=tuple(params))
        return Operation("GET", sort.collection, params=(*params, *chosen), watch=True)

    def selecting_watch(self, sort: KindSample) -> Operation:
        rng = self.rng
        if rng.random() < 0.5 or sort.cluster_scoped:
            chosen = "sea={p},tier=a" if sort.cluster_scoped else rng.choice(("tier=a", "!tier", "tier in (a,b)"))
            return Operation("GET", sort.collection, params=(("labelSelector", chosen),), watch=True)
        return Operation("GET", sort.collection, params=(("fieldSelector", rng.choice(sort.selectors)),), watch=True)

    def odd(self, sort: KindSample) -> Operation:
        """Return an invalid request."""
        rng = self.rng
        path = self.path(sort)
        group = sort.collection.partition("/namespaces/")[0]
        chance = rng.randrange(8)
        match chance:
            case 0:
                return Operation("POST", sort.collection, rng.choice(_ODD_BODIES), self.params())
            case 1:
                return Operation("PUT", path, rng.choice(_ODD_BODIES), self.params())
            case 2:
                kind = rng.choice((MERGE, STRATEGIC, JSON_PATCH, APPLY))
                return Operation("PATCH", path, rng.choice(_ODD_BODIES), self.params(apply=kind == APPLY), kind)
            case 3:
                method = rng.choice(("POST", "PUT", "PATCH"))
                where = sort.collection if method == "POST" else path
                return Operation(
                    method, where, self.body(sort, self.name(sort), 0), content_type=rng.choice(_ODD_TYPES)
                )
            case 4:
                method, where = rng.choice(
                    (
                        ("PUT", sort.collection),
                        ("PATCH", sort.collection),
                        ("DELETE", f"{path}/nope"),
                        ("GET", f"{path}/nope"),
                        ("POST", f"{path}/status"),
                        ("GET", f"{path}/binding"),
                        ("PUT", f"{path}/eviction"),
                        ("GET", f"{path}/log"),
                        ("GET", f"{path}/scale"),
                    )
                )
                body = None if method in ("GET", "DELETE") else self.body(sort, "a", 0)
                return Operation(method, where, body, content_type=MERGE if method == "PATCH" else JSON)
            case 5:
                where = rng.choice(
                    (
                        "/api/v1/nothings",
                        "/apis/nowhere.io/v1/things",
                        "/apis/policy/v9/poddisruptionbudgets",
                        "/api/v2/pods",
                        f"{group}/namespaces/{{p}}/nothings",
                        "/apis/sea.example/v2/boats",
                        "/nothing",
                        "/apis/sea.example/v1/namespaces/{p}/boats/x/y/z",
                        "/api/v1/namespaces/{p}/pods/",
                    )
                )
                return Operation(rng.choice(("GET", "POST", "DELETE")), where)
            case 6:
                return Operation("DELETE", path, rng.choice(_ODD_BODIES[1:]))
        where = sort.collection.replace("/namespaces/{p}/", "/namespaces/{p}-none/")
        return Operation("POST", where, self.body(sort, self.name(sort), 0.2), self.params())
