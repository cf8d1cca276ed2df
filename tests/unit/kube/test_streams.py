"""Answers of other servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from kajitori.openid.answers import AnswerTooLong, read_whole


class Content:
    """A body that arrives in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    async def read(self, most: int) -> bytes:
        """Return what has arrived, as aiohttp does."""
        return self.pieces.pop(0)[:most]

    async def iter_any(self) -> AsyncIterator[bytes]:
        while self.pieces:
            yield self.pieces.pop(0)


def response(*pieces: bytes) -> aiohttp.ClientResponse:
    return cast(aiohttp.ClientResponse, cast(Any, SimpleNamespace(content=Content(*pieces))))


async def test_an_answer_in_pieces_is_read_to_its_end() -> None:
    assert await read_whole(response(b"{", b'"a":1', b"}"), 7) == b'{"a":1}'


async def test_an_answer_that_is_too_long_is_refused() -> None:
    with pytest.raises(AnswerTooLong, match="more than 6 bytes"):
        await read_whole(response(b"{", b'"a":1', b"}"), 6)
