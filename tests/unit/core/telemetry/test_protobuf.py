"""The wire format of protobuf, as its official library writes it."""

from __future__ import annotations

import pytest
from google.protobuf.struct_pb2 import Struct
from google.protobuf.wrappers_pb2 import DoubleValue, FloatValue, StringValue, UInt64Value

from kajitori.core.telemetry.protobuf import fields, parts, text


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (DoubleValue(value=-2.5), -2.5),
        (FloatValue(value=0.25), 0.25),
        (UInt64Value(value=1 << 63), 1 << 63),
        (StringValue(value="舵"), "舵".encode()),
    ],
)
def test_every_kind_of_value_is_read(message: DoubleValue, value: object) -> None:
    written = message.SerializeToString()
    assert list(fields(written)) == [(1, value)]
    for cut in range(1, len(written)):
        with pytest.raises(ValueError, match="cut off"):
            list(fields(written[:cut]))


def test_messages_in_messages_are_parts() -> None:
    made = Struct()
    made.update({"a": "x", "b": 1.5})
    entries = {text(entry, 1): list(parts(entry, 2)) for entry in parts(made.SerializeToString(), 1)}
    assert text(entries["a"][0], 3) == "x" and list(fields(entries["b"][0])) == [(2, 1.5)]


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="kind 7"):
        list(fields(b"\x0f"))
    with pytest.raises(ValueError, match="cut off"):
        list(fields(b"\xff" * 20))
