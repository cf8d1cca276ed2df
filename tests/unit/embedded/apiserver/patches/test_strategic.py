"""Strategic merge patches and field sets, without a server."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.apiserver.patches import field_merging, fieldsets
from kajitori.embedded.apiserver.patches.fieldsets import difference, intersection, union
from kajitori.embedded.apiserver.patches.strategic import BadPatch, strategic_merge
from kajitori.embedded.apiserver.schemas.schema import Schema
from kajitori.embedded.apiserver.writes.patching import merge_patch

TEXT = Schema("string")
ITEM = Schema("object", properties={"name": TEXT, "value": TEXT})
SCHEMA = Schema(
    "object",
    properties={
        "keyed": Schema(
            "array",
            items=ITEM,
            list_type="map",
            list_map_keys=("name",),
            patch_merge_key="name",
            patch_strategy=("merge",),
        ),
        "set": Schema("array", items=TEXT, list_type="set", patch_strategy=("merge",)),
        "plain": Schema("array", items=ITEM),
        "map": Schema("map", items=TEXT),
        "replaced": Schema("object", properties={"a": TEXT, "b": TEXT}, patch_strategy=("replace",)),
        "one": Schema("object", properties={"a": TEXT, "b": TEXT}),
    },
)


def item(name: str, value: str = "") -> dict[str, str]:
    return {"name": name, "value": value} if value else {"name": name}


@pytest.mark.parametrize(
    ("original", "patch", "expected"),
    [
        ({"keyed": [item("a", "1"), item("b")]}, {"keyed": [item("a", "2")]}, {"keyed": [item("a", "2"), item("b")]}),
        ({"keyed": [item("a"), item("b")]}, {"keyed": [item("c")]}, {"keyed": [item("c"), item("a"), item("b")]}),
        ({"keyed": [item("a"), item("b")]}, {"keyed": [{"name": "a", "$patch": "delete"}]}, {"keyed": [item("b")]}),
        ({"keyed": [item("a")]}, {"keyed": [item("b"), {"$patch": "replace"}]}, {"keyed": [item("b")]}),
        (
            {"keyed": [item("a"), item("b"), item("c")]},
            {"$setElementOrder/keyed": [item("c"), item("a")], "keyed": [item("c", "1")]},
            {"keyed": [item("b"), item("c", "1"), item("a")]},
        ),
        ({"set": ["a", "b"]}, {"set": ["c", "a"]}, {"set": ["c", "a", "b"]}),
        ({"set": ["a", "b"]}, {"$deleteFromPrimitiveList/set": ["a"]}, {"set": ["b"]}),
        ({"plain": [item("a")]}, {"plain": [item("b")]}, {"plain": [item("b")]}),
        ({"map": {"a": "1", "b": "2"}}, {"map": {"a": None, "c": "3"}}, {"map": {"b": "2", "c": "3"}}),
        ({"one": {"a": "1", "b": "2"}}, {"one": {"$retainKeys": ["b"], "b": "3"}}, {"one": {"b": "3"}}),
        ({"one": {"a": "1"}}, {"one": {"$patch": "replace", "b": "2"}}, {"one": {"b": "2"}}),
        ({"one": {"a": "1"}}, {"one": {"$patch": "delete"}}, {"one": {}}),
        ({"replaced": {"a": "1"}}, {"replaced": {"b": "2"}}, {"replaced": {"b": "2"}}),
        (
            {},
            {"one": {"a": None, "b": "1"}, "keyed": [{"name": "x", "$patch": "delete"}]},
            {"one": {"b": "1"}, "keyed": []},
        ),
    ],
)
def test_each_directive_of_a_strategic_merge(
    original: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    """The order of lists is that of Kubernetes."""
    assert strategic_merge(original, patch, SCHEMA) == expected


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"keyed": [{"value": "1"}]}, "does not contain its merge key name"),
        ({"one": {"$patch": "merge"}}, "unknown value 'merge' of $patch"),
        ({"one": {"$retainKeys": "a"}}, "must be a list"),
        ({"one": {"$retainKeys": ["a"], "b": "1"}}, "does not name"),
    ],
)
def test_an_invalid_directive_is_named(patch: dict[str, Any], message: str) -> None:
    """The message names the directive."""
    with pytest.raises(BadPatch) as refused:
        strategic_merge({"keyed": [item("a")], "one": {}}, patch, SCHEMA)
    assert message in str(refused.value)


def test_merge_patches_follow_rfc_7386() -> None:
    """Examples of RFC 7386, appendix A."""
    assert merge_patch({"a": "b"}, {"a": "c"}) == {"a": "c"}
    assert merge_patch({"a": "b", "b": "c"}, {"a": None}) == {"b": "c"}
    assert merge_patch({"a": [{"b": "c"}]}, {"a": [1]}) == {"a": [1]}
    assert merge_patch({"e": None}, {"a": 1}) == {"e": None, "a": 1}
    assert merge_patch({}, {"a": {"bb": {"ccc": None}}}) == {"a": {"bb": {}}}
    assert merge_patch({"a": "c"}, ["c"]) == ["c"]


# --- field sets ------------------------------------------------------------------------------------------------------

leaves: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(("f:a", "f:b", "f:c")), st.just({}), max_size=3
)
sets = st.recursive(leaves, lambda inner: st.dictionaries(st.sampled_from(("f:a", "f:b", "k:1")), inner, max_size=3))


def members(fields: dict[str, Any], prefix: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = set()
    for name, node in fields.items():
        if name == ".":
            continue
        if not node or "." in node:
            found.add((*prefix, name))
        found |= members(node, (*prefix, name))
    return found


@given(sets, sets)
def test_field_sets_have_the_operations_of_sets(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Union, difference and intersection are those of their members, and change no operand."""
    before = deepcopy((one, other))
    assert members(union(one, other)) == members(one) | members(other)
    assert members(difference(one, other)) == members(one) - members(other)
    assert members(intersection(one, other)) == members(one) & members(other)
    assert (one, other) == before


values = st.fixed_dictionaries(
    {},
    optional={
        "keyed": st.lists(
            st.builds(item, st.sampled_from("abc"), st.sampled_from("123")), unique_by=lambda one: one["name"]
        ),
        "set": st.lists(st.sampled_from("xyz"), unique=True),
        "plain": st.lists(st.builds(item, st.sampled_from("ab")), max_size=2),
        "map": st.dictionaries(st.sampled_from("mn"), st.sampled_from("12")),
        "one": st.dictionaries(st.sampled_from("ab"), st.sampled_from("12")),
    },
)


@given(values, values)
def test_applying_twice_is_applying_once(live: dict[str, Any], applied: dict[str, Any]) -> None:
    """The merged value contains what was applied; merging again changes nothing."""
    merged = field_merging.merge(SCHEMA, live, applied)
    assert field_merging.merge(SCHEMA, merged, applied) == merged
    wanted = members(fieldsets.fields_of(SCHEMA, applied))
    assert wanted <= members(fieldsets.fields_of(SCHEMA, merged)) | {("f:map",), ("f:one",)}


@given(values)
def test_removing_all_fields_leaves_an_empty_object(value: dict[str, Any]) -> None:
    """Except empty lists, which have no fields of their own."""
    fields = fieldsets.fields_of(SCHEMA, value)
    rest = field_merging.remove(SCHEMA, value, fieldsets.with_named_fields(SCHEMA, fields)) or {}
    assert all(one in ([], {}) for one in rest.values())
