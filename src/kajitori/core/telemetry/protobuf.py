"""Fields of messages in protobuf's wire format (https://protobuf.dev/programming-guides/encoding/).

For messages of which a few fields are needed: TensorBoard's events, and the kubelet's pod-resources API. So agents need
neither generated code nor protobuf's library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator


def fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield number and value of each field: bytes for texts and messages. Raises ValueError if it is no message."""
    place, size = 0, len(message)
    while place < size:
        key, place = _read_varint(message, place)
        value: int | float | bytes
        match key & 7:
            case 0:
                value, place = _read_varint(message, place)
            case 2:
                length, start = _read_varint(message, place)
                place = start + length
                value = message[start:place]
            case (1 | 5) as kind:
                code, place = ("<d", place + 8) if kind == 1 else ("<f", place + 4)
                value = struct.unpack(code, message[place - struct.calcsize(code) : place])[0] if place <= size else 0
            case kind:
                raise ValueError(f"no message of protobuf: a field of kind {kind}")
        if place > size:
            raise ValueError("no message of protobuf: it is cut off")
        yield key >> 3, value


def parts(message: bytes, number: int) -> Iterator[bytes]:
    """Yield all values of a field of texts or messages. Raises ValueError if it is no message."""
    return (value for field, value in fields(message) if field == number and isinstance(value, bytes))


def text(message: bytes, number: int) -> str:
    """Return a field of text; of several values the last one, as protobuf demands. Empty if there is none."""
    found = b""
    for value in parts(message, number):
        found = value
    return found.decode(errors="replace")


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    """Return the number at this place, and the place after it."""
    value = shift = 0
    while place < len(message) and shift < 64:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
    raise ValueError("no message of protobuf: it is cut off")
