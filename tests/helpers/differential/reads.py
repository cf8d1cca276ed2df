"""Random reads: of one object, of lists, and watches."""

from __future__ import annotations

from tests.helpers.differential.bodies import Bodies
from tests.helpers.differential.catalogue import KindSample
from tests.helpers.differential.operations import Operation

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


class Reads(Bodies):
    """Draws requests that change nothing."""

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
