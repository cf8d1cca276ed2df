"""The result of one member of a sweep: a small record that is kept after its Pod is deleted."""

from __future__ import annotations

from typing import Any

import msgspec


class MemberResult(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """One row of a sweep's table of results."""

    index: int
    state: str
    """Waiting, Pending, Running, Succeeded or Failed; NotRun if the sweep ended without starting it."""
    attempt: int = 0
    """Number of the run's attempt in which it was last started; it is part of its Pod's name."""
    restarts: int = 0
    """How often its program was started again after a failure."""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    started_at: str = ""
    ended_at: str = ""
    peak_bytes: int = 0
    """Peak memory, as reported by its node; 0 if unknown."""
    result: Any = None
    """Content of the file named by KAJI_RESULT: parsed as JSON if possible, else the text."""


_decoder = msgspec.json.Decoder(MemberResult)


def encode(result: MemberResult) -> bytes:
    """Return the record as it is stored."""
    return msgspec.json.encode(result)


def decode(record: bytes) -> MemberResult:
    """Return the stored record. Raises ValueError if it cannot be decoded."""
    return _decoder.decode(record)


def parse_result(message: str, *, succeeded: bool) -> Any:
    """Return the result in a container's termination message; None if it has none.

    A succeeded program may write any text. For a failed one only JSON counts: if it wrote nothing, Kubernetes puts
    the end of its log there.
    """
    text = message.strip()
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text if succeeded else None
