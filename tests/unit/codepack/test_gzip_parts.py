"""Parts that a browser compressed by gzip."""

from __future__ import annotations

import gzip

import pytest

from kajitori.codepack.parts import PART_BYTES, decompress, from_gzip
from kajitori.errors import InvalidInput

PART = b"import torch\n" * 1000


def test_a_gzip_part_becomes_a_frame_with_the_same_content() -> None:
    assert decompress(from_gzip(gzip.compress(PART))) == PART


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"plain",
        gzip.compress(b""),
        gzip.compress(PART)[:-1],
        gzip.compress(PART) + b"more",
        gzip.compress(PART) * 2,
        gzip.compress(bytes(PART_BYTES + 1)),
    ],
    ids=["nothing", "plain", "empty", "cut", "more", "two", "too large"],
)
def test_anything_but_one_gzip_member_is_refused(wrong: bytes) -> None:
    with pytest.raises(InvalidInput, match="is "):
        from_gzip(wrong)
