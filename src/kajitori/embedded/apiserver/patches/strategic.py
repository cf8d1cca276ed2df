"""Strategic merge patch (apimachinery `pkg/util/strategicpatch`): a merge that knows the keys of lists."""

from __future__ import annotations

from typing import Any

from kajitori.embedded.apiserver.schemas.schema import ANY, Schema

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


class BadPatch(ValueError):
    """A patch that cannot be applied."""


def strategic_merge(original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Merge a patch into the original. Both may be changed.

    Raises:
        BadPatch: a directive is wrong, or an element has no merge key.
    """
    if _DIRECTIVE in patch:
        return _follow_directive(patch)
    _retain_keys(original, patch)
    _merge_ordered(original, patch, schema)
    for key, value in patch.items():
        deletes = key.startswith(_DELETE)
        name = key.removeprefix(_DELETE)
        if value is None:
            original.pop(name, None)
            continue
        if name not in original or type(original[name]) is not type(value):
            if not deletes:
                original.pop(name, None)
                if not _is_directive(value):
                    original[name] = _without_directives(value)
            continue
        present = original[name]
        original[name] = _merge_value(present, value, _schema_of(schema, name), deletes=deletes)
    return original


def _merge_value(present: Any, value: Any, schema: Schema, *, deletes: bool) -> Any:
    merges = "merge" in schema.patch_strategy
    if isinstance(value, dict):
        return (
            _without_directives(value)
            if "replace" in schema.patch_strategy
            else strategic_merge(present, value, schema)
        )
    if isinstance(value, list):
        if deletes:
            return [one for one in present if one not in value]
        return _merge_list(present, value, schema) if merges else value
    return value


def _merge_list(original: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    if not original and not patch:
        return original
    sample = (original or patch)[0]
    key = schema.patch_merge_key
    if not isinstance(sample, dict):
        merged = list(original)
        merged += [one for index, one in enumerate(patch) if one not in original and one not in patch[:index]]
        return _order_merged(merged, patch, original, "")
    if not key:
        raise BadPatch("cannot merge lists without merge key")
    original, patch = _special_elements(original, patch, key)
    merged = list(original)
    for one in patch:
        value = _key_of(one, key)
        found = next((index for index, other in enumerate(merged) if other.get(key) == value), None)
        if found is None:
            merged.append(_without_directives(one))
        else:
            merged[found] = strategic_merge(merged[found], one, schema.items or ANY)
    return _order_merged(merged, patch, original, key)


def _special_elements(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    rest, replaces = [], False
    for one in patch:
        if not isinstance(one, dict):
            raise BadPatch("expected a map in a list of maps")
        directive = one.get(_DIRECTIVE)
        if directive is None:
            rest.append(one)
        elif directive == "delete":
            value = _key_of(one, key)
            original = [other for other in original if other.get(key) != value]
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise BadPatch("merging lists cannot yet be specified in the patch")
        else:
            raise BadPatch(f"unknown value {directive!r} of $patch")
    return (rest, []) if replaces else (original, rest)


def _merge_ordered(original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> None:
    """Merge the lists for which the patch gives an order, and remove them from the patch."""
    for directive in [name for name in patch if name.startswith(_ORDER)]:
        order = patch.pop(directive)
        name = directive.removeprefix(_ORDER)
        if not isinstance(order, list):
            raise BadPatch("$setElementOrder must be a list")
        part = _list_schema(schema, name)
        had = original.get(name)
        given = patch.pop(name, None)
        if had is None and given is None:
            continue
        if had is None:
            merged = _without_directives(given)
        elif given is None:
            merged = had
        else:
            merged = _merge_value(had, given, part, deletes=False)
        removed = patch.pop(f"{_DELETE}{name}", None)
        if removed:
            merged = [one for one in merged if one not in removed]
        original[name] = _order_merged(merged, order, had or [], part.patch_merge_key)


def _list_schema(schema: Schema, name: str) -> Schema:
    """Return the schema of a list for which the patch gives an order."""
    if schema.type == "map":
        raise BadPatch("$setElementOrder is not allowed in a map")
    if schema is not ANY and name not in schema.properties:
        raise BadPatch(f'{schema.reference.rpartition(".")[2]} has no field "{name}"')
    return _schema_of(schema, name)


def _order_merged(merged: list[Any], patch_order: list[Any], server_order: list[Any], key: str) -> list[Any]:
    """Order merged items: items of the patch in its order, other items in the server's, interleaved as on the
    server."""

    def identity(one: Any) -> Any:
        return one.get(key) if key and isinstance(one, dict) else one

    ranks = _ranks_of([identity(one) for one in patch_order])
    places = _ranks_of([identity(one) for one in server_order])
    ours = sorted((one for one in merged if _rank_of(ranks, identity(one)) >= 0), key=lambda one: ranks[identity(one)])
    rest = [one for one in merged if _rank_of(ranks, identity(one)) < 0]
    rest.sort(key=lambda one: _rank_of(places, identity(one)))
    result: list[Any] = []
    left = right = 0
    while left < len(rest) and right < len(ours):
        mine, theirs = _rank_of(places, identity(rest[left])), _rank_of(places, identity(ours[right]))
        if 0 <= mine < theirs:
            result.append(rest[left])
            left += 1
        else:
            result.append(ours[right])
            right += 1
    return [*result, *ours[right:], *rest[left:]]


def _ranks_of(values: list[Any]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for index, value in enumerate(values):
        if not isinstance(value, dict | list):
            found.setdefault(value, index)
    return found


def _rank_of(ranks: dict[Any, int], value: Any) -> int:
    return -1 if isinstance(value, dict | list) else ranks.get(value, -1)


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    kept = patch.pop(_RETAIN, None)
    if kept is None:
        return
    if not isinstance(kept, list) or not all(isinstance(one, str) for one in kept):
        raise BadPatch("$retainKeys must be a list of names")
    missing = [name for name in patch if not name.startswith("$") and name not in kept]
    if missing:
        raise BadPatch("the patch has fields that its $retainKeys does not name")
    for name in [name for name in original if name not in kept]:
        del original[name]


def _follow_directive(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        replaced: dict[str, Any] = _without_directives(
            {name: value for name, value in patch.items() if name != _DIRECTIVE}
        )
        return replaced
    if directive == "delete":
        return {}
    raise BadPatch(f"unknown value {directive!r} of $patch")


def _without_directives(value: Any) -> Any:
    """Return a part of a patch that has no counterpart in the original: without nulls and directives."""
    if isinstance(value, dict):
        return {
            name: _without_directives(one)
            for name, one in value.items()
            if one is not None
            and not _is_directive(one)
            and name not in (_DIRECTIVE, _RETAIN)
            and not name.startswith((_ORDER, _DELETE))
        }
    if isinstance(value, list):
        return [_without_directives(one) for one in value if not _is_directive(one)]
    return value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _key_of(element: dict[str, Any], key: str) -> Any:
    value = element.get(key)
    if value is None or isinstance(value, dict | list):
        raise BadPatch(f"an item of the list does not contain its merge key {key}")
    return value


def _schema_of(schema: Schema, name: str) -> Schema:
    return schema.properties.get(name) or (schema.items if schema.type == "map" else None) or ANY
