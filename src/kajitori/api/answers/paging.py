"""Query parameters, and tokens for the next page of a list.

A token encodes the last item's place in the order. So pages stay correct while items are added and removed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Annotated, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from kajitori.core.documents.docstrings import Described
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.kubernetes.selectors import LabelSelector, SelectorError, parse_labels
from kajitori.errors import Fault, InvalidInput

T = TypeVar("T")

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
MAX_WORDS = 16
"""Most words of a search."""

SUMMARY = "summary"
"""The value of `fields` that asks for the rows of a table."""

ShortName = Annotated[str, Field(max_length=253)]
UserName = Annotated[str, Field(max_length=1024)]

Place = tuple[str, str, str, str]
"""Place of an item in a list: two texts that depend on the order, namespace, name."""


def encode_token(place: int | tuple[str | float, ...]) -> str:
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


class Parameters(Described, BaseModel):
    """Base class of query parameters. Unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=False, frozen=True)


class PageParameters(Parameters):
    limit: int = Field(default=DEFAULT_LIMIT, ge=1, le=MAX_LIMIT)
    """Largest number of items in one answer."""
    continue_: str = Field(default="", alias="continue", max_length=4096)
    """The value of `continue` in the previous page's answer."""


class TableParameters(PageParameters):
    """Parameters of a list that is shown as a table as well."""

    offset: int = Field(default=0, ge=0, le=10_000_000)
    """Number of items to skip, for windows of a long list. Unlike with `continue`, an item may be missed or shown twice
    if others come and go in between."""
    sort: str | None = None
    fields: Sequence[str] = ()


class SinceParameters(Parameters):
    """Parameters that choose the beginning of a stream of changes."""

    since: str = Field(default="", max_length=256)
    """Version of an earlier answer. The header `Last-Event-ID` comes first, if there is one."""
    items: bool = True
    """Whether snapshots contain the items. Without them the client reads windows of the list again."""


def place_after(query: TableParameters, orders: Collection[str]) -> Place | None:
    """Return the place after which a page begins; None for the first page.

    orders: the known values of `sort`. Raises InvalidInput if the parameters contradict each other, and for the place
    in another order.
    """
    faults = []
    if SUMMARY in query.fields and len(query.fields) > 1:
        faults.append(Fault("fields", "summary cannot be combined with fields", hint="leave out one of them"))
    if query.continue_ and query.offset:
        faults.insert(
            0, Fault("offset", "cannot be combined with continue", str(query.offset), "leave out one of them")
        )
    if faults:
        raise InvalidInput(faults)
    if not query.continue_:
        return None
    after = decode_token(query.continue_, tuple[str, str, str, str])
    if (after[0] if after[0] in orders else None) != query.sort:
        hint = "start again without it, or send the same sort"
        raise InvalidInput.one("continue", "is from an answer in another order", value=query.continue_[:80], hint=hint)
    return after


def page_of(
    items: Sequence[T],
    place_of: Callable[[T], Place],
    query: TableParameters,
    after: Place | None,
    *,
    descending: bool,
) -> tuple[list[T], str]:
    """Return the items of a page in their order, and the token for the next page; it is empty on the last page."""
    places = {place_of(item): item for item in items}
    order = sorted(places, key=lambda place: place[2:])
    order.sort(key=lambda place: place[:2], reverse=descending)  # stable: names decide among equals
    if after is not None:
        order = [place for place in order if _follows(place, after, descending=descending)]
    until = query.offset + query.limit
    page = order[query.offset : until]
    return [places[place] for place in page], encode_token(page[-1]) if len(order) > until else ""


def _follows(place: Place, after: Place, *, descending: bool) -> bool:
    if place[:2] == after[:2]:
        return place[2:] > after[2:]
    return place[:2] < after[:2] if descending else place[:2] > after[:2]


def narrowed(view: msgspec.Raw, fields: Sequence[str]) -> msgspec.Raw | dict[str, msgspec.Raw]:
    """Return an item's view with only these fields; with all of them if none are named."""
    if not fields:
        return view
    whole = msgspec.json.decode(view, type=dict[str, msgspec.Raw])
    return {field: whole[field] for field in fields if field in whole}


def words_of(search: str) -> list[str]:
    """Return the words of a search in lower case. Raises InvalidInput if there are too many."""
    words = search.casefold().split()
    if len(words) > MAX_WORDS:
        raise InvalidInput.one("search", f"has {len(words)} words; {MAX_WORDS} are allowed", value=search[:80])
    return words


def labels_of(text: str) -> LabelSelector:
    """Return the label selector in a parameter. Raises InvalidInput."""
    try:
        return parse_labels(text)
    except SelectorError as fault:
        hint = "such as team=vision,stage in (train,tune),!debug"
        raise InvalidInput.one("labelSelector", fault.message, value=text[:80], hint=hint) from fault


def seconds_of(field: str, text: str) -> int | None:
    """Return a time in seconds since 1970; None for an empty text. Raises InvalidInput for any other text."""
    if not text:
        return None
    try:
        moment: datetime = msgspec.convert(text, datetime)
        if moment.tzinfo is None:
            raise ValueError(text)
        return int(moment.timestamp())
    except (msgspec.ValidationError, ValueError, OverflowError):
        raise InvalidInput.one(
            field, f"{text!r:.80} is not a time", value=text, hint="write one such as 2026-11-21T10:00:00Z"
        ) from None


def span_of(since: str, until: str, length: timedelta, now: int) -> tuple[int, int]:
    """Return the beginning and end that a query asks for, in seconds since 1970.

    The end is never after `now`, which is also its default; that of the beginning is `length` before the end. Raises
    InvalidInput if a text is no time, or if the beginning is after the end.
    """
    end = min(seconds_of("until", until) or now, now)
    beginning = seconds_of("since", since)
    if beginning is None:
        return end - int(length.total_seconds()), end
    if beginning > end:
        raise InvalidInput.one("since", "is after the end", value=since, hint="name an earlier time")
    return beginning, end


def time_text(seconds: int | None) -> str:
    """Return a time as answers have it; empty for None."""
    return format_time(time_at(seconds)) if seconds is not None else ""
