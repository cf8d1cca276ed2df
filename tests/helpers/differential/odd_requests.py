"""Random requests that are invalid."""

from __future__ import annotations

from tests.helpers.differential.bodies import Bodies
from tests.helpers.differential.catalogue import KindSample
from tests.helpers.differential.operations import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Operation

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


class OddRequests(Bodies):
    """Draws requests with bodies, types, methods and paths that no server accepts."""

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
