"""Copies of files into containers that do not run: read from the Web API's store, and written back as one archive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from kajitori.codepack.packing import pack
from kajitori.codepack.parts import decompressed
from kajitori.codepack.unpacking import unpack
from kajitori.docker.placed_files import PlacedFiles, too_large
from kajitori.docker.platform import Platform, run_path
from kajitori.docker.translation.container import Container
from kajitori.errors import InvalidInput

_NO_ARCHIVE = f"sha256:{'0' * 64}"
_PIECE_BYTES = 1 << 18


class FilesBeforeStart:
    """Copies files into containers that do not run, one copy at a time."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def opened(self, container: Container) -> AsyncIterator[PlacedFiles]:
        """Yield the files of a container. They are on this machine until the end of the context."""
        with TemporaryDirectory(prefix="kaji-docker-") as folder:
            yield await self._fetched(container, Path(folder))

    async def add(self, container: Container, path: str, archive: AsyncIterator[bytes]) -> None:
        """Add the files of a client's tar archive, to be unpacked at a path.

        Raises InvalidInput, TooLarge, Unsupported if the server has no store, and WrongState if the container has been
        started meanwhile.
        """
        async with self._turn:
            container = await self._platform.refreshed(container)
            with TemporaryDirectory(prefix="kaji-docker-") as folder:
                placed = await self._fetched(container, Path(folder))
                with TemporaryFile(dir=folder) as given:
                    limit_bytes = await self._receive(archive, given)
                    await asyncio.to_thread(placed.add, given, path, limit_bytes)
                if placed.items:
                    await self._store(container, placed, Path(folder, "packed"))

    async def _receive(self, archive: AsyncIterator[bytes], given: IO[bytes]) -> int:
        """Receive a client's archive, and return the limit on what is kept for a start. Raises TooLarge."""
        limit = int((await self._platform.get(f"/v1/code/{_NO_ARCHIVE}/parts", self._place))["maxBytes"])
        size = 0
        async for data in archive:
            size += len(data)
            if size > limit:
                raise too_large(limit)
            given.write(data)
        given.seek(0)
        return limit

    async def _store(self, container: Container, placed: PlacedFiles, folder: Path) -> None:
        await asyncio.to_thread(placed.arrange, folder)
        packed = await asyncio.to_thread(pack, folder)
        await self._platform.upload(packed)
        earlier = container.spec.get("files")
        body = {"files": {"digest": packed.digest, "items": placed.items}}
        body |= {"insteadOf": earlier["digest"]} if earlier else {}
        try:
            await self._platform.post(run_path(container, "/set-files"), body)
        except InvalidInput as error:  # the client knows paths, and no items
            paths = {f"files.items[{index}].path": item["path"] for index, item in enumerate(placed.items)}
            raise InvalidInput([replace(fault, field=paths.get(fault.field, "")) for fault in error.faults]) from error

    async def _fetched(self, container: Container, folder: Path) -> PlacedFiles:
        """Download the archive of a run's files."""
        files = container.spec.get("files")
        if not files:
            return PlacedFiles(folder)
        digest = str(files["digest"])
        size = (await self._platform.get(f"/v1/code/{digest}", self._place))["sizeBytes"]
        with TemporaryFile(dir=folder) as archive:
            async with aclosing(self._platform.chunks(f"/v1/code/{digest}/bytes", self._place)) as chunks:
                async for chunk in chunks:
                    archive.write(chunk)
            archive.seek(0)
            pieces = decompressed(iter(partial(archive.read, _PIECE_BYTES), b""))
            target = folder / "unpacked"
            await asyncio.to_thread(unpack, pieces, target, digest=digest, size_bytes=size)
        return PlacedFiles.of(folder, files["items"], target)

    @property
    def _place(self) -> dict[str, str]:
        return {"namespace": self._platform.namespace} if self._platform.namespace else {}
