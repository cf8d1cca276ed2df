"""Unknown names are answered with the one that was probably meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.words.suggestions import did_you_mean, nearest

KNOWN = ["image", "command", "replicas", "gpuType", "memory", "timeLimit", "env", "gpu"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("imag", "image"),
        ("replica", "replicas"),
        ("gpu_type", "gpuType"),
        ("gpu-type", "gpuType"),
        ("GPUType", "gpuType"),
        ("mem", "memory"),
        ("gpus", "gpu"),
        ("time_limit", "timeLimit"),
        ("environment", "env"),
        ("entrypoint", "command"),
        ("Nodes", "replicas"),
        ("zebra", None),
        ("", None),
    ],
)
def test_nearest(word: str, meant: str | None) -> None:
    """Slips of the pen, other spellings and short forms find the known name; a stranger finds none."""
    assert nearest(word, KNOWN) == meant


def test_hints() -> None:
    """The hint names the nearest, else what is known, and does not grow without bound."""
    assert did_you_mean("imag", KNOWN) == "did you mean image?"
    assert did_you_mean("zebra", ["a", "b"]) == "known: a, b"
    assert did_you_mean("zebra", []) == ""
    assert did_you_mean("zebra", [str(i) for i in range(30)]).endswith("and 10 more")


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=10))
def test_any_words(word: str, known: list[str]) -> None:
    """Whatever the words, the answer is one of the known ones or none."""
    assert nearest(word, known) in {None, *known}
