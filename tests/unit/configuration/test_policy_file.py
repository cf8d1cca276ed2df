"""The policy in force follows its file, but never into a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import default_policy, with_first_step
from kajitori.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("changes_count_at_once")


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
    assert second.path == path
    path.unlink()
    assert source.current().policy == default_policy()
    assert source.current().path is None


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


def test_a_file_that_was_asked_for_has_to_be_there(tmp_path: Path) -> None:
    """At the start, and later: one that vanishes does not loosen what it forbade."""
    path = tmp_path / "policy.yaml"
    with pytest.raises(InvalidInput, match=r"policy.yaml cannot be read: No such file"):
        PolicyFile(path, required=True)
    path.write_text("defaults: {grace: 10s}")
    source = PolicyFile(path, required=True)
    before = source.current()
    path.unlink()
    gone = source.current()
    assert (gone.policy, gone.version) == (before.policy, before.version)
    assert [fault.field for fault in gone.faults] == ["policy"]
    path.write_text("defaults: {grace: 11s}")
    assert source.current().faults == ()
    assert PolicyFile(None, required=True).current().path is None


def test_what_it_leaves_out_is_filled_in(tmp_path: Path) -> None:
    """Now, and in whatever file comes; a file's own word counts."""
    path = tmp_path / "policy.yaml"
    source = PolicyFile(path)
    before = source.current()
    source.complete(lambda policy: with_first_step(policy, "kajitori", "http://127.0.0.1:1"))
    filled = source.current()
    assert filled.version > before.version and filled.policy.start.server == "http://127.0.0.1:1"
    path.write_text("start: {deadline: 10s}")
    assert source.current().policy.start.image == "kajitori"
    path.write_text("start: {image: 'r/k:1', server: 'http://k:8600'}")
    assert source.current().policy.start.server == "http://k:8600"
