"""How a member of a sweep ended, and what it said as its result: one small record of each, kept when its Pod goes."""

from __future__ import annotations

from typing import Any

import msgspec


class MemberResult(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """One row of the table of results."""

    index: int
    state: str
    """Waiting, Pending, Running, Succeeded or Failed; NotRun where the sweep ended without it."""
    attempt: int = 0
    """The attempt of the run that it was started in last: it stands in the name of its Pod."""
    restarts: int = 0
    """How often its program was started again after it had failed."""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    started_at: str = ""
    ended_at: str = ""
    peak_bytes: int = 0
    """The most memory that it held, as far as its node told; 0 where nobody knows."""
    result: Any = None
    """What its program wrote to the file that KAJI_RESULT names: read as JSON where it is that, else as text."""


_decoder = msgspec.json.Decoder(MemberResult)


def encode(result: MemberResult) -> bytes:
    """As it is kept."""
    return msgspec.json.encode(result)


def decode(record: bytes) -> MemberResult:
    """The same again. Raises ValueError where it is none."""
    return _decoder.decode(record)


def parse_result(message: str, *, succeeded: bool) -> Any:
    """The result that a program's last words are: of one that succeeded any; of one that failed JSON alone, since
    Kubernetes takes the end of its log where it wrote nothing."""
    text = message.strip()
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text if succeeded else None
