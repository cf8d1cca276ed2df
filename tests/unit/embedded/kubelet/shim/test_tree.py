"""Processes above and below another one."""

from __future__ import annotations

import os
import subprocess

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
