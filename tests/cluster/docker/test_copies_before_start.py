"""Files that clients copy into a container before its start."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncIterator

from tests.harness.cluster import Cluster, this_machine
from tests.harness.web_api import web_api
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.blobs.code import CodeLimits, CodeStore
from kajitori.client.target import Target
from kajitori.docker.engine import Engine
from kajitori.docker.hijack import STDOUT
from kajitori.docker.output import LogQuery, read_output
from kajitori.docker.platform import Platform
from kajitori.docker.translation.creation import read_creation
from kajitori.errors import WrongState

HERE = {"Memory": 64 << 20, "NanoCpus": 10**8}
USER = {"User": "65534"} if os.geteuid() == 0 else {}


async def archive(name: str, content: str) -> AsyncIterator[bytes]:
    """Yield a tar archive as a client sends it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as opened:
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(content), 0o600
        opened.addfile(info, io.BytesIO(content.encode()))
    yield made.getvalue()


async def test_each_member_has_the_files_before_its_program_starts(cluster: Cluster) -> None:
    """Another bridge made the first copy. The second start has the files of both, and a running program gets none this
    way."""
    blobs = MemoryBlobs()
    code = CodeStore(blobs, lambda: CodeLimits(size_bytes=1 << 24))
    async with (
        this_machine(cluster, labels={}, rules={"mounts": {}}),
        web_api(cluster, for_members=True, code=code, blobs=blobs) as web,
        Platform(Target(web.url, web.token, cluster.namespace)) as platform,
    ):
        cluster.start_controller()
        engines = [Engine(platform), Engine(platform)]
        words = ["sh", "-c", "stat -c %a /opt/d/a; cat /opt/d/*; sleep 1000"]
        labels = {"kaji.replicas": "2", "kaji.grace": "0s"}
        body = {"Image": "busybox", "Cmd": words, "HostConfig": HERE, "Labels": labels} | USER
        container = await engines[0].create(read_creation(body, "copied"))
        await engines[0].files_before_start.add(container, "/opt/d", archive("a", "first\n"))

        async def prints(text: str) -> None:
            for rank in (0, 1):
                while True:
                    pieces = read_output(platform, await platform.find(f"copied.{rank}"), newest)
                    if b"".join([data async for _, data in pieces]).decode() == text:
                        break
                    await asyncio.sleep(0.1)

        newest = LogQuery((STDOUT,), newest_start=True)
        async with asyncio.timeout(60):
            await engines[1].start(container)
            await prints("600\nfirst\n")
            try:
                await engines[1].files_before_start.add(container, "/opt/d", archive("b", "late\n"))
            except WrongState as error:
                assert "files are set before a start" in error.message
            else:
                raise AssertionError("files of a running program were changed")
            await platform.post(f"/v1/runs/{cluster.namespace}/copied/stop", {"grace": "0s"})
            stopped = await engines[1].ended(await platform.refreshed(container))
            await engines[1].files_before_start.add(stopped, "/opt", archive("d/b", "second\n"))
            await engines[1].start(await platform.refreshed(stopped))
            await prints("600\nfirst\nsecond\n")
        for engine in engines:
            await engine.close()
