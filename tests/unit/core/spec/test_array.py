"""The syntax of a sweep's members."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.array import MAX_INDEX, MAX_MEMBERS, parse_array
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import Fault, FieldError, InvalidInput, Refused


@pytest.mark.parametrize(
    ("text", "indices", "at_once"),
    [
        ("7", (7,), 1),
        ("0-3", (0, 1, 2, 3), 4),
        ("0-999%64", tuple(range(1000)), 64),
        ("0-9%64", tuple(range(10)), 10),
        ("1,3,5-9", (1, 3, 5, 6, 7, 8, 9), 7),
        ("0-100:25", (0, 25, 50, 75, 100), 5),
        ("5,1-3,2%2", (1, 2, 3, 5), 2),
    ],
)
def test_ranges_lists_and_steps_as_batch_systems_write_them(text: str, indices: tuple[int, ...], at_once: int) -> None:
    """Each member counts once, in ascending order; without a limit all may run at the same time."""
    array = parse_array(text)
    assert (array.indices, array.at_once) == (indices, at_once)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a number"),
        ("a", "is not a number"),
        ("-3", "is not a number"),
        ("1-", "is not a number"),
        ("1,,2", "is not a number"),
        ("1, 2", "is not a number"),
        ("1-2-3", "is not a number"),
        ("٣", "is not a number"),
        ("9-1", "end of the range is below its start"),
        ("0-9:0", "step cannot be 0"),
        ("0-9%", "at once"),
        ("0-9%0", "at once"),
        ("0-9%x", "at once"),
        ("0-9%5%5", "at once"),
        (f"0,{MAX_INDEX + 1}", "exceeds 99999"),
        (f"0-{MAX_MEMBERS}", "at most 10000 members"),
        ("0," * 3000, "characters"),
    ],
)
def test_an_invalid_array_is_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(FieldError) as refused:
        parse_array(text)
    assert said in refused.value.message
    assert refused.value.hint


@given(st.sets(st.integers(0, 300), min_size=1))
def test_ranks_written_to_a_status_can_be_read_as_an_array(indices: set[int]) -> None:
    assert parse_array(compress_ranks(sorted(indices))).indices == tuple(sorted(indices))


def faults(**spec: object) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"image": "bert:3", **spec})
    return {fault.field: fault.hint for fault in refused.value.faults}


def test_a_sweep_is_counted_by_its_array() -> None:
    spec = parse_spec({"image": "bert:3", "array": "0-9%4", "stopAt": "first-success", "restarts": 2})
    assert (spec.members, spec.members_at_once, spec.replicas) == (10, 4, 1)
    gang = parse_spec({"image": "bert:3", "replicas": 3})
    assert (gang.members, gang.members_at_once, gang.sweep) == (3, 3, None)


def test_all_fields_that_contradict_an_array_are_refused_at_once() -> None:
    found = faults(array="0-9", replicas=4, type="service", launcher="torchrun", restarts=101)
    assert found.keys() == {"spec.replicas", "spec.type", "spec.launcher", "spec.restarts"}
    assert all(found.values())
    assert faults(stopAt="first-failure").keys() == {"spec.stopAt"}
    assert faults(array="0-9", stopAt="sometimes").keys() == {"spec.stopAt"}


def test_the_fault_of_an_array_has_its_value() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"image": "bert:3", "array": "9-1"})
    (fault,) = refused.value.faults
    assert (fault.field, fault.value, fault.hint) == ("spec.array", "9-1", "write 1-9")
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"image": "bert:3", "array": 5})
    (fault,) = refused.value.faults
    assert 'write it in quotes: "5"' in fault.hint


def refused(policy: dict[str, Any], **spec: object) -> list[Fault]:
    with pytest.raises(Refused) as error:
        identity = RunIdentity("grid", "vision")
        decide(parse_spec({"image": "bert:3", **spec}), parse_policy(policy), Facts(), run=identity)
    return list(error.value.faults)


def test_ceilings_apply_to_members_that_may_run_at_the_same_time() -> None:
    """The hint is to let fewer run at a time."""
    policy = {"ceilings": {"run": {"gpu": 64, "replicas": 100}}}
    members, gpus = refused(policy, array="0-999%200", resources={"gpu": 1})
    assert (gpus.field, gpus.hint) == ("spec.resources.gpu", "run fewer members at once: 0-999%64")
    assert (members.field, members.hint) == ("spec.array", "run fewer members at once: 0-999%100")
    spec = parse_spec({"image": "bert:3", "array": "0-999%64", "resources": {"gpu": 1}})
    decide(spec, parse_policy(policy), Facts(), run=RunIdentity("grid", "vision"))


def test_policy_limits_the_number_of_members() -> None:
    (fault,) = refused({"sweeps": {"members": 500}}, array="0-999%4")
    assert (fault.field, fault.code) == ("spec.array", "AboveCeiling")
    assert "1000 members exceed the policy's ceiling of 500" in fault.message
