"""kubectl attach, exec, cp and port-forward to Pods of the process kubelet, over WebSocket and over SPDY."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.harness.fixtures import REAL
from tests.harness.kubelet_node import ANY_SERVER, SPDY_SERVER, Node
from tests.harness.waiting import PATIENCE_SECONDS, until

from kajitori.kube.errors import ConnectionFailed, NotFoundError, PortUnreachable
from kajitori.kube.streams import PortStream

WEBSOCKET = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true"}
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}

ECHO = """
import socket, threading
def serve(connection):
    with connection:
        said = connection.recv(65536)
        if said == b"bye":
            return
        whole = b""
        while said:
            whole += said
            said = connection.recv(65536)
        connection.sendall(whole[::-1])
server = socket.create_server(("127.0.0.1", 0), backlog=200)
open(%r, "w").write(str(server.getsockname()[1]))
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
"""A server that returns in reverse what it has read when the client closes its direction. At `bye` it disconnects."""


HERE = [("embedded", "websocket"), ("embedded", "spdy")]
BOTH = [pytest.param("websocket", "websocket", marks=REAL), pytest.param("spdy", "websocket", marks=SPDY_SERVER)]
EMBEDDED = pytest.mark.parametrize(("kubelet_server", "env"), HERE, indirect=True)
EVERYWHERE = pytest.mark.parametrize(("kubelet_server", "env"), [*HERE, *BOTH], indirect=True)
"""A real API server uses one protocol with the kubelet, whichever protocol kubectl uses with the server."""


@pytest.fixture
def env(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """Environment variables that choose kubectl's protocol."""
    return {"websocket": WEBSOCKET, "spdy": SPDY}[request.param]


class Terminal:
    """kubectl with a terminal of its own."""

    def __init__(self, process: asyncio.subprocess.Process, fd: int) -> None:
        self.process = process
        self.said = b""
        self._fd = fd
        self._changed = asyncio.Event()
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self._read)

    def _read(self) -> None:
        try:
            self.said += os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            asyncio.get_running_loop().remove_reader(self._fd)
        self._changed.set()

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def sees(self, pattern: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not re.search(pattern.encode(), self.said):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pytest.fail(f"{pattern!r} was not seen: {self.said!r}")

    async def ends(self) -> int:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()


def _lead_session() -> None:
    """Make standard input the terminal of a new session, so that kubectl notices changes of its size."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@asynccontextmanager
async def terminal(node: Node, env: Mapping[str, str], *args: str) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *node.command(*args),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **env},
        preexec_fn=_lead_session,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(ours)


@EMBEDDED
async def test_exec_with_a_terminal(node: Node, env: Mapping[str, str]) -> None:
    """Prompt, key strokes, changes of the window size and the exit code are transferred."""
    await node.run("p", "sleep", "1000")
    await node.wait("p", "condition=Ready")
    async with terminal(node, env, "exec", "-it", "p", "--", "sh") as shell:
        shell.type("stty size; echo a''b\n")
        await shell.sees(r"24 80\s+ab")
        shell.resize(50, 132)
        shell.type("until stty size | grep '50 132'; do sleep 0.1; done\n")
        await shell.sees(r"50 132\r")
        shell.type("exit 7\n")
        assert await shell.ends() == 7


@EVERYWHERE
async def test_exec_and_its_streams(node: Node, env: Mapping[str, str]) -> None:
    """Both outputs are separate, the input ends, the exit code is returned, and megabytes pass in both directions."""
    await node.run("p", "sleep", "1000")
    await node.wait("p", "condition=Ready")
    process = await node.start(
        "exec", "-i", "p", "--", "sh", "-c", "cat; echo err >&2; exit 7", has_input=True, env=env
    )
    assert await asyncio.wait_for(process.communicate(b"data"), PATIENCE_SECONDS) == (
        b"data",
        b"err\ncommand terminated with exit code 7\n",
    )
    assert process.returncode == 7
    data = os.urandom(3 << 20)
    process = await node.start("exec", "-i", "p", "--", "cat", has_input=True, env=env)
    out, err = await asyncio.wait_for(process.communicate(data), PATIENCE_SECONDS)
    assert (out == data, err) == (True, b"")
    assert "no-such" in await node.kubectl("exec", "p", "--", "no-such", code=127, env=env)


@EVERYWHERE
async def test_attach(node: Node, env: Mapping[str, str]) -> None:
    """Two clients use `kubectl attach -it` with the Pod's shell at the same time, until the shell ends."""
    await node.run("p", "sh", stdin=True, tty=True)
    await node.wait("p", "condition=Ready")
    async with terminal(node, env, "attach", "-it", "p") as first:
        first.type("echo a''b\n")
        await first.sees(r"ab\r")
        async with terminal(node, env, "attach", "-it", "p") as second:
            await second.sees("press")
            second.type("until stty size | grep '24 80'; do sleep 0.1; done\n")
            await second.sees(r"24 80\r")
            await first.sees(r"24 80\r")
    async with terminal(node, env, "attach", "-it", "p") as last:
        last.type("echo e''f; exit 3\n")
        await last.sees(r"ef\r")
        await last.ends()
    await node.wait("p", "jsonpath={.status.phase}=Failed")


@EMBEDDED
async def test_attach_with_stdin_once_ends_the_programs_input(node: Node, env: Mapping[str, str]) -> None:
    """The program continues after the end of its input, and all of its output arrives."""
    await node.run("p", "sh", "-c", "cat; echo out; echo err >&2", stdin=True, stdinOnce=True)
    await node.wait("p", "condition=Ready")
    process = await node.start("attach", "-i", "p", has_input=True, env=env)
    out, err = await asyncio.wait_for(process.communicate(b"typed\n"), PATIENCE_SECONDS)
    assert (process.returncode, out) == (0, b"typed\nout\n")
    assert b"err\n" in err
    await node.wait("p", "jsonpath={.status.phase}=Succeeded")
    assert "completed pod" in await node.kubectl("attach", "p", code=1, env=env)


@EMBEDDED
async def test_cp(node: Node, env: Mapping[str, str], tmp_path: Path) -> None:
    """A folder is copied in both directions."""
    await node.run("p", "sleep", "1000")
    await node.wait("p", "condition=Ready")
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here/data").write_bytes(data := os.urandom(1 << 20))
    await node.kubectl("cp", str(tmp_path / "here"), f"default/p:{tmp_path}/there", env=env)
    assert (tmp_path / "there/here/data").read_bytes() == data
    await node.kubectl("cp", f"default/p:{tmp_path}/there/here", str(tmp_path / "back"), env=env)
    assert (tmp_path / "back/data").read_bytes() == data


@asynccontextmanager
async def forwarding(node: Node, env: Mapping[str, str], ports: str) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    """Run kubectl port-forward; yield the local port and kubectl's standard error."""
    process = await node.start("port-forward", "pod/p", f":{ports}", env=env)
    assert process.stdout is not None and process.stderr is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_SECONDS)
        found = re.search(rb"127.0.0.1:(\d+) ->", line)
        assert found, (line, await process.stderr.read())
        yield int(found[1]), process.stderr
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def echoed(port: int, words: bytes) -> bytes:
    """Send these bytes, close this direction, and return the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    writer.close()
    return answer


@EVERYWHERE
async def test_port_forward(node: Node, env: Mapping[str, str], tmp_path: Path) -> None:
    """It serves 100 parallel connections, megabytes, and half-closed connections. Afterwards no task and no open file
    is left."""
    there = tmp_path / "port"
    await node.run("p", sys.executable, "-c", ECHO % str(there))
    await node.wait("p", "condition=Ready")
    await until(lambda: there.exists() and there.read_text())
    before = open_resources()
    async with forwarding(node, env, there.read_text()) as (port, _):
        words = [os.urandom(200) * 100 for _ in range(100)]
        assert await asyncio.gather(*(echoed(port, one) for one in words)) == [one[::-1] for one in words]
        large = os.urandom(5 << 20)
        assert await echoed(port, large) == large[::-1]
        assert await echoed(port, b"bye") == b""
        assert await echoed(port, b"still there") == b"ereht llits"
    await until(lambda: all(now <= then for now, then in zip(open_resources(), before, strict=True)))


def open_resources() -> tuple[int, int]:
    """Return the number of tasks and of open files of this process, which runs the kubelet and the embedded API
    server."""
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))


@ANY_SERVER
async def test_the_client_opens_streams_to_ports(node: Node, tmp_path: Path) -> None:
    """A stream carries megabytes while the other direction is open or ended, and says that nothing listens."""
    there = tmp_path / "port"
    await node.run("p", sys.executable, "-c", ECHO % str(there))
    await node.wait("p", "condition=Ready")
    await until(lambda: there.exists() and there.read_text())
    large = os.urandom(3 << 20)
    before = open_resources()
    async with await node.client.open_port("default", "p", int(there.read_text())) as stream:
        for start in range(0, len(large), 256 << 10):
            await stream.write(large[start : start + (256 << 10)])
        await stream.end_writing()
        assert await whole(stream) == large[::-1]
        assert await stream.read() == b""
    async with await node.client.open_port("default", "p", 1) as stream:
        with pytest.raises(PortUnreachable, match="nothing listens on port 1 of Pod p"):
            await stream.read()
        with pytest.raises((PortUnreachable, ConnectionFailed)):
            await stream.write(b"hello")
    await until(lambda: all(now <= then for now, then in zip(open_resources(), before, strict=True)))
    with pytest.raises(NotFoundError):
        await node.client.open_port("default", "other", 1)


async def whole(stream: PortStream) -> bytes:
    """Read a stream to its end."""
    pieces = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while piece := await stream.read():
            pieces.append(piece)
    return b"".join(pieces)


@EMBEDDED
async def test_port_forward_to_a_port_that_is_not_open(node: Node, env: Mapping[str, str]) -> None:
    """kubectl prints the reason and the Pod's port."""
    await node.run("p", "sleep", "1000")
    await node.wait("p", "condition=Ready")
    async with forwarding(node, env, "1") as (port, errors):
        assert await echoed(port, b"hello") == b""
        line = await asyncio.wait_for(errors.readline(), PATIENCE_SECONDS)
        while b"forwarding" not in line:
            line = await asyncio.wait_for(errors.readline(), PATIENCE_SECONDS)
        assert b"nothing listens on port 1 of localhost in the Pod: connection refused" in line
