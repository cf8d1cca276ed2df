"""Names that the embedded cluster writes and the platform above it reads; neither imports the other's."""

from __future__ import annotations

from kajitori.core.naming import names as platform_names
from kajitori.embedded import names


def test_the_platform_reads_the_names_that_the_embedded_cluster_writes() -> None:
    assert names.CONDITION_MEMORY_PEAK == platform_names.CONDITION_MEMORY_PEAK
    assert names.GPU_RESOURCE == platform_names.GPU_RESOURCE
