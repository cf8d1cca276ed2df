"""Every kind of store: a folder, obstore's memory, and two clouds' emulators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore
from tests.helpers import emulators
from tests.helpers.emulators import Emulator

from kajitori.blobs.stores.blobs import Blobs
from kajitori.blobs.stores.cloud import ObjectBlobs
from kajitori.blobs.stores.opening import open_blobs


@pytest.fixture(scope="session")
def s3() -> Iterator[Emulator]:
    with emulators.s3() as emulator:
        yield emulator


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with emulators.azure(tmp_path_factory.mktemp("azurite")) as emulator:
        yield emulator


@pytest.fixture(params=["folder", "memory", "s3", "azure"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Blobs]:
    """An empty store of each kind in turn."""
    if request.param == "folder":
        yield await open_blobs((tmp_path / "blobs").as_uri())
    elif request.param == "memory":
        yield ObjectBlobs(MemoryStore(), "memory:")
    else:
        emulator: Emulator = request.getfixturevalue(request.param)
        yield await open_blobs(f"{emulator.new_place()}/some/prefix", emulator.options)


@pytest.fixture
async def folder(tmp_path: Path) -> Blobs:
    """An empty store in a folder."""
    return await open_blobs((tmp_path / "blobs").as_uri())
