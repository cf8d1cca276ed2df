"""The embedded API server answers the creation of objects as a real one did."""

from __future__ import annotations

import pytest
from tests.helpers.objects import kinds_cases
from tests.helpers.objects.kinds_cases import Case
from tests.helpers.objects.kinds_pipeline import create, fresh

FILES = ("pods", "others", "definitions", "admission_policies", "custom_resources")
CASES = [pytest.param(file, case, id=f"{file}:{case.name}") for file in FILES for case in kinds_cases.load(file)]


@pytest.mark.parametrize(("file", "case"), CASES)
async def test_same_answer_as_a_real_server(file: str, case: Case) -> None:
    """The same code, defaults and dropped fields. A refusal names a field."""
    registry, view = fresh()
    if file == "custom_resources":
        made = await create(registry, view, kinds_cases.definition())
        assert made.error is None
        registry.add_definition(made.object)
    answer = await create(registry, view, case.body)
    assert (answer.error.code if answer.error else 201) == case.code, answer.faults
    assert all(fault.partition(": ")[2] for fault in answer.faults)
    if case.object is not None:
        assert kinds_cases.comparable(answer.object) == case.object
        assert sorted(answer.unknown) == list(case.unknown)
