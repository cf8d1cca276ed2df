"""Events of a run for messages, in its status until the messages are on their way."""

from __future__ import annotations

import msgspec


class Notice(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """An event of the run for a message to its owner or team."""

    id: str
    """Its name within the run: kind and mark."""
    kind: str
    at: str
    text: str = ""


class Notices(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """Events for messages. They wait here until the recipients' outboxes have the messages."""

    noted: dict[str, str] = {}
    """Mark of the last noted event of each kind, so that none is noted twice."""
    waiting: tuple[Notice, ...] = ()
