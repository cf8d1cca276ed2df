"""Locks of folders that one process alone may use."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kajitori import privatefile
from kajitori.privatefile import lock_alone


@pytest.fixture
def handles(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Two processes' handles of one file, as far as locks go."""
    opened = [os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2)]
    yield opened[0], opened[1]
    for handle in opened:
        os.close(handle)


def test_a_lock_that_is_about_to_be_left_is_waited_for(
    handles: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the child of a process that was killed while it started it."""
    first, second = handles
    assert lock_alone(first)
    monkeypatch.setattr("kajitori.privatefile.time.sleep", lambda _: fcntl.flock(first, fcntl.LOCK_UN))
    assert lock_alone(second)


def test_one_that_is_held_is_not_had(handles: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = handles
    assert lock_alone(first)
    monkeypatch.setattr(privatefile, "LOCK_SECONDS", 0.0)
    assert not lock_alone(second)
