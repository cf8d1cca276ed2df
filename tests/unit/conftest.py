"""Fixtures for all unit tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def unchanged_log_level() -> Iterator[None]:
    """Restore the level of the project's logger, because the main functions of programs set it."""
    log = logging.getLogger("kajitori")
    level = log.level
    yield
    log.setLevel(level)
