"""Kinds of messages about runs, and what a run's spec says about them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DnsLabel
from kajitori.errors import FieldError


class Kind(StrEnum):
    """Kinds of messages. Each of them is sent by some part of Kajitori."""

    STARTED = "started"
    """The run started after a long wait."""
    ENDED = "ended"
    """The run succeeded, was stopped, or ended because a user restarts it (`kaji restart`)."""
    FAILED = "failed"
    """The run failed and is not restarted."""
    PREEMPTED = "preempted"
    """The run gave its nodes to another, and waits for its next start."""
    DRAINED = "drained"
    """An operator drains a node of the run, which moves elsewhere."""
    IDLE = "idle"
    """GPUs of the run are idle: its owner is asked whether it is to be kept, or warned that it will be parked."""
    STUCK = "stuck"
    """The run has made no progress for long."""
    TIME_LIMIT = "time-limit"
    """The run soon reaches its time limit."""


KINDS = tuple(kind.value for kind in Kind)


def check_kind(word: str) -> str:
    """Return the word if it is a kind of message; raise FieldError otherwise."""
    if word not in KINDS:
        raise FieldError(f"{word!r:.40} is not a kind of message", f"known: {', '.join(KINDS)}")
    return word


KindWord = Annotated[str, Field(max_length=63), AfterValidator(check_kind)]


class Notify(Document):
    """Channels and kinds of messages about the run. Default: the channels of the owner and the team, with their own
    settings."""

    channels: list[DnsLabel] = Field(default_factory=list, max_length=16)
    """Names of the owner's or the team's channels (`kaji notify ls`). Empty: all channels of the owner, and
    those of the team."""
    kinds: list[KindWord] | None = Field(default=None, max_length=32)
    """Kinds of messages, instead of those that the channels are set to. Empty: the owner gets none."""
