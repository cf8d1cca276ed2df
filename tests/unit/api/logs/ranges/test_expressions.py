"""Regular expressions of searches in logs."""

from __future__ import annotations

import random
import re
import time

import pytest

from kajitori.api.logs.ranges.expressions import Expression
from kajitori.errors import InvalidInput

STAMP = b"2026-11-21T10:00:00.000000000Z "
LINES = ["epoch 1 loss=0.25", "", "epoch 2 loss=nan", "LOSS=INF", "größe 7", "loss=nan, again", "loss=nan "]


def block(lines: list[str]) -> bytes:
    return b"".join(STAMP + line.encode() + b"\n" for line in lines)


def found(expression: Expression, lines: list[str] = LINES) -> list[str]:
    text = block(lines)
    return [text[start + len(STAMP) : end].decode() for start, end in expression.lines(text)]


@pytest.mark.parametrize(
    "text",
    [r"loss=(nan|inf)$", r"^epoch \d", r"loss=nan", r"2026", r"^$", r"", r"a[^z]*", r"\s", r"gr..e", r"(?i)inf", "n$"],
)
def test_an_expression_finds_the_lines_that_it_matches(text: str) -> None:
    """Each line by itself, as with Python's expressions, and without its stamp."""
    assert found(Expression(text)) == [line for line in LINES if re.search(text, line)]


def test_upper_and_lower_case_may_be_the_same() -> None:
    """Of all letters."""
    assert found(Expression("loss=inf|GRÖSSE|GRÖßE", ignores_case=True)) == ["LOSS=INF", "größe 7"]


def test_a_plain_text_has_no_signs_of_an_expression() -> None:
    """Its case may not matter, of any letters."""
    assert found(Expression.of_text("GRÖßE", ignores_case=True)) == ["größe 7"]
    assert not found(Expression.of_text("GR..E", ignores_case=True))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(", "missing ): ("),
        ("a{2000}", "invalid repetition size: {2000}"),
        ("(?<=a)b", "invalid perl operator: (?<="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("\ud800", "not Unicode"),
        ("(.{0,30}){30}y", "too large"),
        (r"[\pL\d]{900}", "too large"),
    ],
)
def test_what_is_no_expression_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)) as refused:
        Expression(text)
    assert [fault.field for fault in refused.value.faults] == ["text"]


@pytest.mark.parametrize("text", [r"(x+x+)+y", r"(a|aa)+$", r"(.*){20}y", r"[a-q].{200}q", r"(.{0,12}){18}#"])
def test_no_expression_takes_exponential_time(text: str) -> None:
    """Python's own expressions would take years for some of these."""
    letters = random.Random(1).choices("xaq ", k=20_000)
    lines = ["x" * 5_000, "a" * 5_000 + "b", "".join(letters)]
    began = time.process_time()
    found(Expression(text), lines)
    assert time.process_time() - began < 20
