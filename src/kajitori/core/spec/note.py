"""The note on a run: one text that people write about it.

It is an annotation of the Run, so it outlives every process and goes to history with the run.
"""

from __future__ import annotations

import re

import msgspec

MAX_CHARACTERS = 2000
"""Longest text of a note."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and line feed, and characters that turn the direction of text."""


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text about a run, who wrote it, and when."""

    text: str
    by: str
    at: str
    """RFC 3339 with microseconds: it tells two versions of a note apart."""


def read_note(annotation: str) -> Note | None:
    """Return the note in an annotation; None if there is none, or if its writer did not keep to the format."""
    try:
        note = msgspec.json.decode(annotation, type=Note)
    except msgspec.MsgspecError:
        return None
    return None if faults_of(note.text) else note


def write_note(note: Note) -> str:
    """Return the annotation of a note."""
    return msgspec.json.encode(note).decode()


def faults_of(text: str) -> list[str]:
    """Return what is wrong with the text of a note."""
    faults = []
    if len(text) > MAX_CHARACTERS:
        faults.append(f"has {len(text):,} characters; a note has at most {MAX_CHARACTERS:,}")
    if _CONTROL.search(text):
        faults.append("contains control characters")
    return faults
