"""The installation that all tests of this folder share. Each module can also run alone; some tests of `test_rights` are
skipped then."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.harness.binaries import require_binaries
from tests.harness.platform.installation import Installation, running_installation


@pytest.fixture(scope="package")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Controllers c1 and c2, a Web API, a relay, this machine as a node, and four simulated nodes."""
    require_binaries("kube-apiserver", "etcd", "kube-scheduler")
    with running_installation(tmp_path_factory.mktemp("installed")) as it:
        yield it
