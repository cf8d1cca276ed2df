"""The policy section for idle GPUs: what its times mean, and what it refuses."""

from __future__ import annotations

import pytest

from kajitori.core.policy.idle import IdleGpus, Use, use_of
from kajitori.core.telemetry.idle import Limits, Patience


def test_a_batch_run_with_ports_is_a_notebook() -> None:
    assert [use_of("batch", has_ports=False), use_of("batch", has_ports=True)] == [Use.BATCH, Use.NOTEBOOK]
    assert use_of("service", has_ports=True) is Use.SERVICE


def test_defaults_are_those_of_the_judgement() -> None:
    rules = IdleGpus()
    assert (rules.limits, rules.patience_of(Use.BATCH)) == (Limits(), Patience())
    assert rules.patience_of(Use.SERVICE).quiet_seconds == 24 * 3600
    assert rules.park is None


def test_a_longer_time_alone_is_also_the_time_for_runs_that_work() -> None:
    rules = IdleGpus.model_validate(
        {"batch": {"after": "20h"}, "service": {"after": None}, "notebook": {"after": "1h"}}
    )
    assert rules.patience_of(Use.BATCH) == Patience(20 * 3600, 20 * 3600)
    assert rules.patience_of(Use.NOTEBOOK) == Patience(3600, 8 * 3600)
    assert rules.patience_of(Use.SERVICE) == Patience(None, None)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"batch": {"after": "3h", "workingAfter": "2h"}}, "workingAfter"),
        ({"park": {"after": "1h", "warning": "1h"}}, "warning"),
        ({"utilisation": 0}, "greater than 0"),
        ({"notebok": {}}, "Extra"),
    ],
)
def test_contradictions_are_refused(document: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        IdleGpus.model_validate(document)
