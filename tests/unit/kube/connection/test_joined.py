"""Upgraded connections that are joined."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kajitori.kube.connection.joined import JoinedEnd


class Transport:
    """Keeps what is written until it is sent, as transports without TLS do; with TLS it encrypts at once."""

    def __init__(self, end: JoinedEnd, *, has_tls: bool = False) -> None:
        self.has_tls = has_tls
        self.written: list[Any] = []
        end.connection_made(cast(Any, self))

    def get_extra_info(self, name: str) -> object:
        return self if name == "ssl_object" and self.has_tls else None

    def write(self, data: bytes | memoryview) -> None:
        self.written.append(bytes(data) if self.has_tls else data)

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None: ...


def receive(end: JoinedEnd, data: bytes) -> None:
    end.get_buffer(-1)[: len(data)] = data
    end.buffer_updated(len(data))


@pytest.mark.parametrize("has_tls", [True, False])
def test_all_ends_read_into_the_same_memory_and_no_byte_is_overwritten(has_tls: bool) -> None:
    """What arrived before the ends are joined comes first."""
    one, other = JoinedEnd(), JoinedEnd()
    here, there = Transport(one, has_tls=has_tls), Transport(other, has_tls=has_tls)
    receive(one, b"early")
    receive(other, b"first")
    one.join(other)
    other.join(one)
    receive(one, b"to there")
    receive(other, b"to here")
    assert b"".join(there.written) == b"earlyto there"
    assert b"".join(here.written) == b"firstto here"
