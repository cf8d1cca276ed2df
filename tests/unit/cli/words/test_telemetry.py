"""Words for figures of runs."""

from __future__ import annotations

import pytest

from kajitori.cli.words.telemetry import value_words


@pytest.mark.parametrize(("cores", "text"), [(0.00008079, "0.000081 cores"), (0.0, "0 cores"), (1.5, "1.5 cores")])
def test_a_small_share_of_a_core_has_no_exponent(cores: float, text: str) -> None:
    assert value_words(cores, "cores") == text
