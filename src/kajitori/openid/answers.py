"""Reading the answers of another organisation's server."""

from __future__ import annotations

import aiohttp


class AnswerTooLong(Exception):
    """An answer is longer than its reader accepts."""


async def read_whole(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    """Return the whole body of an answer from another server, which decides how long it is.

    `content.read(most_bytes)` would return the part that has arrived. Raises AnswerTooLong beyond `most_bytes`.
    """
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > most_bytes:
            raise AnswerTooLong(f"more than {most_bytes} bytes")
    return bytes(body)
