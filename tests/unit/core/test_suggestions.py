"""For an unknown name the most similar known one is suggested."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.suggestions import did_you_mean, nearest

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
def test_typing_mistakes_and_short_forms_find_the_known_name(word: str, meant: str | None) -> None:
    """A name that is not similar finds none."""
    assert nearest(word, KNOWN) == meant


def test_a_hint_names_the_nearest_name_or_some_known_ones() -> None:
    """Its length is limited."""
    assert did_you_mean("imag", KNOWN) == "did you mean image?"
    assert did_you_mean("zebra", ["a", "b"]) == "known: a, b"
    assert did_you_mean("zebra", []) == ""
    assert did_you_mean("zebra", [str(i) for i in range(30)]).endswith("and 10 more")


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=10))
def test_any_word_gets_a_known_name_or_none(word: str, known: list[str]) -> None:
    assert nearest(word, known) in {None, *known}
