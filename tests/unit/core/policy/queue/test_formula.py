"""An operator's own formula: only arithmetic, and no error once it was parsed."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.policy.queue.formula import LONGEST, NAMES, Formula, FormulaError


def scores(text: str, **values: float) -> list[float]:
    told = dict.fromkeys(NAMES, 1.0) | values
    return list(Formula(text)(**{name: np.array([value]) for name, value in told.items()}))


def test_a_formula_is_arithmetic_over_names() -> None:
    text = "(waited / expected) ** 3 * size / ((1 + userShare / 0.1) * (1 + teamShare / 0.1))"
    assert scores(text, waited=20, expected=10, size=0.5, userShare=0.1, teamShare=0.3) == [pytest.approx(0.5)]
    assert scores("max(-waited, 3) + min(expected, size) - abs(-sqrt(4)) + exp(log(2))", waited=9, size=0.25) == [
        pytest.approx(3.25)
    ]
    assert scores("7") == [7.0]


def test_a_score_without_a_value_is_the_lowest() -> None:
    assert scores("waited / expected", waited=0, expected=0) == [-np.inf]
    assert scores("9 ** 9 ** 9 ** 9 * waited") == [np.inf]
    assert scores("sqrt(-waited)") == [-np.inf]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a valid formula"),
        ("waited *", "not a valid formula"),
        ("waited * (size", "not a valid formula at character 10"),
        ("(" * 300 + "1" + ")" * 300, "characters"),
        ("(" * 220 + "1" + ")" * 220, "not a valid formula"),
        ("-" * 400 + "1", "nested deeper"),
        ("wated * 2", "did you mean waited?"),
        ("__import__('os')", "not arithmetic"),
        ("waited.real", "not arithmetic"),
        ("'a' * 10", "not a number"),
        ("True + 1", "not a number"),
        ("1j * waited", "not a number"),
        ("1 << 40", "not arithmetic"),
        ("waited if size else 1", "not arithmetic"),
        ("[waited for waited in (1, 2)]", "not arithmetic"),
        ("min(waited)", "min takes 2 values, not 1"),
        ("sqrt(waited, size)", "sqrt takes one value, not 2"),
        ("max(*waited)", "max takes 2 values"),
        ("abs(x=1)", "not arithmetic"),
        ("1" + "0" * 400, "too large"),
        ("1e999", "too large"),
        ("waited +" * LONGEST, "characters"),
    ],
)  # fmt: skip
def test_other_syntax_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Formula(text)
    assert says in f"{caught.value.message}; {caught.value.hint}"


expressions = st.recursive(
    st.sampled_from([*NAMES, "0", "2.5", "1e200"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**"]), inner).map(lambda t: f"({' '.join(t)})"),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"log({text})"),
        st.tuples(inner, inner).map(lambda pair: f"max({', '.join(pair)})"),
    ),
    max_leaves=15,
).filter(lambda text: len(text) <= LONGEST)


@given(expressions, st.lists(st.floats(allow_nan=True), min_size=5, max_size=5))
def test_a_parsed_formula_has_a_score_for_any_values(text: str, numbers: list[float]) -> None:
    formula = Formula(text)
    (answer,) = formula(**{name: np.array([number]) for name, number in zip(NAMES, numbers, strict=True)}).tolist()
    assert not np.isnan(answer)


def test_ten_thousand_runs_are_scored_quickly() -> None:
    many = {name: np.linspace(0.0, 1e6, 10_000) for name in NAMES}
    formula = Formula("9 ** 9 ** 9 ** (waited / (1 + expected)) * size / (1 + userShare) ** teamShare")
    began = time.process_time()
    formula(**many)
    assert time.process_time() - began < 0.5
