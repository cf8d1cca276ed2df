"""Log lines out of chunks: whole, in order, none twice and none lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.api.log_lines import LINE_LIMIT_BYTES, LineSplitter, Piece, Position, utc_time

TEXTS = st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=20)


def logged(texts: list[bytes], seconds: list[int]) -> bytes:
    return b"".join(
        f"2026-11-21T10:00:{s:02d}.5Z ".encode() + text + b"\n" for text, s in zip(texts, seconds, strict=False)
    )


@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_chunks_may_break_anywhere(texts: list[bytes], sizes: list[int]) -> None:
    """The pieces say the same however the bytes were cut."""
    raw = logged(texts, [0] * len(texts))
    splitter, position = LineSplitter(), 0
    pieces: list[Piece] = []
    while position < len(raw):
        size = sizes[len(pieces) % len(sizes)]
        pieces += splitter.feed(raw[position : position + size])
        position += size
    pieces += splitter.flush()
    assert [piece.text for piece in pieces] == texts
    assert all(piece.time == "2026-11-21T10:00:00.500000000Z" and piece.begins and piece.ends for piece in pieces)


@given(TEXTS, st.data())
def test_reading_again_leaves_out_exactly_what_was_read(texts: list[bytes], data: st.DataObject) -> None:
    """Even where many lines share a time."""
    seconds = sorted(data.draw(st.lists(st.integers(0, 3), min_size=len(texts), max_size=len(texts))))
    pieces = LineSplitter().feed(logged(texts, seconds))
    read = data.draw(st.integers(0, len(pieces)))
    position = Position()
    position.note(pieces[:read])
    first = data.draw(st.integers(0, next((i for i, p in enumerate(pieces) if p.time == position.time), 0)))
    assert position.resumed().fresh(pieces[first:]) == pieces[read:] or not position.time


def test_an_endless_line_is_handed_on_in_pieces() -> None:
    """Memory stays bounded, and the line is one again when it is put together."""
    splitter = LineSplitter()
    pieces: list[Piece] = splitter.feed(b"2026-11-21T10:00:00Z " + b"x" * LINE_LIMIT_BYTES)
    pieces += splitter.feed(b"yz\nnext\n")
    assert [(piece.begins, piece.ends) for piece in pieces] == [(True, False), (False, True), (True, True)]
    assert b"".join(piece.text for piece in pieces[:2]) == b"x" * LINE_LIMIT_BYTES + b"yz"
    assert pieces[1].time == pieces[0].time
    assert pieces[2].time == ""


def test_times_are_comparable_as_text() -> None:
    """Whatever the number of digits and the offset."""
    assert utc_time(b"2026-11-21T10:00:00.12Z") < utc_time(b"2026-11-21T10:00:00.123Z")
    assert utc_time(b"2026-11-21T12:00:00.5+02:00") == "2026-11-21T10:00:00.500000000Z"
    assert utc_time(b"Traceback") == utc_time(b"2026-13-40T10:00:00+02:00") == ""
