"""Amounts and durations are parsed exactly, or refused with the right notation."""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.formats import quantities
from kajitori.core.formats.quantities import (
    QuantityError,
    format_cores,
    format_cpu,
    format_duration,
    format_memory,
    memory_needed,
    memory_there,
    parse_cpu_millis,
    parse_docker_memory_bytes,
    parse_duration_seconds,
    parse_memory_bytes,
    parse_spec_memory_bytes,
    round_memory,
)

GI = 2**30


@pytest.mark.parametrize(
    ("written", "millis"),
    [
        ("500m", 500),
        ("2", 2000),
        (2, 2000),
        (0.5, 500),
        ("0.1", 100),
        ("1e3", 1000000),
        ("2.5", 2500),
        (".5", 500),
        ("5.", 5000),
        ("100u", 1),
        ("1n", 1),
        ("0", 0),
        ("-0", 0),
        ("1k", 1000000),
        ("+3", 3000),
        ("1E-1", 100),
        (0.1, 100),
        (0.001, 1),
        ("0.0001", 1),
        ("2Ki", 2048000),
    ],
)
def test_cpu_is_rounded_up_to_millicores(written: str | int | float, millis: int) -> None:
    """It is in Kubernetes' notation."""
    assert parse_cpu_millis(written) == millis


@pytest.mark.parametrize(
    ("millis", "words"), [(1000, "1 core"), (500, "0.5 cores"), (8000, "8 cores"), (1, "0.001 cores")]
)
def test_cores_are_written_with_the_right_plural(millis: int, words: str) -> None:
    """Millicores do not appear."""
    assert format_cores(millis) == words


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("1Gi", GI),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("500M", 500000000),
        ("128974848", 128974848),
        ("1500m", 2),
        ("0.5Gi", GI // 2),
        (1024, 1024),
        ("1.5k", 1500),
        (1000000000.0, 10**9),
        ("1Ki", 1024),
    ],
)
def test_kubernetes_quantities_are_parsed(written: str | int | float, size: int) -> None:
    """`m` is a thousandth, `E` without digits is exa."""
    assert parse_memory_bytes(written) == size


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("64g", 64 * GI),
        ("64G", 64 * GI),
        ("512m", 2**29),
        ("512M", 2**29),
        ("1.5g", 3 * GI // 2),
        ("100k", 102400),
        ("4096", 4096),
        ("4096b", 4096),
        ("2GB", 2 * GI),
        ("2GiB", 2 * GI),
        ("2 gb", 2 * GI),
        ("1t", 2**40),
    ],
)
def test_dockers_units_are_binary_in_any_case(written: str, size: int) -> None:
    assert parse_docker_memory_bytes(written) == size


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("64g", 64 * GI),
        ("64Gi", 64 * GI),
        ("64G", 64 * 10**9),
        ("500m", 500 * 2**20),
        ("500M", 500 * 10**6),
        ("1e9", 10**9),
        (1024, 1024),
        ("1k", 1024),
        ("1gb", GI),
        ("100b", 100),
        ("64 Gi", 64 * GI),
        (" 2 G ", 2 * 10**9),
    ],
)
def test_memory_of_a_spec_may_have_units_of_docker_or_kubernetes(written: str | int, size: int) -> None:
    """A lower-case unit is Docker's, and so is one that ends in B; all others are Kubernetes'."""
    assert parse_spec_memory_bytes(written) == size


@pytest.mark.parametrize(
    "written", ["500 MB", "500MB", "2GB", "2gb", "2 GiB", "2GiB", "1.5TB", "64g", "64 g", "512k", "4096b", "8Gi"]
)
def test_a_size_means_the_same_on_the_command_line_and_in_files(written: str) -> None:
    """The same people read both. Kubernetes does not know units that end in B, so they can only be Docker's."""
    assert parse_spec_memory_bytes(written) == parse_docker_memory_bytes(written)


@pytest.mark.parametrize(
    ("size", "there", "needed"),
    [
        (24684092 * 1024, "23.5Gi", "23.6Gi"),
        (64 * GI, "64Gi", "64Gi"),
        (1536 * 2**20, "1536Mi", "1536Mi"),
        (24064 * 2**20, "23.5Gi", "23.5Gi"),
        (GI - 1, "1023.9Mi", "1024Mi"),
        (123456, "120.5Ki", "120.6Ki"),
        (1000, "1000", "1000"),
        (0, "0", "0"),
    ],
)
def test_sizes_in_messages_are_short(size: int, there: str, needed: str) -> None:
    """There are none such as 24684092Ki."""
    assert (memory_there(size), memory_needed(size)) == (there, needed)


@given(st.integers(0, 2**59), st.integers(1, 2**40))
def test_rounded_sizes_never_make_too_much_look_like_enough(size: int, more: int) -> None:
    """Read back, an available size is not larger than the real one, and a needed size is not smaller."""
    for read in (parse_memory_bytes, parse_spec_memory_bytes, parse_docker_memory_bytes):
        assert size * 0.9 <= read(memory_there(size)) <= size <= read(memory_needed(size)) <= size * 1.1
    assert len(memory_there(size)) <= len("1023.9Mi") >= len(memory_needed(size))
    assert memory_needed(size + more) != memory_there(size)


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "-1",
        "-500m",
        "NaN",
        "inf",
        "1GiB",
        "64g",
        "1 Gi",
        "1e",
        "1e9999",
        "9Ei",
        "1e30",
        "abc",
        "1,5",
        "--1",
        "0x10",
        "٣",
        "1" * 100,
        "1e-9999",
        ".",
        "1Gi\n1",
        math.nan,
        math.inf,
        -1,
        True,
        None,
        10**30,
    ],
)
def test_invalid_memory_is_refused_with_value_and_hint(written: object) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_memory_bytes(written)  # type: ignore[arg-type]
    assert caught.value.value is written
    assert "64Gi" in caught.value.hint
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("written", ["", "g", "-1g", "1e3", "1ib", "2000p", "1gg", "NaN", "9" * 70, "1..5g"])
def test_sizes_that_docker_refuses_are_refused(written: str) -> None:
    with pytest.raises(QuantityError):
        parse_docker_memory_bytes(written)


@pytest.mark.parametrize("written", ["-0.5", "2e12", "1Ei", "one", "", True, None])
def test_invalid_cpu_is_refused(written: object) -> None:
    """Negative, absurdly large, or no number."""
    with pytest.raises(QuantityError):
        parse_cpu_millis(written)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("7d", 604800),
        ("1h30m", 5400),
        ("60s", 60),
        ("90", 90),
        (90, 90),
        ("1.5h", 5400),
        ("2w", 1209600),
        ("0", 0),
        ("0s", 0),
        ("1d12h", 129600),
        ("1:00:00", 3600),
        ("01:02:03", 3723),
        ("100:00:00", 360000),
        ("30:00", 1800),
        ("2-00:00:00", 172800),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("0-00:00:01", 1),
    ],
)
def test_durations_are_whole_seconds(written: str | int, seconds: int) -> None:
    assert parse_duration_seconds(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        *("", "-1", "-5s", "1m1h", "1h1h", "0.5s", "1y", "d", "1d 1h", "100000d", "9" * 30, 1.5, True, None, -3),
        *("1:60:00", "1:00:60", "1-24", "1-0:60", "1:2:3:4", ":30", "1:", "1-", "-1-00", "1-2-3", "1:00:00h", "1.5:00"),
        *("9999999-00:00:00", "1h:00", "1-1d"),
    ],
)
def test_invalid_durations_are_refused(written: object) -> None:
    """Negative, not whole, out of order, or beyond what Kubernetes stores."""
    with pytest.raises(QuantityError):
        parse_duration_seconds(written)  # type: ignore[arg-type]


@given(st.integers(0, quantities.MAX_CPU_MILLIS))
def test_formatted_cpu_is_parsed_as_the_same_number(millis: int) -> None:
    assert parse_cpu_millis(format_cpu(millis)) == millis


@given(st.one_of(st.integers(0, quantities.MAX_MEMORY_BYTES), st.integers(0, 60).map(lambda power: 1 << power)))
def test_formatted_memory_is_parsed_as_the_same_number(size: int) -> None:
    """By both parsers with such units."""
    assert parse_memory_bytes(format_memory(size)) == size
    assert parse_spec_memory_bytes(format_memory(size)) == size


@given(st.integers(0, quantities.MAX_DURATION_SECONDS))
def test_formatted_durations_are_parsed_as_the_same_number(seconds: int) -> None:
    assert parse_duration_seconds(format_duration(seconds)) == seconds


_FACTORS = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
_FACTORS |= {letter: Fraction(1000**power) for power, letter in enumerate("kMGTP", 1)}
_FACTORS |= {f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTP", 1)}


@given(
    st.from_regex(r"[0-9]{1,9}(\.[0-9]{1,12})?", fullmatch=True).filter(str.isascii),
    st.sampled_from(sorted(_FACTORS)),
)
def test_results_are_exact_and_rounded_up_once(number: str, suffix: str) -> None:
    exact = Fraction(number) * _FACTORS[suffix]
    for parse, per_unit, limit in (
        (parse_memory_bytes, 1, quantities.MAX_MEMORY_BYTES),
        (parse_cpu_millis, 1000, quantities.MAX_CPU_MILLIS),
    ):
        expected = math.ceil(exact * per_unit)
        if expected <= limit:
            assert parse(number + suffix) == expected
        else:
            with pytest.raises(QuantityError):
                parse(number + suffix)


@given(st.text(max_size=80))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    """No quantity is negative."""
    for parse in (parse_cpu_millis, parse_memory_bytes, parse_docker_memory_bytes, parse_spec_memory_bytes):
        with contextlib.suppress(QuantityError):
            assert parse(text) >= 0
    with contextlib.suppress(QuantityError):
        assert parse_duration_seconds(text) >= 0


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1023, "1023"), (1536, "1.5Ki"), (2**30, "1Gi"), (251 * 2**30 + 1, "251Gi"), (2**50, "1Pi")],
)
def test_memory_in_tables_is_rounded(amount: int, text: str) -> None:
    assert round_memory(amount) == text
