"""The policy section for runs that hang: which runs are judged, and what it refuses."""

from __future__ import annotations

import pytest

from kajitori.core.policy.idle import Use
from kajitori.core.policy.runs.stuck import StuckRuns
from kajitori.core.telemetry.stuck import Patience


def test_gangs_are_judged_by_default_and_others_are_not() -> None:
    rules = StuckRuns()
    assert rules.patience(Use.BATCH, None) == Patience()
    assert (rules.patience(Use.NOTEBOOK, None), rules.patience(Use.SERVICE, None)) == (None, None)
    assert rules.patience(Use.NOTEBOOK, 600) == Patience(exact_seconds=600)


def test_each_use_has_times_of_its_own() -> None:
    rules = StuckRuns.model_validate({"batch": None, "service": {"floor": "1h", "ceiling": "12h", "factor": 2}})
    assert rules.patience(Use.BATCH, None) is None
    assert rules.patience(Use.SERVICE, None) == Patience(3600, 3600, 12 * 3600, 2.0)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"batch": {"floor": "2h"}}, "ascending order"),
        ({"batch": {"ceiling": "30m"}}, "ascending order"),
        ({"batch": {"factor": 0.5}}, "greater than or equal to 1"),
        ({"action": "kill"}, "'tell' or 'restart'"),
    ],
)
def test_contradictions_are_refused(document: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        StuckRuns.model_validate(document)
