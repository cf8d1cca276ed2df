"""The results of a sweep: the value by which members are compared."""

from __future__ import annotations

import pytest

from kajitori.core.gang.sweeps.results import objective_of, order_of, values_of


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["lr", "loss", "accuracy"], "loss"),
        (["lr", "train_loss", "val_loss"], "val_loss"),
        (["trainLoss", "evalTop1"], "evalTop1"),
        (["lr", "epochs", "mapped"], ""),
        ([], ""),
    ],
)
def test_the_objective_is_found_by_its_name(names: list[str], expected: str) -> None:
    """A value on validation data comes first."""
    assert objective_of(names) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loss", "lowest"),
        ("eval/F1", "highest"),
        ("valAUC", "highest"),
        ("accuracy_loss", "lowest"),
        ("MSE", "lowest"),
        ("score_error", "lowest"),
        ("lossless", None),
        ("", None),
    ],
)
def test_the_better_values_follow_from_the_last_word_that_tells(name: str, expected: str | None) -> None:
    assert order_of(name) == expected


def test_only_finite_numbers_of_a_result_are_compared() -> None:
    """A result that is a number itself is called result."""
    result = {"loss": 0.5, "steps": 3, "ok": True, "nan": float("nan"), "far": float("inf"), "note": "x", "more": {}}
    assert values_of(result) == {"loss": 0.5, "steps": 3}
    assert values_of(2) == {"result": 2}
    assert values_of("text") == values_of(None) == {}
