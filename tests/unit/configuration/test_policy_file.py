"""The policy follows its file; a faulty file does not replace it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.policy.file import default_policy, with_first_step
from kajitori.errors import InvalidInput

pytestmark = pytest.mark.usefixtures("changes_count_at_once")


def test_the_policy_follows_the_file(tmp_path: Path) -> None:
    """A changed file counts at the next read; if the file is removed, the defaults count."""
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
    """Every fault is reported; the corrected file takes effect."""
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


def test_no_process_starts_with_a_faulty_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("no such section: 1")
    with pytest.raises(InvalidInput):
        PolicyFile(path)


def test_a_named_policy_file_must_exist(tmp_path: Path) -> None:
    """At the start and later: if it vanishes, what it forbade stays forbidden."""
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


def test_omitted_settings_are_completed(tmp_path: Path) -> None:
    """In this file and in later ones; a setting of the file takes precedence."""
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
