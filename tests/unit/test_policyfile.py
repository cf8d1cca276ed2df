"""The policy in force follows its file, but never into a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.core.policy import default_policy
from kajitori.errors import InvalidInput
from kajitori.policyfile import PolicyFile


def test_it_follows_the_file(tmp_path: Path) -> None:
    """A changed file is taken at the next question; a removed one gives the defaults back."""
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {grace: 10s}")
    source = PolicyFile(path)
    first = source.current()
    path.write_text("defaults: {grace: 120s}")
    second = source.current()
    assert second.version > first.version
    assert second.policy != first.policy
    assert source.current() is second
    path.unlink()
    assert source.current().policy == default_policy()


def test_a_faulty_file_leaves_the_old_policy_in_force(tmp_path: Path) -> None:
    """And says every fault; mending it takes it."""
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {grace: 10s}")
    source = PolicyFile(path)
    before = source.current()
    path.write_text("defaults: {grace: soon, restart: 3}")
    faulty = source.current()
    assert (faulty.policy, faulty.version) == (before.policy, before.version)
    assert len(faulty.faults) == 2
    path.write_text("defaults: {grace: 11s}")
    assert source.current().faults == ()


def test_nothing_starts_under_a_faulty_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("no such section: 1")
    with pytest.raises(InvalidInput):
        PolicyFile(path)
