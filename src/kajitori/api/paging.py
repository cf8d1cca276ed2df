"""Query parameters, and tokens for the next page of a list.

A token encodes the last item's place in the order. So pages stay correct while items are added and removed.
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
    """Return the token for a place in the order."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


def decode_token(token: str, kind: type[T]) -> T:
    """Return the place that a token encodes. Raises InvalidInput for a token that no server wrote."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=kind)
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        raise InvalidInput.one(
            "continue",
            "is not from an earlier answer",
            value=token[:80],
            hint="start again without it",
        ) from None


class Parameters(BaseModel):
    """Base class of query parameters. Unknown parameters are refused."""

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, validate_by_name=False, use_attribute_docstrings=True, frozen=True
    )


class PageParameters(Parameters):
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    """Largest number of items in one answer."""
    continue_: str = Field(default="", alias="continue", max_length=4096)
    """The value of `continue` in the previous page's answer."""
