"""Node lists are small, ordered, and expand to exactly the original names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.formats.node_lists import BRIEF_LENGTH, brief, compress, compress_ranks, expand, expand_ranks


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["login"], "login"),
        (["gpu-00001", "gpu-00002"], "gpu-[00001-00002]"),
        ([f"gpu-{i:05}" for i in range(1, 1001)], "gpu-[00001-01000]"),
        (["cpu-1", "gpu-1", "gpu-2", "gpu-3", "gpu-7"], "cpu-1,gpu-[1-3,7]"),
        (["gpu-1", "gpu-2", "gpu-10"], "gpu-[1-2,10]"),
        (["n8", "n9", "n10", "n11"], "n[8-11]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n98", "n99", "n100"], "n[98-100]"),
        (["n098", "n099", "n100"], "n[098-100]"),
        (["n0", "n1", "n00", "n01"], "n[0-1,00-01]"),
        (["gpu-00001"] * 8, "gpu-00001*8"),
        (["a-1", "a-1", "a-2", "a-2", "a-3"], "a-[1-2]*2,a-3"),
        (["a-2", "a-1", "a-2"], "a-[2,1-2]"),
        (["ip-10-0-0-3.eu.local", "ip-10-0-0-4.eu.local"], "ip-10-0-0-[3-4].eu.local"),
        (["r1-n1", "r1-n2", "r2-n1", "r2-n2"], "r1-n[1-2],r2-n[1-2]"),
        (["a", "b", "a"], "a,b,a"),
    ],
)
def test_examples_are_compressed_and_expanded(names: list[str], text: str) -> None:
    assert compress(names) == text
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "a[",
        "a[1",
        "a]",
        "a[]",
        "a[1-]",
        "a[-1]",
        "a[2-1]",
        "a[1,]",
        "a,",
        ",a",
        "a,,b",
        "a*0",
        "a*",
        "a*x",
        "*3",
        "a b",
        "a[01-2]",
        "a[1-02]",
        "a[1][2]",
        "a[1-2]*2*2",
        "[",
        "a[1-9999999]",
        "a*9999999",
        "a[1-1000]*100000",
        "a[1x]",
        "a[1-" + "9" * 300 + "]",
        "a[٣]",
        "a\n",
    ],
)
def test_a_malformed_or_too_long_list_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError):
        expand(text)


@pytest.mark.parametrize("name", ["", "a b", "a[1]", "a,b", "a*2"])
def test_a_name_that_would_make_the_list_ambiguous_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        compress([name])


_LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
_NAME = st.lists(_LABEL, min_size=1, max_size=3).map(".".join)
_SERIES = st.tuples(st.sampled_from(["gpu-", "cpu-", "a1-"]), st.integers(0, 120), st.sampled_from([0, 3]))
_SERIES_NAME = _SERIES.map(lambda part: f"{part[0]}{str(part[1]).zfill(part[2])}")


@given(st.lists(st.one_of(_NAME, _SERIES_NAME), max_size=60))
def test_expand_undoes_compress(names: list[str]) -> None:
    """Order, repetitions and zero padding are kept for any names."""
    assert expand(compress(names)) == names


@given(st.text(alphabet="ab01-[],*9. ", max_size=30))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand(text, limit=1000)
    except ValueError:
        return
    assert len(names) <= 1000
    assert all(re.fullmatch(r"[^\[\],*\s]+", name) for name in names)


def test_the_list_of_a_whole_cluster_is_small() -> None:
    """7,500 nodes in rank order stay far below the size limit of a Run, even with a few gaps."""
    names = [f"gpu-{i:05}" for i in range(1, 7501)]
    assert compress(names) == "gpu-[00001-07500]"
    with_holes = [name for i, name in enumerate(names) if i % 50]
    assert len(compress(with_holes)) < 2500
    assert expand(compress(with_holes)) == with_holes


@pytest.mark.parametrize(
    ("ranks", "text"), [([], ""), ([0], "0"), ([0, 1, 2, 7], "0-2,7"), ([3, 2, 2, 3], "3,2,2-3"), ([9, 10], "9-10")]
)
def test_ranks_are_compressed_to_ranges(ranks: list[int], text: str) -> None:
    assert compress_ranks(ranks) == text
    assert expand_ranks(text) == ranks


@given(st.lists(st.integers(0, 10_000), max_size=50))
def test_expanded_ranks_equal_the_original_ones(ranks: list[int]) -> None:
    assert expand_ranks(compress_ranks(ranks)) == ranks


@pytest.mark.parametrize("text", ["-1", "1-", "a", "1,,2", "0-9999999", "5-2"])
def test_a_malformed_list_of_ranks_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        expand_ranks(text)


def test_a_negative_rank_is_refused() -> None:
    with pytest.raises(ValueError):
        compress_ranks([1, -1])


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"gpu-{number}" for number in range(7000)], "gpu-[0-6999]"),
        (["a", "b"], "a,b"),
        ([f"ip-{number * 7919 % 997}" for number in range(64)], None),
        (["x" * 100, "y" * 100], "x" * 100 + " and 1 more"),
    ],
)
def test_a_long_list_in_a_sentence_is_cut_with_a_count(names: list[str], text: str | None) -> None:
    """It is cut by characters, not by nodes."""
    cut = brief(compress(names))
    if text is not None:
        assert cut == text
    else:
        shown, _, more = cut.partition(" and ")
        assert len(shown) <= BRIEF_LENGTH
        assert len(expand(shown)) + int(more.removesuffix(" more")) == len(names)
