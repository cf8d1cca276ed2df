"""Parameters of queries, and where a page of answers ended.

The place of the last item is a text that the caller brings back: pages stay right while items come and go.
"""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kajitori.errors import InvalidInput

T = TypeVar("T")

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000


def encode_token(place: int | tuple[str | int, ...]) -> str:
    """The text for a place in an order."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


def decode_token(token: str, kind: type[T]) -> T:
    """The place that a token names. Raises InvalidInput for what this server did not write."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=kind)
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        raise InvalidInput.one(
            "continue",
            "is not what an earlier answer said",
            value=token[:80],
            hint="begin again without it",
        ) from None


class Parameters(BaseModel):
    """Base of the parameters of a query: unknown ones are refused."""

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, validate_by_name=False, use_attribute_docstrings=True, frozen=True
    )


class PageParameters(Parameters):
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    """Largest number of items in one answer."""
    continue_: str = Field(default="", alias="continue", max_length=4096)
    """What the page before said."""
