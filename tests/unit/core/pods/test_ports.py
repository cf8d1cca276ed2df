"""The members of each attempt meet on a port of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.pods.ports import choose_port
from kajitori.errors import Unavailable


@given(st.text(), st.integers(1, 99), st.sets(st.integers(100, 120)))
def test_a_port_in_use_is_not_chosen(uid: str, attempt: int, taken: set[int]) -> None:
    """As long as there is another one. The choice is deterministic."""
    if taken >= set(range(100, 121)):
        return
    port = choose_port(uid, attempt, taken, 100, 120)
    assert 100 <= port <= 120 and port not in taken
    assert choose_port(uid, attempt, taken, 100, 120) == port


def test_no_free_port_is_an_error_with_the_range() -> None:
    with pytest.raises(Unavailable, match="100 to 101"):
        choose_port("u", 1, {100, 101}, 100, 101)
