"""Files that are followed, without waiting for an editor to finish."""

from __future__ import annotations

import pytest

from kajitori.configuration import followed_file


@pytest.fixture
def changes_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check followed files at every use, and accept a change at once, however recent it is."""
    monkeypatch.setattr(followed_file, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(followed_file, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(followed_file, "LOOK_SECONDS", 60.0)
