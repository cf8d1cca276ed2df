"""The end of a run in words."""

from __future__ import annotations

from typing import Any

import pytest

from kajitori.client.exitcodes import end_words


@pytest.mark.parametrize(
    ("spec", "status", "words"),
    [
        ({}, {"phase": "Succeeded"}, ""),
        ({}, {"phase": "Stopped"}, "sh was stopped"),
        (
            {},
            {
                "phase": "Failed",
                "reason": "ProgramFailed",
                "message": "member 0: exit code 1: no module",
                "exitCode": 1,
            },
            "sh failed: ProgramFailed: member 0: exit code 1: no module",
        ),
        (
            {"tty": True},
            {"phase": "Failed", "reason": "ProgramFailed", "message": "member 0: exit code 1: $ false", "exitCode": 1},
            "sh ended with exit code 1",
        ),
        (
            {"tty": True},
            {"phase": "Failed", "reason": "TimeLimit", "message": "ran longer than 8 h"},
            "sh failed: TimeLimit: ran longer than 8 h",
        ),
    ],
    ids=["succeeded", "stopped", "a program", "a program with a terminal", "a time limit of a terminal"],
)
def test_the_end_of_a_run_in_words(spec: dict[str, Any], status: dict[str, Any], words: str) -> None:
    """A shell ends with the code of the last command that was typed into it, which is no failure to be explained."""
    assert end_words({"name": "sh", "spec": spec, "status": status}) == words
