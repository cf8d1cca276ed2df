"""A spec with faults, as far as it can be read: `decide.objections` then says what there is against the rest of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from kajitori.core.documents.faults import meant_fields, path_of
from kajitori.core.spec.run import RunSpec, parse_spec
from kajitori.errors import Fault, InvalidInput

_STAND_IN_IMAGE = "image"
_ROUNDS = 5
"""Each takes something away: an item, then what it stood in, then the whole field."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody wrote, whether or not it is right."""

    spec: RunSpec | None
    """What could be read of it; None where that is nothing. It is whole only without faults."""
    faults: tuple[Fault, ...] = ()
    """What is wrong with it by itself."""
    unread: frozenset[str] = frozenset()
    """Paths of what is left out of `spec`, such as `resources.gpu`, also where it was written in another place."""
    places: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of lists that lack some items: which place each of those that are left has in what was written."""

    def lacks(self, field: str) -> bool:
        """Whether a field (`spec.resources.gpu`), a part of it, or what it is a part of could not be read."""
        return any(_touch(_below_spec(field), path) for path in self.unread)

    def doubts(self, path: str) -> bool:
        """Whether a path below the spec, a part of it, or what it is a part of is faulty."""
        return any(_touch(path, other) for other in (*self.unread, *(_below_spec(each.field) for each in self.faults)))

    def as_written(self, fault: Fault) -> Fault:
        """A fault that was found in `spec`, with its place in what was written."""
        item = re.match(r"spec\.(\w+)\[(\d+)\]", fault.field)
        if item is None or item[1] not in self.places:
            return fault
        place = self.places[item[1]][int(item[2])]
        return replace(fault, field=f"spec.{item[1]}[{place}]{fault.field[item.end() :]}")


def read_draft(document: object) -> Draft:
    """The spec of a document, and every fault that it has by itself."""
    try:
        return Draft(parse_spec(document))
    except InvalidInput as error:
        faults = error.faults
    if not isinstance(document, Mapping):
        return Draft(None, faults)
    spec, unread, places = _readable_part(document)
    return Draft(spec, faults, unread, places)


def _readable_part(document: Mapping[str, Any]) -> tuple[RunSpec | None, frozenset[str], dict[str, tuple[int, ...]]]:
    """The document without what is wrong in it, as little as possible; which paths were left out; see Draft.places."""
    rest = deepcopy(dict(document))
    places = {key: list(range(len(value))) for key, value in rest.items() if isinstance(value, list)}
    unread: set[str] = set()
    for _ in range(_ROUNDS):
        try:
            spec = RunSpec.model_validate(rest)
        except ValidationError as error:
            locations = {tuple(each["loc"][:2]) for each in error.errors(include_url=False)}
            unread |= {path_of("", meant) for meant in meant_fields(error, RunSpec)}
            if () in locations or not locations:
                return None, frozenset(unread), {}
        else:
            changed = {key: tuple(kept) for key, kept in places.items() if len(kept) != len(document[key])}
            return spec, frozenset(unread), changed
        for location in sorted(locations, key=_place, reverse=True):  # the last item of a list first
            unread.add(_take_away(rest, places, location))
    return None, frozenset(unread), {}


def _place(location: tuple[Any, ...]) -> tuple[str, int]:
    return str(location[0]), location[1] if len(location) > 1 and isinstance(location[1], int) else -1


def _take_away(rest: dict[str, Any], places: dict[str, list[int]], location: tuple[Any, ...]) -> str:
    """Takes the item or field at a location out of the document; gives the path it was written at."""
    part, inner = location[0], location[1] if len(location) > 1 else None
    holder = rest.get(part)
    if isinstance(holder, list) and isinstance(inner, int) and inner < len(holder):
        del holder[inner]
        return path_of("", (part, places[part].pop(inner)))
    if isinstance(holder, dict) and inner is not None and inner in holder:
        del holder[inner]
        return path_of("", (part, inner))
    rest.pop(part, None)
    places.pop(part, None)
    if part == "image":  # it alone is required
        rest[part] = _STAND_IN_IMAGE
    return str(part)


def _below_spec(field: str) -> str:
    return field.removeprefix("spec.")


def _touch(path: str, other: str) -> bool:
    """Whether they are the same, or one is a part of the other."""
    return _is_part(path, other) or _is_part(other, path)


def _is_part(path: str, whole: str) -> bool:
    return path == whole or (path.startswith(whole) and path[len(whole)] in ".[")
