"""Log lines parsed from chunks: whole, in order, none twice and none lost."""

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


def log_of(contents: list[bytes], seconds: list[int]) -> bytes:
    return b"".join(
        f"2026-11-21T10:00:{second:02d}.5Z ".encode() + content + b"\n"
        for content, second in zip(contents, seconds, strict=False)
    )


def parsed(raw: bytes, sizes: list[tuple[int, bool]]) -> list[Text]:
    """Return the parts for these bytes cut into chunks; each size says whether an unfinished line is taken then."""
    normaliser, position = Normaliser(), 0
    found: list[Text] = []
    while position < len(raw):
        size, take_unfinished = sizes[len(found) % len(sizes)]
        found.append(normaliser.feed(raw[position : position + size]))
        if take_unfinished:
            found.append(normaliser.take_begun())
        position += size
    return [*found, normaliser.flush()]


@given(CONTENTS, SIZES)
def test_chunks_may_break_anywhere(contents: list[bytes], sizes: list[tuple[int, bool]]) -> None:
    """The parts have the same content however the bytes were cut."""
    raw = log_of(contents, [0] * len(contents))
    text = b"".join(part.text for part in parsed(raw, sizes))
    assert text == raw.replace(b"00.5Z", b"00.500000000Z")
    printed = b"".join(content + b"\n" for content in contents)
    assert b"".join(without_stamps(part) for part in parsed(raw, sizes)) == printed
    joined = b""
    for part in parsed(raw, sizes):
        for _, line, goes_on in rows(part):
            joined += line if goes_on else line + b"\n"
    assert joined == printed


@given(CONTENTS, st.data(), SIZES, SIZES)
def test_a_resumed_read_leaves_out_exactly_what_was_read(
    contents: list[bytes], data: st.DataObject, cuts: list[tuple[int, bool]], again: list[tuple[int, bool]]
) -> None:
    """This holds if many lines have the same timestamp, and if the read ended in the middle of a line."""
    seconds = sorted(data.draw(st.lists(st.integers(0, 3), min_size=len(contents), max_size=len(contents))))
    raw = log_of(contents, seconds)
    position, read = Position(), b""
    for part in parsed(raw, cuts)[: data.draw(st.integers(0, 60))]:
        position = position.after(part)
        read += without_stamps(part)
    lines = raw.split(b"\n")
    first = data.draw(st.integers(0, next((i for i, t in enumerate(lines) if t[17:21] == position.time[17:21]), 0)))
    resumption, rest = Resumption(position), b""
    for part in parsed(b"\n".join(lines[first if position.time else 0 :]), again):
        rest += without_stamps(resumption.fresh(part))
    assert read + rest == b"".join(content + b"\n" for content in contents)
    assert not resumption.lost


def test_a_position_counts_the_last_lines_with_the_same_timestamp() -> None:
    """Clocks may be set back, so the same timestamp may have occurred before."""
    stamp = "2026-11-21T10:00:0{}.000000000Z ".format
    text = "".join(f"{stamp(second)}x\n" for second in (1, 1, 2, 1, 1)).encode()
    position = Position().after(Text(text))
    assert (position.time.decode() + " ", position.count) == (stamp(1), 2)
    assert position.after(Text(f"{stamp(1)}y".encode())) == Position(position.time, 3, 1)
    assert position.after(Text(f"{stamp(2)}y".encode())).count == 1
    opened = position.after(Text(f"{stamp(1)}y".encode())).after(Text(f"z\n{stamp(1)}u\n".encode(), inside=True))
    assert opened == Position(position.time, 4, None)


def test_lines_that_are_missing_on_resumption_are_reported_lost() -> None:
    read = Position().after(Text(b"2026-11-21T10:00:01.000000000Z half"))
    resumption = Resumption(read)
    later = Text(b"2026-11-21T10:00:05.000000000Z later\n")
    assert resumption.fresh(later) == later
    assert resumption.lost


def test_a_very_long_line_is_returned_in_parts() -> None:
    """Memory stays bounded, and the parts joined give the line."""
    normaliser = Normaliser()
    first = normaliser.feed(b"2026-11-21T10:00:00Z " + b"x" * LINE_LIMIT_BYTES)
    second = normaliser.feed(b"yz\nnext\n")
    assert first.is_open and not first.inside
    assert second.inside
    assert without_stamps(first) + without_stamps(second) == b"x" * LINE_LIMIT_BYTES + b"yz\nnext\n"


def test_a_line_without_a_timestamp_gets_that_of_the_line_before() -> None:
    """No timestamp is shown for it if no line before has one."""
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


def test_timestamps_are_comparable_as_text() -> None:
    """This holds for any number of digits and any offset."""
    assert utc_time(b"2026-11-21T10:00:00.12Z") < utc_time(b"2026-11-21T10:00:00.123Z")
    assert utc_time(b"2026-11-21T12:00:00.5+02:00") == "2026-11-21T10:00:00.500000000Z"
    assert utc_time(b"Traceback") == utc_time(b"2026-13-40T10:00:00+02:00") == ""
