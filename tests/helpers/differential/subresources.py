"""Random requests to subresources: status, scale, binding, eviction, finalize."""

from __future__ import annotations

import copy
from typing import Any

from tests.helpers.differential.bodies import Bodies, merged
from tests.helpers.differential.catalogue import KindSample, Object
from tests.helpers.differential.operations import APPLY, JSON_PATCH, MERGE, STRATEGIC, Operation


class Subresources(Bodies):
    """Draws requests to subresources."""

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
