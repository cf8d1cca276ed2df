"""Reading of stored specs, valid or not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.spec.reading.stored import StoredSpec, read_stored

WHOLE: dict[str, Any] = {
    "type": "service",
    "priority": "high",
    "stopped": True,
    "replicas": 4,
    "minReplicas": 2,
    "timeLimit": "1h",
    "checkpoint": {"path": "/out", "every": "10m"},
    "image": "bert:3",
    "resources": {"gpu": 8, "gpuType": "h100", "cpu": "500m"},
    "code": {"digest": "abc"},
    "files": {"digest": "def"},
    "secrets": [{"name": "token"}],
    "stdin": True,
    "tty": True,
}
READ = StoredSpec(
    type="service",
    image="bert:3",
    priority="high",
    stopped=True,
    replicas=4,
    min_replicas=2,
    time_limit_seconds=3600,
    has_checkpoint=True,
    checkpoint_every_seconds=600,
    gpus=8,
    gpu_type="h100",
    cpu_millis=500,
    code_digest="abc",
    files_digest="def",
    secret_names=frozenset({"token"}),
    has_stdin=True,
    has_tty=True,
)


def test_every_field_is_read() -> None:
    assert read_stored(json.dumps(WHOLE).encode()) == READ


@pytest.mark.parametrize("field", sorted(WHOLE))
def test_an_unreadable_field_counts_as_omitted(field: str) -> None:
    """All other fields count."""
    unreadable = {**WHOLE, field: "?" if field == "checkpoint" else {"no": []}}
    left_out = {name: value for name, value in WHOLE.items() if name != field}
    found, expected = read_stored(json.dumps(unreadable).encode()), read_stored(json.dumps(left_out).encode())
    if field == "checkpoint":
        assert found.has_checkpoint and not found.checkpoint_every_seconds
    else:
        assert found == expected


@given(st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), lambda inner: st.lists(inner)))
def test_no_stored_document_raises_an_exception(value: Any) -> None:
    read_stored(json.dumps(value).encode())
    for field in WHOLE:
        read_stored(json.dumps({field: value}).encode())
    read_stored(b"{broken")
