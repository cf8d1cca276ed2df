"""Processes above and below another one."""

from __future__ import annotations

import os
import subprocess

import pytest

from kajitori.embedded.kubelet.shim import tree


def test_ancestors_begin_with_the_parent() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        above = tree.ancestors(child.pid)
        assert above[:2] == [os.getpid(), os.getppid()]
        assert child.pid in tree.descendants(os.getpid())
    finally:
        child.kill()
        child.wait()


def test_a_process_that_has_ended_has_no_ancestors() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert tree.ancestors(child.pid) == []


def test_processes_of_a_session_are_found_even_if_lists_of_children_lack_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may leave a process out of such a list while another one ends."""
    monkeypatch.setattr(tree, "_children_of", lambda _: [])
    script = "sleep 1000 & echo $!; exec sleep 1000"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        job = int(leader.stdout.readline())
        found = tree.of_session(leader.pid)
        tree.kill_all((leader.pid, job))
    assert found == {leader.pid, job}
