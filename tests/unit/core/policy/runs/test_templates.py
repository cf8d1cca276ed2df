"""Templates of runs in the policy: parts of valid specs, offered to teams that exist."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.core.policy.file import parse_policy
from kajitori.errors import InvalidInput

TEAMS = {"vision": {"groups": ["oidc:vision"]}}


def test_a_template_is_a_part_of_a_spec() -> None:
    """What it leaves out, even the image, the user fills in."""
    spec = {"resources": {"gpu": 8, "gpuType": "h100"}, "launcher": "torchrun"}
    policy = parse_policy({"teams": TEAMS, "templates": {"torch": {"teams": ["vision"], "spec": spec}}})
    assert policy.templates["torch"].spec == spec


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ({"spec": {"resources": {"gpus": 8}}}, "resources.gpus"),
        ({"spec": {"launcher": "mpi"}}, "launcher mpi needs a command"),
        ({"spec": {}, "teams": ["robotics"]}, "templates.torch.teams[0]: there is no team 'robotics'"),
        ({}, "is required"),
    ],
)
def test_a_faulty_template_is_refused_with_its_place(template: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_policy({"teams": TEAMS, "templates": {"torch": template}})
    assert any(says in f"{fault.field}: {fault.message}" for fault in caught.value.faults), caught.value.faults
