"""Channels: the services in which a person or a team gets messages. Their URLs contain tokens."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from kajitori.core.spec.notify import KINDS, Kind, Notify

PERSON, TEAM = "person", "team"
_SECRET_PARTS = re.compile(r"[^:/?#@&=]{4,}")


class Channel(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """One channel, as it is stored in a Secret."""

    url: str
    """A URL of apprise; with `key`, the https URL of a signed webhook."""
    key: str = ""
    """Key that signs the requests of a webhook, `whsec_…`."""
    kinds: tuple[str, ...] = KINDS
    """The kinds of messages that it gets unless a run names others."""

    @property
    def scheme(self) -> str:
        """The only part of the URL that is shown."""
        return "webhook" if self.key else self.url.partition("://")[0].lower()


class Recipient(msgspec.Struct, frozen=True, order=True):
    """A person, or the team of a namespace."""

    kind: str
    name: str

    @property
    def secret(self) -> str:
        """Name of the Secret with the channels. A person's name may hold any character, so it is hashed."""
        return _secret_name(self.kind, self.name)

    @property
    def outbox(self) -> str:
        """Name of the Secret with messages that are not delivered yet."""
        return f"outbox-{self.secret}"


@lru_cache(maxsize=8192)
def _secret_name(kind: str, name: str) -> str:
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:40] if kind == PERSON else name}"


def person(name: str) -> Recipient:
    """Return a person as the API server names them."""
    return Recipient(PERSON, name)


def team(namespace: str) -> Recipient:
    """Return the team of a namespace."""
    return Recipient(TEAM, namespace)


def recipients_of(owner: str, namespace: str) -> tuple[Recipient, ...]:
    """Return the recipients of messages about a run."""
    return (*((person(owner),) if owner else ()), team(namespace))


def chosen(
    recipient: Recipient, channels: Mapping[str, Channel], kind: Kind | str, notify: Notify | None
) -> tuple[str, ...]:
    """Return the names of a recipient's channels that get a message of this kind about a run.

    A run may name channels of its owner or its team, and the kinds for them. Channels of the team that it does not name
    keep to their own settings.
    """
    named = set(notify.channels) if notify is not None else set()
    kinds = notify.kinds if notify is not None else None
    found = []
    for name, channel in channels.items():
        addressed = name in named or (recipient.kind == PERSON and not named)
        if addressed and kinds is not None:
            wants = kind in kinds
        else:
            wants = (addressed or recipient.kind == TEAM) and kind in channel.kinds
        if wants:
            found.append(name)
    return tuple(found)


def redacted(text: str, urls: Iterable[str]) -> str:
    """Return an error text without anything that stands in these URLs."""
    for url in urls:
        for part in sorted(_SECRET_PARTS.findall(url.partition("://")[2]), key=len, reverse=True):
            text = text.replace(part, "***")
    return text
