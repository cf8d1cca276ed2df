"""Versions that may follow each other, and changes of a schema that stored objects survive."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kajitori.install.versions import breaks, faults_in, is_downgrade, step_fault

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["batch", "service"]},
        "replicas": {"type": "integer", "minimum": 0, "maximum": 100},
        "names": {"type": "array", "items": {"type": "string", "maxLength": 10}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
STORED = {"kind": "batch", "replicas": 40, "names": ["a" * 9], "labels": {"team": "vision"}}


@pytest.mark.parametrize(
    ("installed", "new", "way_out"),
    [
        ("0.1.0", "0.1.3", None),
        ("0.1.3", "0.1.0", None),
        ("0.1.0", "0.2.0", None),
        ("0.2.0", "0.1.9", None),
        ("0.1.0", "0.3.0", "kajitori 0.2"),
        ("0.3.1", "0.1.0", "kajitori 0.2"),
        ("0.9.1", "1.0.0", None),
        ("1.0.0", "0.9.1", None),
        ("0.9.1", "1.1.0", "last minor version of 0"),
        ("1.2.0", "3.0.0", "last minor version of 1"),
        ("", "0.1.0", "repair"),
    ],
)
def test_an_upgrade_goes_one_minor_version_at_a_time(installed: str, new: str, way_out: str | None) -> None:
    fault = step_fault(installed, new)
    assert (fault is None) == (way_out is None)
    assert fault is None or way_out is None or way_out in fault.hint


def test_an_older_version_is_a_downgrade() -> None:
    assert is_downgrade("0.2.0", "0.1.9") and is_downgrade("1.0.0", "0.9.0")
    assert not is_downgrade("0.1.0", "0.1.0") and not is_downgrade("0.1.9", "0.1.0"), "a patch is no other version"


@pytest.mark.parametrize(
    ("field", "change", "said", "hits_stored"),
    [
        ("kind", {"enum": ["service"]}, "no longer accepts batch", True),
        ("kind", {"enum": ["batch"]}, "no longer accepts service", False),
        ("kind", {"enum": ["batch", "service", "more"]}, "", False),
        ("replicas", {"maximum": 30}, "maximum has become 30", True),
        ("replicas", {"maximum": 200}, "", False),
        ("replicas", {"minimum": 1}, "minimum has become 1", False),
        ("replicas", {"type": "string"}, "was integer, is string", True),
        ("names", {"items": {"type": "string", "maxLength": 8}}, "names[]: its maxLength", True),
        ("names", {"maxItems": 5}, "maxItems has become 5", False),
        ("labels", {"additionalProperties": {"type": "integer"}}, "labels.*: was string", True),
        ("names", None, ".names is gone", True),
    ],
)
def test_a_narrower_schema_is_noticed(field: str, change: dict[str, Any] | None, said: str, hits_stored: bool) -> None:
    new = copy.deepcopy(SCHEMA)
    if change is None:
        del new["properties"][field]
    else:
        new["properties"][field] |= change
    found = list(breaks(SCHEMA, new))
    assert said in "; ".join(found) if said else not found
    assert bool(list(faults_in(STORED, new, SCHEMA))) == hits_stored


def test_new_requirements_are_noticed_and_new_fields_are_allowed() -> None:
    new = copy.deepcopy(SCHEMA) | {"required": ["owner"], "x-kubernetes-validations": [{"rule": "self.replicas > 1"}]}
    new["properties"]["owner"] = {"type": "string"}
    assert list(breaks(SCHEMA, new)) == [
        "the object: there is a new rule: self.replicas > 1",
        ".owner has become required",
    ]
    assert list(faults_in(STORED, new, SCHEMA)) == [".owner is missing and has become required"]
    del new["required"], new["x-kubernetes-validations"]
    assert not list(breaks(SCHEMA, new))
