"""A spec with faults, as far as it can be read, so that `decide.objections` can check the rest of it as well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from kajitori.core.documents.faults import meant_fields, path_of
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import RunSpec
from kajitori.errors import Fault, InvalidInput

_STAND_IN_IMAGE = "image"
_ROUNDS = 5
"""Maximum number of attempts to read the spec. Each removes what is still faulty: an item, then its parent, then the
whole field."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec as a user wrote it, valid or not."""

    spec: RunSpec | None
    """The readable part of the spec; None if there is none. It is complete only if there are no faults."""
    faults: tuple[Fault, ...] = ()
    """Faults that can be found without policy and cluster."""
    unread: frozenset[str] = frozenset()
    """Paths that are left out of `spec`, for example `resources.gpu`. A misplaced field is listed with its proper
    path."""
    places: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """For each list that lost items: the index that each remaining item had in the written document."""

    def lacks(self, field: str) -> bool:
        """Whether a field (`spec.resources.gpu`), one of its parts or one of its parents could not be read."""
        return any(_paths_overlap(_below_spec(field), path) for path in self.unread)

    def doubts(self, path: str) -> bool:
        """Whether the field at a path below the spec, one of its parts or one of its parents is faulty."""
        faulty = (_below_spec(fault.field) for fault in self.faults)
        return any(_paths_overlap(path, other) for other in (*self.unread, *faulty))

    def as_written(self, fault: Fault) -> Fault:
        """Return a fault of `spec` with the list index of the written document."""
        item = re.match(r"spec\.(\w+)\[(\d+)\]", fault.field)
        if item is None or item[1] not in self.places:
            return fault
        place = self.places[item[1]][int(item[2])]
        return replace(fault, field=f"spec.{item[1]}[{place}]{fault.field[item.end() :]}")


def read_draft(document: object) -> Draft:
    """Read the spec in a document as far as possible, with all faults that it has by itself."""
    try:
        return Draft(parse_spec(document))
    except InvalidInput as error:
        faults = error.faults
    if not isinstance(document, Mapping):
        return Draft(None, faults)
    return _readable_part(document, faults)


def _readable_part(document: Mapping[str, Any], faults: tuple[Fault, ...]) -> Draft:
    """Return the part of a document that can be read without its faulty items and fields."""
    rest = deepcopy(dict(document))
    places = {key: list(range(len(value))) for key, value in rest.items() if isinstance(value, list)}
    unread: set[str] = set()
    for _ in range(_ROUNDS):
        try:
            spec = RunSpec.model_validate(rest)
        except ValidationError as error:
            locations = {tuple(detail["loc"][:2]) for detail in error.errors(include_url=False)}
            unread |= {path_of("", meant) for meant in meant_fields(error, RunSpec)}
            if () in locations or not locations:
                return Draft(None, faults, frozenset(unread))
        else:
            changed = {key: tuple(kept) for key, kept in places.items() if len(kept) != len(document[key])}
            return Draft(spec, faults, frozenset(unread), changed)
        for location in sorted(locations, key=_place_of, reverse=True):  # the last item of a list first
            unread.add(_remove(rest, places, location))
    return Draft(None, faults, frozenset(unread))


def _place_of(location: tuple[Any, ...]) -> tuple[str, int]:
    return str(location[0]), location[1] if len(location) > 1 and isinstance(location[1], int) else -1


def _remove(rest: dict[str, Any], places: dict[str, list[int]], location: tuple[Any, ...]) -> str:
    """Remove the item or field at a location from the document, and return the path at which it was written."""
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
    if part == "image":  # the only required field
        rest[part] = _STAND_IN_IMAGE
    return str(part)


def _below_spec(field: str) -> str:
    return field.removeprefix("spec.")


def _paths_overlap(path: str, other: str) -> bool:
    """Whether two paths are the same, or one contains the other."""
    return _is_part(path, other) or _is_part(other, path)


def _is_part(path: str, whole: str) -> bool:
    return path == whole or (path.startswith(whole) and path[len(whole)] in ".[")
