"""Base class of all answers, and answers that several packages share."""

from __future__ import annotations

from typing import Annotated

import msgspec

Time = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


class View(msgspec.Struct, rename="camel", kw_only=True):
    """Base of all answers."""


class Deleted(View):
    """An object that is being deleted."""

    name: str
    namespace: str
