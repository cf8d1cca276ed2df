"""Random sequences of API operations against the embedded and a real API server: the same codes, reasons, objects and
events.

The seeds are fixed. `python -m tests.helpers.differential.explore 1000 200` tries new ones. Known differences are
listed in docs/architecture/embedded-differences.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.harness.binaries import require_binaries
from tests.harness.servers.real_server import RealServer
from tests.helpers.differential.explore import LENGTH
from tests.helpers.differential.generate import fences, sequence
from tests.helpers.differential.lockstep import smallest
from tests.helpers.differential.servers import pair_of, real_server

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("differential")]

SEEDS = (
    *(50001, 50007, 50013, 50015, 50017, 50023, 50032, 50033, 50046),
    *(50052, 50053, 50055, 50059, 50068, 50069, 50077, 50081, 50089),
)
"""Seeds of sequences without a known difference that cover many kinds, verbs, patch types and formats. A change of the
catalogue or the generator changes the sequences: find good seeds with `explore`."""


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[RealServer]:
    """A real API server for this module only."""
    require_binaries("kube-apiserver", "etcd")
    with real_server() as cluster:
        yield cluster


async def test_random_sequences_are_answered_the_same(own_cluster: RealServer) -> None:
    """Answers and watch events are the same, apart from identities, versions, times and texts."""
    different: dict[str, str] = {}
    async with pair_of(own_cluster) as pair:
        for seed in SEEDS:
            operations = sequence(seed, LENGTH)
            found = await pair.run(operations, fences())
            if found and found[0].signature not in different:
                kept, difference = await smallest(pair, operations, fences(), found[0])
                after = "\n".join(f"  {one}" for one in kept)
                different[found[0].signature] = f"seed {seed}: {difference}\nafter\n{after}"
    assert not different, "\n\n".join(different.values())
