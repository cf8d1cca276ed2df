"""The `Range` header."""

from __future__ import annotations

import pytest

from kajitori.api.runs.files.byte_ranges import ByteRange, read_range


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("bytes=0-0", ByteRange(0, 1)),
        ("bytes=10-19", ByteRange(10, 10)),
        ("bytes=10-", ByteRange(10, None)),
        ("bytes= -5", ByteRange(-5, None)),
        *((invalid, None) for invalid in ("", "bytes=-", "bytes=-0", "bytes=5-4", "bytes=0-1,3-4", "lines=1-2")),
    ],
)
def test_one_range_is_read_and_everything_else_is_the_whole(header: str, expected: ByteRange | None) -> None:
    assert read_range(header) == expected
