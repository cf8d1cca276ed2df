"""The embedded API server decides about new objects as a real one did."""

from __future__ import annotations

import pytest
from tests.helpers import kinds_cases
from tests.helpers.kinds_cases import Case
from tests.helpers.kinds_pipeline import create, fresh

FILES = ("pods", "others", "definitions", "admission_policies", "custom_resources")
CASES = [pytest.param(file, case, id=f"{file}:{case.name}") for file in FILES for case in kinds_cases.load(file)]


@pytest.mark.parametrize(("file", "case"), CASES)
async def test_same_answer_as_a_real_server(file: str, case: Case) -> None:
    """The same faults in the same words, all at once; or the same defaults and the same fields dropped."""
    registry, view = fresh()
    if file == "custom_resources":
        made = await create(registry, view, kinds_cases.definition())
        assert made.error is None
        registry.add_definition(made.object)
    answer = await create(registry, view, case.body)
    assert [kinds_cases.comparable_fault(one) for one in answer.faults] == list(case.faults)
    assert (answer.error.code if answer.error else 201) == case.code
    if case.object is not None:
        assert kinds_cases.comparable(answer.object) == case.object
        assert sorted(answer.unknown) == list(case.unknown)
