"""Reads the answers of another organisation's server."""

from __future__ import annotations

import aiohttp


class AnswerTooLong(Exception):
    """An answer is longer than its reader accepts."""


async def read_whole(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Return the whole body of an answer from another server. Raises AnswerTooLong if it is longer than `most_bytes`.

    `content.read(most_bytes)` would return only the part that has arrived.
    """
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            raise AnswerTooLong(f"more than {most_bytes} bytes")
    return bytes(body)
