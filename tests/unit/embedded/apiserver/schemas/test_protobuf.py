"""Kubernetes' protobuf form, as kubectl sends it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.apiserver.schemas import protobuf

MAGIC = b"k8s\x00"


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(*fields: tuple[int, Any]) -> bytes:
    """Return a message: whole numbers as varints; texts, bytes and messages with their length."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + message((1, message((1, api_version), (2, kind))), (2, raw), (3, ""), (4, ""))


def test_a_pod_in_protobuf_form_is_read() -> None:
    """Names, lists, maps, quantities, inlined volume sources, negative numbers and empty times."""
    resources = message((1, message((1, "cpu"), (2, message((1, "500m"))))))
    probe = message((1, message((3, message((1, message((1, 0), (2, 80))))))), (2, 5))
    port = message((1, "http"), (3, 8080), (4, "TCP"))
    container = message((1, "main"), (2, "i"), (3, "a"), (3, "b"), (6, port), (8, resources), (10, probe))
    volume = message((1, "cache"), (2, message((2, message((1, "Memory"))))))
    security = message((4, 3), (4, 4))
    spec = message((1, volume), (2, container), (4, -1), (14, security))
    meta = message((1, "p"), (8, message((1, 0), (2, 0))), (11, message((1, "app"), (2, "x"))))
    obj = protobuf.decode(envelope("v1", "Pod", message((1, meta), (2, spec))))
    assert obj["apiVersion"] == "v1"
    assert obj["metadata"] == {"name": "p", "labels": {"app": "x"}}
    spec_read = obj["spec"]
    assert spec_read["volumes"] == [{"name": "cache", "emptyDir": {"medium": "Memory"}}]
    assert spec_read["terminationGracePeriodSeconds"] == -1
    assert spec_read["securityContext"] == {"supplementalGroups": [3, 4]}
    read = spec_read["containers"][0]
    assert (read["name"], read["command"]) == ("main", ["a", "b"])
    assert read["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert read["resources"] == {"limits": {"cpu": "500m"}}
    assert read["livenessProbe"] == {"tcpSocket": {"port": 80}, "initialDelaySeconds": 5}


def test_bytes_become_base64_and_times_rfc_3339() -> None:
    meta = message((1, "s"), (8, message((1, 1767225600), (2, 0))))
    obj = protobuf.decode(envelope("v1", "Secret", message((1, meta), (2, message((1, "k"), (2, b"\x00\xff"))))))
    assert obj["data"] == {"k": "AP8="}
    assert obj["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_delete_options_are_read_in_any_group() -> None:
    """Clients send them with the group of the deleted object."""
    obj = protobuf.decode(envelope("policy/v1", "DeleteOptions", message((1, 30), (4, "Foreground"))))
    assert obj["gracePeriodSeconds"] == 30
    assert obj["propagationPolicy"] == "Foreground"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        MAGIC + b"\x0a\xff",
        envelope("v1", "Nothing", b""),
        envelope("apps/v1", "Deployment", b""),
        envelope("v1", "Pod", b"\x0a\x05ab"),
        envelope("v1", "Pod", message((1, message((1, b"\xff\xfe"))))),
        envelope("v1", "Pod", message((2, message((1, message((2, message((8, b""))))))))),
    ],
)
def test_invalid_protobuf_is_refused(body: bytes) -> None:
    """Incomplete bodies and unknown kinds raise ValueError, which becomes a 400."""
    with pytest.raises(ValueError, match=r"."):
        protobuf.decode(body)


@given(st.sampled_from(["Pod", "Secret", "Node", "Event", "Service"]), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(kind: str, raw: bytes) -> None:
    with contextlib.suppress(ValueError):
        protobuf.decode(envelope("v1", kind, raw))
