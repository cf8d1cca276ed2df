"""The commands of the tutorial are typed into a real shell and must print what the page shows."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.harness.commands import quick_kaji

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = [pytest.mark.xdist_group("e2e-tutorial"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def capture() -> ModuleType:
    """The module docs/capture.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("docs_capture", DOCS / "capture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def test_the_tutorial_shows_what_its_commands_print(capture: ModuleType, tmp_path: Path) -> None:
    """From the first `kaji up` to an existing cluster, apart from times, ports and names. Each verb starts as a process
    once, and later without one, in milliseconds."""
    page = (DOCS / "start" / "tutorial.md").read_text(encoding="utf-8")
    with capture.foreign_cluster() as kubeconfig:
        typed = quick_kaji(tmp_path / "typed", first_from_nothing=True)
        now = capture.captured(page, tmp_path, kubeconfig, typed=typed, quick=quick_kaji(tmp_path / "quick"))
    written, printed = capture.comparable(page), capture.comparable(now)
    difference = "\n".join(difflib.unified_diff(written, printed, "tutorial.md", "now", lineterm=""))
    assert not difference, f"python docs/capture.py tutorial, or mend what it shows:\n{difference}"


def test_the_steps_of_a_page_are_found(capture: ModuleType) -> None:
    """Commands, continued lines, output, tags, and steps that only the capture takes."""
    page = (
        "x\n```console kubectl\n$ cat <<E\n> a\n> E\na\n$ true\n```\n"
        "<!-- until: kaji ps -->\n<!-- stop -->\n```\n$ no\n```\n"
    )
    assert [(step.kind, step.words, step.tags, step.output) for step in capture.steps_of(page)] == [
        ("type", "cat <<E\na\nE", ("kubectl",), (5, 6)),
        ("type", "true", ("kubectl",), (7, 7)),
        ("until", "kaji ps", (), (0, 0)),
        ("stop", "", (), (0, 0)),
    ]


def test_a_server_may_pause_before_it_is_up(capture: ModuleType, tmp_path: Path) -> None:
    """A slow machine may print nothing for a while between two lines."""
    terminal = capture.Terminal(tmp_path)
    try:
        words = """bash -c 'echo On port 41; sleep 1.2; echo It is up; sleep 60'"""
        assert terminal.serve(words, ["On port 7", "It is up"]) == "On port 41\nIt is up\n"
    finally:
        terminal.stop_servers()  # before `close`, which would ask for runs
        terminal.close()


def test_only_times_and_ports_are_ignored_in_a_comparison(capture: ModuleType) -> None:
    """A different count or status is a difference."""
    before = "bert  Running  2/2  3 seconds\nhttp://127.0.0.1:41001"
    assert capture.comparable(before) == capture.comparable("bert Running 2/2 About a minute\nhttp://127.0.0.1:5")
    late = "2026-11-21 13:36:54,444 INFO kajitori.embedded.simulator.nodes: 3 simulated nodes are ready"
    assert capture.comparable(before) == capture.comparable(f"{before}\n{late}")
    assert capture.comparable(before) != capture.comparable(before.replace("2/2", "1/2"))
    assert capture.comparable(before) != capture.comparable(before.replace("Running", "Failed"))


def test_a_page_keeps_lines_that_differ_only_in_times_and_ports(capture: ModuleType) -> None:
    """So the diff of a capture has only real changes."""
    old = "bert  Running  2/2  3 seconds\nhttp://127.0.0.1:41001\nold words\n"
    new = "bert  Running  2/2  9 seconds\nhttp://127.0.0.1:5\nnew words\n"
    assert capture.with_old_lines(old, new) == "bert  Running  2/2  3 seconds\nhttp://127.0.0.1:41001\nnew words\n"
