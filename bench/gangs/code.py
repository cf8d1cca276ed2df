"""Cost of sending code to all members of a gang when it starts.

    python -m bench.gangs.code            100 MB to 1,000 members
    python -m bench.gangs.code --small    10 MB to 100 members

The embedded API server and `kaji server` are processes of their own; the store of blobs is a folder, which the Web API
reads. Code lies there already (the upload is not measured): text, which is compressed to about a third. Members are
started all at once. A few are `python -m kajitori.member`, as in a Pod: they fetch the code, check and unpack it. The
others are light: one process here holds all their connections, asks what a member asks and reads the whole answer, but
does not unpack it, because one machine cannot do the work of a thousand. All share its cores, and loopback is the
network. Between the Web API and the API server every byte is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psutil
import uvloop
import yaml

from bench.gangs.discovery import NAMESPACE, RUN, cpu_seconds, make_gang, web_api
from bench.parts.common import Limit, print_limits, print_table
from bench.parts.options import option_parser
from kajitori.blobs.code import CodeStore
from kajitori.blobs.stores.opening import open_blobs
from kajitori.cluster.platform.install import install
from kajitori.codepack.packing import Pack, pack
from kajitori.codepack.parts import compress
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.core.naming import first_step
from kajitori.embedded.cluster import EmbeddedCluster, EmbeddedSettings
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NAMESPACES

WHOLE_MEMBERS = 4
FILE_BYTES = 200_000
WORDS = 4_000
PATIENCE_SECONDS = 900.0
MB = 1e6


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one round."""

    members: int
    archive_bytes: int
    compressed_bytes: int
    last_light_seconds: float
    """Seconds from the start until the last light member had received everything."""
    last_whole_seconds: float
    """Seconds from the start until the last whole member had unpacked everything."""
    sent_bytes: int
    """Bytes that the Web API sent to light members."""
    web_api_cpu_seconds: float
    web_api_mib: float
    store_bytes: int
    """Bytes read from the store's folder."""
    apiserver_bytes: int
    """Bytes between the API server and the Web API, in both directions."""
    apiserver_cpu_seconds: float


# ---------------------------------------------------------------------------------------------- what is fetched


def project(folder: Path, size_bytes: int) -> Pack:
    """Return the archive of a folder with text files of this total size."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz_", k=chance.randint(2, 12))) for _ in range(WORDS)]
    for number in range(size_bytes // FILE_BYTES):
        text = " ".join(chance.choices(words, k=FILE_BYTES // 6))[:FILE_BYTES]
        path = folder / f"package_{number // 50}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return pack(folder)


async def store(blobs: Path, packed: Pack) -> int:
    """Store the code as an upload does; return its compressed size."""
    code = CodeStore(await open_blobs(blobs.as_uri()))
    sums = []
    for number in range(packed.parts):
        part = packed.part(number)
        sums.append(hashlib.sha256(part).hexdigest())
        await code.put_part(NAMESPACE, packed.digest, number, sums[-1], compress(part))
    return (await code.complete(NAMESPACE, packed.digest, sums, packed.size_bytes)).compressed_bytes


# ---------------------------------------------------------------------------------------------- processes


async def serve_api(folder: Path) -> None:
    """Run the embedded API server alone, until it is killed."""
    async with EmbeddedCluster(EmbeddedSettings(folder, in_memory=True)):
        print("ready", flush=True)
        await asyncio.Event().wait()


@contextlib.contextmanager
def api_server(folder: Path) -> Iterator[psutil.Process]:
    """Run the API server in a separate process; its kubeconfig is in the folder."""
    command = [sys.executable, "-m", "bench.gangs.code", "--api-server", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the API server ended before it was ready")
            yield psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


class Counter:
    """A proxy in front of the API server that counts every byte."""

    def __init__(self, host: str, port: int) -> None:
        self.passed_bytes = 0
        self._host, self._port = host, port

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Port of the proxy."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        with contextlib.suppress(asyncio.CancelledError):  # at the end of the round
            await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer), return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                self.passed_bytes += len(data)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


# ---------------------------------------------------------------------------------------------- members


class Light(asyncio.BufferedProtocol):
    """Send one member's request and read its answer to the last byte."""

    buffer = memoryview(bytearray(1 << 18))
    """One buffer that all members share, since answers are read and dropped."""

    def __init__(self, request: bytes, done: asyncio.Future[int]) -> None:
        self._request, self._done = request, done
        self._bytes = 0
        self._status = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, count: int) -> None:
        if not self._bytes:
            self._status = bytes(self.buffer[9:12])
        self._bytes += count

    def connection_lost(self, error: Exception | None) -> None:
        if self._done.done():
            return
        if error is not None or self._status != b"200":
            self._done.set_exception(RuntimeError(f"a member was answered {self._status!r}: {error}"))
        else:
            self._done.set_result(self._bytes)


async def fetch_lightly(url: str, ticket: str, ranks: range) -> int:
    """Run all light members at once; return the number of bytes that they received."""
    loop, place = asyncio.get_running_loop(), urlsplit(url)
    answers: list[asyncio.Future[int]] = []
    turns = asyncio.Semaphore(500)

    async def ask(rank: int) -> None:
        request = (
            f"GET /v1/members/code?rank={rank} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {ticket}\r\n"
            "Accept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        ).encode()
        answered: asyncio.Future[int] = loop.create_future()
        answers.append(answered)
        async with turns:
            await loop.create_connection(lambda: Light(request, answered), place.hostname or "", place.port or 80)

    await asyncio.gather(*(ask(rank) for rank in ranks))
    return sum(await asyncio.gather(*answers))


async def fetch_wholly(url: str, ticket: str, digest: str, ranks: range, members: int, folder: Path) -> None:
    """Run whole members as in a Pod, a process for each, until the code is unpacked."""

    async def member(rank: int) -> None:
        own = folder / str(rank)
        own.mkdir()
        environment = {
            "KAJI_RUN": RUN,
            "KAJI_ATTEMPT": "1",
            "KAJI_RANK": str(rank),
            "KAJI_WORLD_SIZE": str(members),
            first_step.FOLDER_ENV: str(own),
            first_step.SERVER_ENV: url,
            first_step.TICKET_ENV: ticket,
            first_step.CODE_ENV: digest,
            first_step.ALONE_ENV: "1",
            first_step.SLOTS_ENV: "1",
            first_step.DEADLINE_ENV: str(PATIENCE_SECONDS),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        command = (sys.executable, "-P", "-m", first_step.PROGRAM)
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=subprocess.DEVNULL)
        if await process.wait():
            raise RuntimeError(f"member {rank} ended with {process.returncode}")

    await asyncio.gather(*(member(rank) for rank in ranks))


# ---------------------------------------------------------------------------------------------- one round


async def measure(folder: Path, packed: Pack, members: int, server: psutil.Process) -> Figures:
    """Measure one round with a gang of this size."""
    kubeconfig = folder / "api" / "kubeconfig"
    document = yaml.safe_load(kubeconfig.read_text())
    place = urlsplit(document["clusters"][0]["cluster"]["server"])
    counter = Counter(place.hostname or "", place.port or 443)
    async with KubeClient(KubeConfig.from_file(kubeconfig)) as client, counter.running() as port:
        await install(client)
        for name in (NAMESPACE, LEASE_NAMESPACE):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        compressed = await store(folder / "blobs", packed)
        ticket = await make_gang(client, members, packed.digest)
        document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        counted = folder / "counted.kubeconfig"
        counted.write_text(yaml.safe_dump(document))
        starting = contextlib.ExitStack()
        with starting:
            options = (counted, folder, "--blobs", (folder / "blobs").as_uri())
            url, process = await asyncio.to_thread(starting.enter_context, web_api(*options))
            await asyncio.sleep(2.0)  # its mirror has read all of the gang
            before = cpu_seconds(process), cpu_seconds(server), process.io_counters().read_chars, counter.passed_bytes
            began = time.monotonic()
            light, whole = range(members - WHOLE_MEMBERS), range(members - WHOLE_MEMBERS, members)
            async with asyncio.timeout(PATIENCE_SECONDS):
                whole_ones = asyncio.create_task(
                    timed(fetch_wholly(url, ticket, packed.digest, whole, members, folder), began)
                )
                sent = await fetch_lightly(url, ticket, light)
                last_light = time.monotonic() - began
                last_whole = await whole_ones
            return Figures(
                members=members,
                archive_bytes=packed.size_bytes,
                compressed_bytes=compressed,
                last_light_seconds=last_light,
                last_whole_seconds=last_whole,
                sent_bytes=sent,
                web_api_cpu_seconds=cpu_seconds(process) - before[0],
                web_api_mib=process.memory_info().rss / 2**20,
                store_bytes=process.io_counters().read_chars - before[2],
                apiserver_bytes=counter.passed_bytes - before[3],
                apiserver_cpu_seconds=cpu_seconds(server) - before[1],
            )


async def timed(work: Coroutine[Any, Any, None], began: float) -> float:
    """Wait for the work; return the seconds since `began`."""
    await work
    return time.monotonic() - began


def run(members: int, size_bytes: int) -> Figures:
    """Measure one round on a new cluster."""
    with tempfile.TemporaryDirectory(prefix="kajitori-code-") as name:
        folder = Path(name)
        packed = project(folder / "project", size_bytes)
        with api_server(folder / "api") as server:
            return uvloop.run(measure(folder, packed, members, server))


# ---------------------------------------------------------------------------------------------- all of it


def show(rounds: list[Figures]) -> int:
    """Print the tables; return the exit code."""
    rows: list[tuple[str, Callable[[Figures], str]]] = [
        ("archive, MB; compressed", lambda it: f"{it.archive_bytes / MB:.0f}; {it.compressed_bytes / MB:.1f}"),
        ("from the start until the last light member had it, s", lambda it: f"{it.last_light_seconds:.1f}"),
        ("until the last of four whole members had unpacked it, s", lambda it: f"{it.last_whole_seconds:.1f}"),
        ("sent by the Web API, GB", lambda it: f"{it.sent_bytes / 1e9:.2f}"),
        ("processor time of the Web API, s", lambda it: f"{it.web_api_cpu_seconds:.1f}"),
        ("memory of the Web API, MiB", lambda it: f"{it.web_api_mib:.0f}"),
        ("read from the store, MB", lambda it: f"{it.store_bytes / MB:.1f}"),
        ("between Web API and API server, kB", lambda it: f"{it.apiserver_bytes / 1e3:.1f}"),
        ("processor time of the API server, s", lambda it: f"{it.apiserver_cpu_seconds:.2f}"),
    ]
    columns = ("", *(f"{each.members:,} members" for each in rounds))
    table = [(what, *(shown(each) for each in rounds)) for what, shown in rows]
    print_table("all members of a gang get their code", columns, table)
    small, large = rounds
    per_gb = large.web_api_cpu_seconds / (large.sent_bytes / 1e9)
    # Both rounds may see a bookmark or a renewed watch; each further member costs nothing.
    grown = (large.apiserver_bytes - small.apiserver_bytes) / (large.members - small.members)
    return print_limits(
        [
            Limit("bytes of the API server, for each member more", grown, most=32, unit=" B"),
            Limit("read from the store, beside one archive", large.store_bytes / large.compressed_bytes, most=1.5),
            Limit("processor time of the Web API, for each GB", per_gb, most=3, unit=" s"),
            Limit("memory of the Web API", large.web_api_mib, most=1024, unit=" MiB"),
        ]
    )


def main() -> int:
    parser = option_parser(__doc__)
    parser.add_argument("--small", action="store_true", help="10 MB to 100 members instead of 100 MB to 1,000")
    parser.add_argument("--api-server", type=Path, help=argparse.SUPPRESS)  # this program as the API server's process
    options = parser.parse_args()
    if options.api_server is not None:
        uvloop.run(serve_api(options.api_server))
        return 0
    members, size_bytes = (100, 10_000_000) if options.small else (1000, 100_000_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * members + 1000), hard), hard))
    return show([run(members // 10, size_bytes), run(members, size_bytes)])


if __name__ == "__main__":
    sys.exit(main())
