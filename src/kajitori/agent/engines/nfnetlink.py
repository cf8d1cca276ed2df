"""Reads the kernel's nf_tables over netlink: counters of thousands of Pods in a few milliseconds.

Changes are made with the program `nft`. To read with it would take a process, a read-out of every rule and a long JSON
text. Numbers and attributes are those of linux/netfilter/nf_tables.h; messages have the machine's byte order, the
contents of attributes the network's.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from kajitori.errors import Unavailable, Unsupported

NETDEV, INET = 5, 1
"""Families of tables."""

_NETFILTER = 12
_NFTABLES = 10 << 8
_GET_TABLE, _GET_CHAIN, _GET_RULE, _GET_SET, _GET_GENERATION, _GET_OBJECT = 1, 4, 7, 10, 16, 19
_REQUEST, _DUMP, _INTERRUPTED = 0x1, 0x300, 0x10
_ERROR, _DONE = 2, 3
_COUNTER = 1
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_FAMILY = struct.Struct("=BBH")
_LENGTH = struct.Struct("=H")
_NUMBER = struct.Struct(">I")
_LONG = struct.Struct(">Q")
_BODY = _HEADER.size + _FAMILY.size
_NESTED = 0x3FFF
_BUFFER_BYTES = 1 << 17
_ATTEMPTS = 20
_TABLE, _OBJECT_NAME, _OBJECT_TYPE, _OBJECT_DATA, _OBJECT_HANDLE = 1, 2, 3, 4, 6
_COUNTER_BYTES, _COUNTER_PACKETS = 1, 2
_CHAIN_NAME, _SET_NAME, _TABLE_HANDLE, _RULE_CHAIN, _RULE_HANDLE = 3, 2, 4, 2, 3


class _Interrupted(Exception):
    """The rules changed while they were read, so the result may be incomplete."""


class NfTables:
    """A netlink socket in the creator's network namespace. All methods raise Unavailable."""

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETFILTER)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self._socket.settimeout(10)
            self._socket.bind((0, 0))
        except OSError as error:
            raise Unsupported(f"this machine has no netfilter: {error.strerror}") from error
        self._sequence = 0
        self._buffer = bytearray(_BUFFER_BYTES)

    def __enter__(self) -> NfTables:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._socket.close()

    def generation(self) -> int:
        """Return a number that grows with every change of any table."""
        for message in self._ask(_GET_GENERATION, 0, b"", flags=_REQUEST):
            return int(_NUMBER.unpack_from(_attributes_of(message, _BODY)[1])[0])
        raise Unavailable("the kernel did not report the generation of its rules")

    def table(self, family: int, table: str) -> int | None:
        """Return the unique handle of a table; None if it does not exist."""
        for message in self._dump(_GET_TABLE, family, b""):
            found = _attributes_of(message, _BODY)
            if _decoded_text(found[_TABLE]) == table:
                return int(_LONG.unpack_from(found[_TABLE_HANDLE])[0])
        return None

    def chains(self, family: int, table: str) -> list[str]:
        """Return the names of a table's chains."""
        return self._names_in_table(_GET_CHAIN, family, table, _CHAIN_NAME)

    def sets(self, family: int, table: str) -> list[str]:
        """Return the names of a table's sets and maps, without anonymous ones that belong to a rule."""
        return [name for name in self._names_in_table(_GET_SET, family, table, _SET_NAME) if not name.startswith("__")]

    def rules(self, family: int, table: str) -> frozenset[tuple[str, int]]:
        """Return chain and handle of each rule of a table.

        A rule that is deleted and added again gets another handle.
        """
        found = set()
        for message in self._dump(_GET_RULE, family, _packed_attribute(_TABLE, table)):
            attributes = _attributes_of(message, _BODY)
            if _decoded_text(attributes[_TABLE]) == table:
                found.add((_decoded_text(attributes[_RULE_CHAIN]), int(_LONG.unpack_from(attributes[_RULE_HANDLE])[0])))
        return frozenset(found)

    def counters(self, family: int, table: str) -> list[tuple[str, int, int, int]]:
        """Return a table's named counters as (name, handle, bytes, packets). A handle is unique in its table."""
        wanted = _packed_attribute(_TABLE, table) + _packed_attribute(_OBJECT_TYPE, _NUMBER.pack(_COUNTER))
        found = []
        layouts: dict[int, _CounterLayout] = {}
        long = _LONG.unpack_from
        for message in self._dump(_GET_OBJECT, family, wanted):
            layout = layouts.get(len(message))  # thousands have the same layout: parse one of each length
            if layout is None:
                layout = layouts[len(message)] = _counter_layout(message)
            (length,) = _LENGTH.unpack_from(message, layout.name - 4)
            name = str(message[layout.name : layout.name + length - 5], "ascii")
            handle, size, packets = (long(message, place)[0] for place in layout[1:])
            found.append((name, handle, size, packets))
        return found

    def _names_in_table(self, what: int, family: int, table: str, attribute: int) -> list[str]:
        found = (
            _attributes_of(message, _BODY) for message in self._dump(what, family, _packed_attribute(_TABLE, table))
        )
        return [_decoded_text(item[attribute]) for item in found if _decoded_text(item[_TABLE]) == table]

    def _dump(self, what: int, family: int, attributes: bytes) -> list[memoryview]:
        """Return all objects of a kind at one moment; read again if the rules changed meanwhile."""
        for _ in range(_ATTEMPTS):
            try:
                return list(self._ask(what, family, attributes, flags=_REQUEST | _DUMP))
            except _Interrupted:
                continue
        raise Unavailable(f"the rules of this machine changed during each of {_ATTEMPTS} attempts to read them")

    def _ask(self, what: int, family: int, attributes: bytes, *, flags: int) -> Iterator[memoryview]:
        self._sequence += 1
        length = _BODY + len(attributes)
        header = _HEADER.pack(length, _NFTABLES | what, flags, self._sequence, 0)
        try:
            self._socket.send(header + _FAMILY.pack(family, 0, 0) + attributes)
            yield from self._messages(dump=bool(flags & _DUMP))
        except OSError as error:
            raise Unavailable(f"the kernel did not report its rules: {error.strerror or error}") from error

    def _messages(self, *, dump: bool) -> Iterator[memoryview]:
        interrupted = False
        while True:
            # Copy the buffer: messages that were yielded before are still in use.
            read = self._socket.recv_into(self._buffer)
            data = memoryview(bytes(self._buffer[:read]))
            place = 0
            while place < read:
                length, kind, flags, sequence, _ = _HEADER.unpack_from(data, place)
                message = data[place : place + length]
                place += (length + 3) & ~3
                if sequence != self._sequence:
                    continue  # rest of the answer to an abandoned request
                interrupted = interrupted or bool(flags & _INTERRUPTED)
                if kind == _DONE:
                    if interrupted:
                        raise _Interrupted
                    return
                if kind == _ERROR:
                    (number,) = struct.unpack_from("=i", message, _HEADER.size)
                    if number == -2:  # ENOENT: there is no such table
                        return
                    raise Unavailable(f"the kernel refused to report its rules: {os.strerror(-number)}")
                yield message
                if not dump:
                    return


def _packed_attribute(number: int, value: str | bytes) -> bytes:
    payload = value.encode() + b"\0" if isinstance(value, str) else value
    return _ATTRIBUTE.pack(len(payload) + 4, number) + payload + b"\0" * (-len(payload) % 4)


def _attribute_places(message: memoryview, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, start, end) of each attribute's value."""
    while place + 4 <= end:
        length, number = _ATTRIBUTE.unpack_from(message, place)
        yield number & _NESTED, place + 4, place + length
        place += (length + 3) & ~3


def _attributes_of(message: memoryview, place: int) -> dict[int, memoryview]:
    return {number: message[start:end] for number, start, end in _attribute_places(message, place, len(message))}


def _decoded_text(value: memoryview) -> str:
    return str(value[:-1], "ascii", "replace")


class _CounterLayout(NamedTuple):
    """Offsets in the message of a counter."""

    name: int
    handle: int
    bytes: int
    packets: int


def _counter_layout(message: memoryview) -> _CounterLayout:
    outer = {number: (start, end) for number, start, end in _attribute_places(message, _BODY, len(message))}
    inner = {number: start for number, start, _ in _attribute_places(message, *outer[_OBJECT_DATA])}
    name, handle = outer[_OBJECT_NAME][0], outer[_OBJECT_HANDLE][0]
    return _CounterLayout(name, handle, inner[_COUNTER_BYTES], inner[_COUNTER_PACKETS])
