"""One PostgreSQL for all tests of history."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.harness.servers.postgres import running_postgres


@pytest.fixture(scope="package")
def postgres() -> Iterator[str]:
    with running_postgres() as url:
        yield url
