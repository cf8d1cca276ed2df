"""The installation that all tests of parts use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.helpers.real_cluster import require_binaries
from tests.helpers.site import Site, running_site


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Controllers c1 and c2, a Web API, a relay, this machine as a node, and four simulated ones."""
    require_binaries("kube-apiserver", "etcd", "kube-scheduler")
    with running_site(tmp_path_factory.mktemp("site")) as it:
        yield it
