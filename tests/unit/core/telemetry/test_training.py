"""Figures that programs write: JSON lines, and TensorBoard's event files."""

from __future__ import annotations

import struct

from kajitori.core.telemetry.report import MAX_FIGURES
from kajitori.core.telemetry.training import (
    KEPT_CHECKPOINTS,
    MAX_EVENT_BYTES,
    MAX_LINE_BYTES,
    EventFile,
    Lines,
    Saved,
    Training,
    figures_in,
    take_lines,
)


def test_only_finite_numbers_with_names_are_figures() -> None:
    line = b'{"step": 10, "loss": 2.5, "ok": true, "note": "x", "inner": {}, "bad name": 1, "huge": 1e400}'
    assert figures_in(line) == {"step": 10.0, "loss": 2.5}
    assert figures_in(b"not json") is None
    assert figures_in(b"[1]") is None
    assert figures_in(b'{"a": ' + b"9" * 400 + b"}") == {}


def test_lines_in_pieces_are_put_together() -> None:
    lines = Lines()
    assert list(lines.feed(b"one\ntw")) == [b"one"]
    assert list(lines.feed(b"o\n" + b"x" * (MAX_LINE_BYTES + 1))) == [b"two"]
    assert list(lines.feed(b"still the long one\nthree\n")) == [b"three"]


def test_rates_of_steps_and_tokens_follow_from_the_lines() -> None:
    training = Training()
    take_lines(training, [b'{"step": 10, "tokens": 1000}'])
    assert training.sample(100.0) == {"step": 10.0, "tokens": 1000.0}
    take_lines(training, [b'{"step": 11, "tokens": 1000}', b'{"step": 12, "tokens": 1000}'])
    assert training.sample(110.0) == {"step": 12.0, "tokens": 1000.0, "step.rate": 0.2, "tokens.rate": 200.0}
    assert training.sample(120.0) == {"step.rate": 0.0, "tokens.rate": 0.0}
    take_lines(training, [b'{"step": 1}'])
    assert "step.rate" not in training.sample(130.0)


def test_a_minute_has_the_last_value_and_means_of_rates_and_of_work() -> None:
    training = Training()
    for at in (0.0, 15.0, 30.0):
        line = b'{"step": %d, "loss": %f, "work_seconds": %f}'
        take_lines(training, [line % (int(at) * int(at), 9 - at / 15, at / 60)])
        training.sample(at)
    assert training.minute(0.0, 60.0) == {"step": 900.0, "loss": 7.0, "step.rate": 30.0, "work_seconds": 0.375}


def test_names_beyond_the_limit_are_dropped() -> None:
    training = Training()
    training.take({f"name{number}": 1.0 for number in range(MAX_FIGURES + 5)})
    assert len(training.sample(1.0)) == MAX_FIGURES


def test_checkpoints_have_the_time_of_their_lines_or_of_the_sample() -> None:
    """Lines without a time that an agent finds at its start may be hours old, so they are left out."""
    training = Training()
    for line in (
        {"checkpoint_seconds": 5},
        {"checkpoint_seconds": 12, "time": 1000.5},
        {"checkpoint_seconds": -1, "time": 1.0},
    ):
        training.take(line)
    assert training.sample(1015.0)["time"] == 1.0, "that of a line that is about no checkpoint"
    training.take({"step": 7, "checkpoint_seconds": 3, "time": 1030.0})
    assert "time" not in training.sample(1030.0)
    training.take({"checkpoint_seconds": 4})
    training.sample(1045.0)
    assert list(training.saved) == [Saved(988.5, 1000.5), Saved(1027.0, 1030.0), Saved(1041.0, 1045.0)]
    for number in range(KEPT_CHECKPOINTS + 4):
        training.take({"checkpoint_seconds": 1, "time": 2000.0 + number})
    training.sample(1060.0)
    assert training.saved[-1].until == 2000.0 + KEPT_CHECKPOINTS + 3


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return out + bytes((value,))


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step: int, *values: bytes, at: float = 1.7e9) -> bytes:
    """An event as tensorflow.core.util.event_pb2 writes it, in a record with check sums of 0."""
    summary = b"".join(field(1, value) for value in values)
    content = varint(1 << 3 | 1) + struct.pack("<d", at) + varint(2 << 3) + varint(step)
    content += field(5, summary) if values else field(3, b"brain.Event:2")
    return struct.pack("<QI", len(content), 0) + content + b"\0\0\0\0"


def simple(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + varint(2 << 3 | 5) + struct.pack("<f", value)


def tensor(tag: str, value: float) -> bytes:
    """As torch.utils.tensorboard does with new_style=True, and TensorFlow 2 always."""
    return field(1, tag.encode()) + field(8, varint(1 << 3) + varint(1) + field(5, struct.pack("<f", value)))


def test_scalars_of_event_files_are_read_in_pieces() -> None:
    content = event(0) + event(7, simple("train/loss", 0.5)) + event(300, tensor("acc", 0.25), simple("lr x", 1.0))
    file, found = EventFile(), []
    for place in range(0, len(content), 5):
        found += list(file.feed(content[place : place + 5]))
    assert found == [{"train/loss": 0.5, "step": 7.0}, {"acc": 0.25, "lr_x": 1.0, "step": 300.0}]


def test_events_of_earlier_attempts_are_left_out() -> None:
    """A program that continues at its checkpoint may append to the file of the attempt before."""
    file = EventFile(since=1000.0)
    content = event(90, simple("loss", 0.25), at=999.9) + event(70, simple("loss", 0.5), at=1000.0)
    assert list(file.feed(content)) == [{"loss": 0.5, "step": 70.0}]


def test_large_events_are_skipped() -> None:
    content = field(5, field(1, simple("size", 9.0))) + field(3, bytes(MAX_EVENT_BYTES))
    image = struct.pack("<QI", len(content), 0) + content + bytes(4)
    file = EventFile()
    assert list(file.feed(image[:100_000])) == []
    assert list(file.feed(image[100_000:] + event(1, simple("loss", 1.0)))) == [{"loss": 1.0, "step": 1.0}]


def test_a_file_that_is_no_event_file_is_given_up() -> None:
    file = EventFile()
    assert list(file.feed(b"\xff" * 100)) == []
    assert file.broken
