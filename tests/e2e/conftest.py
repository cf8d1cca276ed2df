"""One `kaji up` for the modules that only use it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

import pytest
from tests.harness.kaji_up import KajiUp
from tests.harness.servers.shared_servers import SHARED_SERVERS
from tests.harness.waiting import wait_until


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KajiUp]:
    """A `kaji up` with four simulated nodes, which the modules of a group share. Each module finds it without runs."""
    it = SHARED_SERVERS.get("kaji up", partial(_running_up, tmp_path_factory))
    yield it
    if names := it.runs():
        it.kaji("rm", "-f", *names)
        wait_until(lambda: not it.runs())


@contextlib.contextmanager
def _running_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KajiUp]:
    it = KajiUp(tmp_path_factory.mktemp("up"))
    it.start("--nodes", "4", "--gpus", "8", "--gpu-type", "h100")
    try:
        yield it
    finally:
        it.kill()
