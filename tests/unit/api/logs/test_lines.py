"""Log lines out of chunks: whole, in order, none twice and none lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kajitori.api.logs.lines import (
    LINE_LIMIT_BYTES,
    UNKNOWN_TIME,
    Normaliser,
    Position,
    Resumption,
    Text,
    last_lines,
    rows,
    utc_time,
    with_known_stamps,
    without_stamps,
)

CONTENTS = st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=20)
SIZES = st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=12)


def logged(contents: list[bytes], seconds: list[int]) -> bytes:
    return b"".join(
        f"2026-11-21T10:00:{second:02d}.5Z ".encode() + content + b"\n"
        for content, second in zip(contents, seconds, strict=False)
    )


def parts(raw: bytes, sizes: list[tuple[int, bool]]) -> list[Text]:
    """What comes of these bytes, cut like this; asked for what has begun where that is true."""
    normaliser, position = Normaliser(), 0
    found: list[Text] = []
    while position < len(raw):
        size, asked = sizes[len(found) % len(sizes)]
        found.append(normaliser.feed(raw[position : position + size]))
        if asked:
            found.append(normaliser.take_begun())
        position += size
    return [*found, normaliser.flush()]


@given(CONTENTS, SIZES)
def test_chunks_may_break_anywhere(contents: list[bytes], sizes: list[tuple[int, bool]]) -> None:
    """The parts say the same however the bytes were cut."""
    raw = logged(contents, [0] * len(contents))
    text = b"".join(part.text for part in parts(raw, sizes))
    assert text == raw.replace(b"00.5Z", b"00.500000000Z")
    printed = b"".join(content + b"\n" for content in contents)
    assert b"".join(without_stamps(part) for part in parts(raw, sizes)) == printed
    joined = b""
    for part in parts(raw, sizes):
        for _, line, goes_on in rows(part):
            joined += line if goes_on else line + b"\n"
    assert joined == printed


@given(CONTENTS, st.data(), SIZES, SIZES)
def test_reading_again_leaves_out_exactly_what_was_read(
    contents: list[bytes], data: st.DataObject, cuts: list[tuple[int, bool]], again: list[tuple[int, bool]]
) -> None:
    """Even if many lines share a time, and if it was in the middle of a line."""
    seconds = sorted(data.draw(st.lists(st.integers(0, 3), min_size=len(contents), max_size=len(contents))))
    raw = logged(contents, seconds)
    position, read = Position(), b""
    for part in parts(raw, cuts)[: data.draw(st.integers(0, 60))]:
        position = position.after(part)
        read += without_stamps(part)
    lines = raw.split(b"\n")
    first = data.draw(st.integers(0, next((i for i, t in enumerate(lines) if t[17:21] == position.time[17:21]), 0)))
    resumption, rest = Resumption(position), b""
    for part in parts(b"\n".join(lines[first if position.time else 0 :]), again):
        rest += without_stamps(resumption.fresh(part))
    assert read + rest == b"".join(content + b"\n" for content in contents)
    assert not resumption.lost


def test_a_position_is_that_of_the_last_line_in_a_row() -> None:
    """Clocks may be set back, and another line of the same time may have come before."""
    stamp = "2026-11-21T10:00:0{}.000000000Z ".format
    text = "".join(f"{stamp(second)}x\n" for second in (1, 1, 2, 1, 1)).encode()
    position = Position().after(Text(text))
    assert (position.time.decode() + " ", position.count) == (stamp(1), 2)
    assert position.after(Text(f"{stamp(1)}y".encode())) == Position(position.time, 3, 1)
    assert position.after(Text(f"{stamp(2)}y".encode())).count == 1
    opened = position.after(Text(f"{stamp(1)}y".encode())).after(Text(f"z\n{stamp(1)}u\n".encode(), inside=True))
    assert opened == Position(position.time, 4, None)


def test_lines_that_are_not_there_any_more_are_known_to_be_lost() -> None:
    read = Position().after(Text(b"2026-11-21T10:00:01.000000000Z half"))
    resumption = Resumption(read)
    later = Text(b"2026-11-21T10:00:05.000000000Z later\n")
    assert resumption.fresh(later) == later
    assert resumption.lost


def test_an_endless_line_is_handed_on_in_parts() -> None:
    """Memory stays bounded, and the line is one again when it is put together."""
    normaliser = Normaliser()
    first = normaliser.feed(b"2026-11-21T10:00:00Z " + b"x" * LINE_LIMIT_BYTES)
    second = normaliser.feed(b"yz\nnext\n")
    assert first.is_open and not first.inside
    assert second.inside
    assert without_stamps(first) + without_stamps(second) == b"x" * LINE_LIMIT_BYTES + b"yz\nnext\n"


def test_a_line_without_a_time_has_that_of_the_line_before() -> None:
    """And nobody is shown a time for it if there is none."""
    part = Normaliser().feed(b"unable to read\n2026-11-21T12:00:00+02:00 a\n\nfoo bar\n")
    times = [time for time, _, _ in rows(part)]
    assert times == [UNKNOWN_TIME] + [b"2026-11-21T10:00:00.000000000Z"] * 3
    assert without_stamps(part) == b"unable to read\na\n\nfoo bar\n"
    assert with_known_stamps(part).startswith(b"unable to read\n2026-11-21T10")


def test_the_last_lines_of_a_text() -> None:
    assert last_lines(b"a\nb\nc\n", 2) == b"b\nc\n"
    assert last_lines(b"a\nb\nc", 2) == b"b\nc"
    assert last_lines(b"a\nb\n", 0) == b""
    assert last_lines(b"a\nb\n", 9) == last_lines(b"a\nb\n", None) == b"a\nb\n"


def test_times_are_comparable_as_text() -> None:
    """Whatever the number of digits and the offset."""
    assert utc_time(b"2026-11-21T10:00:00.12Z") < utc_time(b"2026-11-21T10:00:00.123Z")
    assert utc_time(b"2026-11-21T12:00:00.5+02:00") == "2026-11-21T10:00:00.500000000Z"
    assert utc_time(b"Traceback") == utc_time(b"2026-13-40T10:00:00+02:00") == ""
