"""An outbox: messages of one recipient that are not delivered yet. It is stored before anything of it is sent.

Each channel gets the messages in order, one request at a time. The composition of a request is stored before it is
sent, so after a crash the next leader sends the same request with the same id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from kajitori.core.backoff import backoff_seconds

DIGEST_ABOVE = 3
"""If more messages than this wait for a channel, they become one."""
DIGEST_LISTED = 20
"""Messages of a digest that are listed with their titles."""
SPACING_SECONDS = 2.0
"""Shortest time between two requests to a channel; what gathers meanwhile may become a digest."""
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 900.0
GIVE_UP_SECONDS = 24 * 3600.0
"""A request that could not be delivered for this long is given up."""
MOST_MESSAGES = 1500
"""If more wait, the oldest are dropped; the digest counts them."""
MOST_BODIES = 50
"""Bodies of older messages are dropped: they would only be part of a digest, which lists titles."""
REMEMBERED = 300
"""Ids of delivered messages that are remembered, in case their notice comes again."""


class Message(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """A message about one event of one run."""

    id: str
    kind: str
    at: str
    namespace: str
    run: str
    title: str
    body: str = ""
    channels: tuple[str, ...]
    """Channels that have not got it yet."""


class Request(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """A request to a channel, with one message or a digest of several."""

    id: str
    messages: tuple[str, ...]
    """Ids of the messages in it, in order."""
    since: float
    """Time of the first try, seconds since the epoch."""
    tries: int = 0
    not_before: float = 0.0
    error: str = ""


class ChannelState(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """The current request to one channel, and the outcome of the last one."""

    request: Request | None = None
    sent_at: float = 0.0
    """Time of the last delivery."""
    error: str = ""
    """Why the last request failed; empty after a delivery."""
    dropped: int = 0
    """Messages that were dropped or given up since the last delivery."""


class Outbox(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """Messages and the state of each channel."""

    messages: tuple[Message, ...] = ()
    channels: dict[str, ChannelState] = {}
    delivered: tuple[str, ...] = ()
    """Ids of messages that every channel got, the latest last."""

    def state(self, channel: str) -> ChannelState:
        """Return the state of a channel."""
        return self.channels.get(channel) or ChannelState()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self.messages and not any(state.request for state in self.channels.values())


def added(outbox: Outbox, new: Sequence[Message]) -> Outbox:
    """Return the outbox with the messages that it does not know yet."""
    known = {message.id for message in outbox.messages} | set(outbox.delivered)
    messages = [*outbox.messages, *(message for message in new if message.id not in known and message.channels)]
    channels = dict(outbox.channels)
    under_way = {one for state in channels.values() if state.request for one in state.request.messages}
    for message in [one for one in messages[: max(0, len(messages) - MOST_MESSAGES)] if one.id not in under_way]:
        messages.remove(message)
        for name in message.channels:
            state = channels.get(name) or ChannelState()
            channels[name] = msgspec.structs.replace(state, dropped=state.dropped + 1)
    bare = max(0, len(messages) - MOST_BODIES)
    messages = [msgspec.structs.replace(one, body="") if at < bare else one for at, one in enumerate(messages)]
    return msgspec.structs.replace(outbox, messages=tuple(messages), channels=channels)


def begun(outbox: Outbox, channel: str, now: float) -> tuple[Outbox, Request | None]:
    """Return the request that is due to a channel now, and the outbox that has to be stored before it is sent."""
    state = outbox.state(channel)
    if state.request is not None:
        return outbox, state.request if state.request.not_before <= now else None
    waiting = [message.id for message in outbox.messages if channel in message.channels]
    if not waiting or now - state.sent_at < SPACING_SECONDS:
        return outbox, None
    several = len(waiting) > DIGEST_ABOVE
    together = tuple(waiting if several else waiting[:1])
    name = f"digest-{hashlib.sha256(' '.join(together).encode()).hexdigest()[:24]}" if several else together[0]
    request = Request(id=name, messages=together, since=now)
    return _with_channel(outbox, channel, msgspec.structs.replace(state, request=request)), request


def due_at(outbox: Outbox, channel: str) -> float | None:
    """Return when the next request to a channel is due; None if nothing waits for it."""
    state = outbox.state(channel)
    if state.request is not None:
        return state.request.not_before
    if any(channel in message.channels for message in outbox.messages):
        return state.sent_at + SPACING_SECONDS
    return None


def delivered(outbox: Outbox, channel: str, now: float) -> Outbox:
    """Return the outbox after the channel took its request."""
    return _without_request(outbox, channel, ChannelState(sent_at=now), 0)


def refused(outbox: Outbox, channel: str, error: str, now: float, *, for_good: bool) -> Outbox:
    """Return the outbox after the request failed: it is tried again after a pause, or given up."""
    state = outbox.state(channel)
    request = state.request
    if request is None:
        return outbox
    if for_good or now - request.since >= GIVE_UP_SECONDS:
        lost = state.dropped + len(request.messages)
        return _without_request(outbox, channel, ChannelState(sent_at=state.sent_at, error=error, dropped=lost), lost)
    tries = request.tries + 1
    pause = backoff_seconds(tries, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
    again = msgspec.structs.replace(request, tries=tries, not_before=now + pause, error=error)
    return _with_channel(outbox, channel, msgspec.structs.replace(state, request=again, error=error))


def without_channels(outbox: Outbox, present: Mapping[str, object]) -> Outbox:
    """Return the outbox without messages for channels that were removed."""
    gone = {name for message in outbox.messages for name in message.channels} | set(outbox.channels)
    for name in gone - set(present):
        waiting = tuple(message.id for message in outbox.messages if name in message.channels)
        state = msgspec.structs.replace(outbox.state(name), request=Request(id="-", messages=waiting, since=0))
        outbox = _without_request(_with_channel(outbox, name, state), name, None, 0)
    return outbox


def _without_request(outbox: Outbox, channel: str, state: ChannelState | None, lost: int) -> Outbox:
    request = outbox.state(channel).request
    done = set(request.messages) if request is not None else set()
    messages, over = [], []
    for message in outbox.messages:
        left = tuple(name for name in message.channels if message.id not in done or name != channel)
        if left:
            messages.append(msgspec.structs.replace(message, channels=left))
        else:
            over.append(message.id)
    channels = {name: known for name, known in outbox.channels.items() if name != channel}
    if state is not None:
        channels[channel] = state
    remembered = (*outbox.delivered, *over)[-REMEMBERED:]
    return Outbox(messages=tuple(messages), channels=channels, delivered=remembered)


def _with_channel(outbox: Outbox, channel: str, state: ChannelState) -> Outbox:
    return msgspec.structs.replace(outbox, channels={**outbox.channels, channel: state})


class Content(NamedTuple):
    """The content of a request."""

    kind: str
    """The kind of its message, or `digest`."""
    title: str
    body: str


def described(outbox: Outbox, request: Request, dropped: int = 0) -> Content:
    """Return the content of a request: of its message, or a digest of several."""
    known = {message.id: message for message in outbox.messages}
    messages = [known[one] for one in request.messages if one in known]
    if len(messages) == 1 and not request.id.startswith("digest-"):
        (message,) = messages
        return Content(message.kind, message.title, f"{message.body}\n\nmessage {request.id}".strip())
    counts: dict[str, int] = {}
    for message in messages:
        counts[message.kind] = counts.get(message.kind, 0) + 1
    title = f"{len(messages)} messages: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    lines = [f"{message.at} {message.title}" for message in messages[:DIGEST_LISTED]]
    if len(messages) > DIGEST_LISTED:
        lines.append(f"… and {len(messages) - DIGEST_LISTED} more")
    if dropped:
        lines.append(f"{dropped} older messages were dropped")
    return Content("digest", title, "\n".join([*lines, "", f"message {request.id}"]))
