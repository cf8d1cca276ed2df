"""Properties of every built-in kind, for arbitrary objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.registry import built_in
from kajitori.embedded.apiserver.schemas.schema import Schema
from kajitori.embedded.apiserver.status import StatusError

KINDS = [one for one in built_in().all() if not one.virtual]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70000) | st.sampled_from(["", "a", "A_b", "1Gi", "-1", "x" * 70]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "name"]), inner, max_size=2),
    max_leaves=4,
)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(
        ["", "a", "b", "A_b", "ClusterIP", "Always", "IPv4", "None", "/x", "../x", "In", "x" * 70]
    ),
    "integer": st.integers(-2, 70000),
    "number": st.floats(-1, 1),
    "boolean": st.booleans(),
    "quantity": st.sampled_from(["0", "1", "500m", "1Gi", "-1", "1e3", "2.5"]),
    "intorstring": st.sampled_from([0, 80, "http", "50%", "x_"]),
    "time": st.just("2026-01-01T00:00:00Z"),
    "microtime": st.just("2026-01-01T00:00:00.000000Z"),
    "bytes": st.sampled_from(["", "eA=="]),
    "any": JSON,
}


def values(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    """Generate values that a schema allows, with most parts left out."""
    if schema.type in SCALARS:
        return SCALARS[schema.type]
    if depth <= 0:
        return st.just([] if schema.type == "array" else {})
    if schema.type == "array":
        assert schema.items is not None
        return st.lists(values(schema.items, depth - 1), max_size=2)
    if schema.type == "map":
        assert schema.items is not None
        return st.dictionaries(
            st.sampled_from(["a", "cpu", "memory", "nvidia.com/gpu", "A b"]), values(schema.items, 1)
        )
    return structures(schema, depth)


@st.composite  # here and not in `values`: hypothesis parses the source of each function that it decorates
def structures(draw: st.DrawFn, schema: Schema, depth: int) -> dict[str, Any]:
    """Generate objects with some of a schema's properties."""
    names = draw(st.lists(st.sampled_from(sorted(schema.properties)), max_size=5, unique=True))
    return {name: draw(values(schema.properties[name], depth - 1)) for name in names}


@st.composite
def objects(draw: st.DrawFn, kind: Kind) -> dict[str, Any]:
    obj: dict[str, Any] = draw(values(kind.schema, 5))
    if "spec" in kind.schema.properties:
        obj["spec"] = draw(values(kind.schema.properties["spec"], 5))
    obj.update(apiVersion=kind.resource.api_version, kind=kind.resource.kind)
    obj.setdefault("metadata", {})
    return obj


def admitted(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object as the server prepares it for validation."""
    kind.conform(obj)
    kind.strategy.default(obj)
    if kind.resource.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    kind.strategy.prepare_create(obj)
    return obj


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource.group}.{kind.resource.plural}")
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_validation_never_raises(kind: Kind, data: st.DataObject) -> None:
    """Validation lists faults of any object and never raises; an object can be updated to itself."""
    obj = admitted(kind, data.draw(objects(kind)))
    causes = kind.validate_metadata(obj) + kind.strategy.validate_create(obj)
    for cause in causes:
        assert cause.message
    new = copy.deepcopy(obj)
    kind.strategy.prepare_update(new, obj)
    assert new == obj
    if not causes:
        assert kind.validate_metadata(new, obj) == []
        assert kind.strategy.validate_update(new, obj) == []
    kind.strategy.validate_update(new, obj)
    kind.strategy.prepare_status_update(new, obj)
    kind.strategy.validate_status_update(new, obj)
    kind.strategy.fields(obj)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource.group}.{kind.resource.plural}")
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_defaulting_is_idempotent(kind: Kind, data: st.DataObject) -> None:
    """Defaults and conforming are idempotent."""
    obj = data.draw(objects(kind))
    kind.conform(obj)
    again = copy.deepcopy(obj)
    assert kind.conform(again) == []
    assert again == obj
    kind.strategy.default(obj)
    once = copy.deepcopy(obj)
    kind.strategy.default(obj)
    assert obj == once


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource.group}.{kind.resource.plural}")
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(noise=JSON, data=st.data())
def test_any_json_is_understood_or_refused(kind: Kind, noise: Any, data: st.DataObject) -> None:
    """JSON of a wrong shape is refused with 400."""
    name = data.draw(st.sampled_from(sorted(kind.schema.properties)))
    obj = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": {}, name: noise}
    try:
        kind.conform(obj)
    except StatusError as refused:
        assert refused.code == 400
        return
    obj.setdefault("metadata", {})
    kind.strategy.default(obj)
    kind.strategy.prepare_create(obj)
    kind.strategy.validate_create(obj)
