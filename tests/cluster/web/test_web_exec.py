"""A program in a member, through the Web API and `kaji exec`: a real process, on each kind of API server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx2
import msgspec
import pytest
import pytest_asyncio
from tests.harness.commands import clean_environment
from tests.harness.local_cluster import NODE, LocalCluster
from tests.harness.servers.real_server import free_port
from tests.harness.waiting import PATIENCE_SECONDS
from tests.helpers.network.relay import Relay

from kajitori.api.serving.server import ApiServer
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.configuration.policy_file import PolicyFile
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.streams import EXEC_PROTOCOL, Channel, exit_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

AS_ROOT = os.geteuid() == 0
SPEC: dict[str, Any] = {
    "image": "busybox",
    "command": ["sleep", "1000"],
    "resources": {"cpu": "100m", "memory": "64Mi"},
    "nodeSelector": {"kubernetes.io/hostname": NODE},
    "grace": "1s",
    "restarts": 3,
    **({"user": "65534"} if AS_ROOT else {}),
}

PROGRAM = """
import base64, hashlib, http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", "websocket")
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_header("Sec-WebSocket-Accept", accept)
            self.end_headers()
            length = self.rfile.read(2)[1] & 127
            mask, text = self.rfile.read(4), self.rfile.read(length)
            self.wfile.write(bytes([129, length]) + bytes(b ^ mask[i % 4] for i, b in enumerate(text)))
            self.close_connection = True
        else:
            self.answer(f"{self.path} {self.headers.get('Authorization')}")
    def do_POST(self):
        self.answer(str(len(self.rfile.read(int(self.headers["Content-Length"])))))
    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""A program with pages and a WebSocket that echoes one short message."""


class Web:
    """A Web API on the local cluster."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token
        self.headers = {"Authorization": f"Bearer {token}"}

    async def call(self, method: str, path: str, **more: Any) -> httpx2.Response:
        async with httpx2.AsyncClient(base_url=self.url, headers=self.headers, timeout=PATIENCE_SECONDS) as http:
            return await http.request(method, path, **more)

    async def reaches(self, name: str, *phases: str) -> dict[str, Any]:
        """Wait until the run is in one of these phases and return it."""
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            httpx2.AsyncClient(base_url=self.url, headers=self.headers, timeout=PATIENCE_SECONDS) as http,
            http.stream("GET", f"/v1/runs/default/{name}/watch") as response,
        ):
            async for line in response.aiter_lines():
                view: dict[str, Any] = msgspec.json.decode(line) if line else {"status": {"phase": ""}}
                if view["status"]["phase"] in phases:
                    return view
        raise AssertionError(f"{name} ended before it was {phases}")

    @contextlib.asynccontextmanager
    async def exec(self, *command: str, **parameters: str) -> AsyncIterator[Program]:
        """Start a program in member 0 of the sleeping run."""
        query = [("command", part) for part in command] + list(parameters.items())
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            aiohttp.ClientSession(headers=self.headers) as session,
            session.ws_connect(
                f"{self.url}/v1/runs/default/sleeper/exec", params=query, protocols=(EXEC_PROTOCOL,)
            ) as socket,
        ):
            yield Program(socket)

    async def kaji(self, *arguments: str, stdin: bytes = b"", home: Path | None = None) -> tuple[int, str, str]:
        """Run `kaji` as a process and return its exit code and both outputs."""
        return await self.program(sys.executable, "-m", "kajitori.cli", *arguments, stdin=stdin, home=home)

    async def program(self, *command: str, stdin: bytes = b"", home: Path | None = None) -> tuple[int, str, str]:
        """Run a program that uses the server and return its exit code and both outputs."""
        target = {"KAJI_SERVER": self.url, "KAJI_TOKEN": self.token, "KAJI_NAMESPACE": "default"}
        env = clean_environment(home or Path.home(), **target)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
        try:
            out, err = await asyncio.wait_for(process.communicate(stdin), PATIENCE_SECONDS)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        return process.returncode or 0, out.decode(), err.decode()


class Program:
    """The client's side of an exec."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.out = {Channel.STDOUT: b"", Channel.STDERR: b""}

    async def send(self, channel: Channel, payload: bytes) -> None:
        await self.socket.send_bytes(bytes((channel,)) + payload)

    async def ended(self) -> int | None:
        """Read all output and return the exit code."""
        async for message in self.socket:
            channel, payload = Channel(message.data[0]), message.data[1:]
            if channel is Channel.ERROR:
                return exit_of(payload)[0]
            self.out[channel] += payload
        raise AssertionError(f"hung up on before the end, after {self.out}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web(local_cluster: LocalCluster) -> AsyncIterator[Web]:
    """A Web API with a running run `sleeper`."""
    config = KubeConfig.from_file(local_cluster.kubeconfig)
    async with KubeClient(config) as client, Mirror(client) as mirror:
        await mirror.wait_synced()
        app = web_app(ApiDependencies(client=client, mirror=mirror, policy=PolicyFile(None), namespace="default"))
        async with ApiServer(app) as server:
            web = Web(server.url, config.credentials.token)
            made = await web.call("POST", "/v1/runs", json={"name": "sleeper", "spec": SPEC})
            assert made.status_code == 201, made.text
            await web.reaches("sleeper", "Running")
            yield web


@pytest.mark.conformance
async def test_output_and_exit_code(web: Web) -> None:
    """Two separate outputs, and the program's own exit code."""
    async with web.exec("sh", "-c", "echo out; echo err >&2; exit 7") as program:
        assert await program.ended() == 7
        assert program.out == {Channel.STDOUT: b"out\n", Channel.STDERR: b"err\n"}
    async with web.exec("sh", "-c", "echo $KAJI_RUN $KAJI_RANK ${#1}; id -u", "sh", "x" * 20_000) as program:
        assert await program.ended() == 0
        uid = SPEC.get("user", str(os.geteuid()))
        assert program.out[Channel.STDOUT].decode().split() == ["sleeper", "0", "20000", uid]
    async with web.exec("no-such-program") as program:
        assert await program.ended() in (126, 127)  # 126 if a folder of $PATH is unreadable for this user


async def test_all_of_standard_input_arrives(web: Web) -> None:
    data = b"0123456789abcdef" * 10_000
    async with web.exec("wc", "-c", stdin="true") as program:
        for start in range(0, len(data), 50_000):
            await program.send(Channel.STDIN, data[start : start + 50_000])
        await program.send(Channel.CLOSE, bytes((Channel.STDIN,)))
        assert await program.ended() == 0
        assert program.out[Channel.STDOUT].split() == [b"%d" % len(data)]


@pytest.mark.conformance
async def test_a_terminal_and_its_size(web: Web) -> None:
    """The size follows the client's; an invalid size is ignored; Ctrl-C interrupts."""
    script = "trap 'exit 3' INT; while :; do stty size; sleep 0.1; done"
    async with web.exec("sh", "-c", script, stdin="true", tty="true") as program:
        for size, answer in (((132, 43), b"43 132"), ((90, 30), b"30 90")):
            await program.send(Channel.RESIZE, b'{"Width": %d, "Height": %d}' % size)
            await program.send(Channel.RESIZE, b'{"Width": "wide"}')
            while answer not in program.out[Channel.STDOUT]:
                message = await program.socket.receive_bytes()
                program.out[Channel(message[0])] += message[1:]
        await program.send(Channel.STDIN, b"\x03")
        assert await program.ended() == 3
        assert not program.out[Channel.STDERR], "a terminal has one stream"


async def test_kaji_exec_passes_input_output_and_exit_code(web: Web) -> None:
    assert (await web.kaji("exec", "-i", "sleeper", "cat", stdin=b"through and through"))[:2] == (
        0,
        "through and through",
    )
    assert (await web.kaji("exec", "sleeper", "sh", "-c", "exit 9"))[0] == 9


@pytest.mark.skipif(not shutil.which("ssh"), reason="no OpenSSH client: apt-get install openssh-client")
async def test_openssh_reaches_a_member_without_sshd(web: Web, tmp_path: Path) -> None:
    """A command, its streams and its exit code."""
    code, out, err = await web.kaji("ssh", "sleeper", "cat; id -u >&2; exit 3", stdin=b"through", home=tmp_path)
    assert (code, out, err.split()[-1]) == (3, "through", SPEC.get("user", str(os.geteuid())))


EDITOR = """
folder=$HOME/.kajitori-tests-$$
umask 077; mkdir -p "$folder"
echo "platform==$(uname -s)=="
cat > "$folder/server.py" <<'PROGRAM'
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print("listening on", server.getsockname()[1], flush=True)
while True:
    with server.accept()[0] as connection:
        connection.sendall(b"0123abc")
PROGRAM
/usr/bin/env python3 "$folder/server.py" > "$folder/log" 2>&1 < /dev/null &
echo $! > "$folder/pid"
until grep -q 'listening on' "$folder/log"; do sleep 0.05; done
echo "listeningOn==$(sed 's/listening on //' "$folder/log")=="
echo "folder==$folder=="
"""
"""What VS Code's Remote - SSH sends to `bash` on the other side, in short: it installs a server, starts it in the
background, and prints where it listens."""


@pytest.mark.skipif(not shutil.which("ssh"), reason="no OpenSSH client: apt-get install openssh-client")
async def test_an_editor_installs_its_server_and_finds_it_again(web: Web, tmp_path: Path) -> None:
    """As VS Code does: `ssh -T -D PORT HOST bash` with a script on stdin, connections through the SOCKS proxy, and
    another connection after the first one broke. As JetBrains Gateway does: files by SFTP, made executable, and
    started; all over one connection of OpenSSH, which outlives those to the Web API. A remote forward is refused, and
    the rest goes on."""
    server = urlsplit(web.url)
    with Relay(lambda: (str(server.hostname), int(server.port or 0))).running() as relay:
        await _edit(Web(relay.url, web.token), relay, tmp_path)


async def _edit(web: Web, relay: Relay, tmp_path: Path) -> None:
    assert (await web.kaji("ssh-config", home=tmp_path))[0] == 0
    ssh = ("ssh", "-F", str(tmp_path / ".ssh" / "kajitori" / "config"))
    proxy = free_port()
    target = {"KAJI_SERVER": web.url, "KAJI_TOKEN": web.token, "KAJI_NAMESPACE": "default"}
    pipe = asyncio.subprocess.PIPE
    window = await asyncio.create_subprocess_exec(
        *(*ssh, "-T", "-D", str(proxy), "sleeper.kaji", "bash"),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=clean_environment(tmp_path, **target),
    )
    try:
        assert window.stdin is not None and window.stdout is not None
        window.stdin.write(EDITOR.encode())
        found: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "folder" not in found:
                name, _, value = (await window.stdout.readline()).decode().strip().strip("=").partition("==")
                found[name] = value
            assert found["platform"] == "Linux"
            assert await _through_socks(proxy, int(found["listeningOn"])) == b"0123abc"
            relay.break_all()
            assert await window.wait() == 255
    finally:
        if window.returncode is None:
            window.kill()
            await window.wait()
    there = found["folder"]
    short = Path(tempfile.mkdtemp(prefix="kaji-", dir="/tmp"))  # paths of Unix sockets have at most 107 characters
    master = ("-o", "ControlMaster=auto", "-o", f"ControlPath={short}/master", "-o", "ControlPersist=60")
    (tmp_path / "worker").write_text("#!/bin/sh\necho works in $1\n")
    commands = f"mkdir {there}/new\nput {tmp_path}/worker {there}/new/worker\nchmod 755 {there}/new/worker\n"
    commands += f"get {there}/new/worker {tmp_path}/back\n"
    script = f"kill -0 $(cat {there}/pid) && {there}/new/worker here; kill $(cat {there}/pid); rm -r {there}"
    options = (*ssh[1:], *master)
    try:
        sent = await web.program(
            "sftp", "-q", *options, "-b", "-", "sleeper.kaji", stdin=commands.encode(), home=tmp_path
        )
        assert sent[0] == 0, sent
        assert (tmp_path / "back").read_text() == (tmp_path / "worker").read_text()
        relay.break_all()
        code, out, err = await web.program("ssh", *options, "sleeper.kaji", script, home=tmp_path)
        assert (code, out) == (0, "works in here\n"), err
        refused = await web.program(
            "ssh", *options, "-O", "forward", "-R", "1:localhost:1", "sleeper.kaji", home=tmp_path
        )
        assert "remote port forwarding failed" in refused[2]
    finally:
        await web.program("ssh", *options, "-O", "exit", "sleeper.kaji", home=tmp_path)
        shutil.rmtree(short)


async def _through_socks(proxy: int, port: int) -> bytes:
    """Return what a server at `localhost` of the member sends through a SOCKS 5 proxy of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy)
    writer.write(b"\x05\x01\x00")
    assert await reader.readexactly(2) == b"\x05\x00"
    writer.write(b"\x05\x01\x00\x03\x09localhost" + port.to_bytes(2, "big"))
    assert (await reader.readexactly(10))[1] == 0
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_an_impossible_exec_is_refused_before_the_handshake(web: Web) -> None:
    """An unknown run, rank or user, or no command: an HTTP error each, not a broken connection."""
    cases = {
        "/v1/runs/default/nobody/exec?command=true": 404,
        "/v1/runs/default/sleeper/exec?command=true&rank=5": 404,
        "/v1/runs/default/sleeper/exec": 422,
    }
    async with aiohttp.ClientSession(headers=web.headers) as session:
        for path, status in cases.items():
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(web.url + path, protocols=(EXEC_PROTOCOL,))
            assert refused.value.status == status, path
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer wrong"}) as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{web.url}/v1/runs/default/sleeper/exec?command=true", protocols=(EXEC_PROTOCOL,))
        assert refused.value.status == 401


@pytest.mark.conformance
async def test_a_programs_pages_and_websockets_are_reached_through_the_proxy(web: Web) -> None:
    """At its path, by a caller with a token; a port at which nothing listens is a 502 that says so."""
    port = free_port()
    spec = SPEC | {"command": ["/usr/bin/env", "python3", "-c", PROGRAM, str(port)], "ports": [port]}
    made = await web.call("POST", "/v1/runs", json={"name": "served", "spec": spec})
    assert made.status_code == 201, made.text
    view = await web.reaches("served", "Running")
    path = f"/proxy/default/served/{port}/"
    assert view["programs"] == [path]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (answer := await web.call("GET", f"{path}a?b=c")).status_code == 502:
            assert "nothing listens" in answer.text
            await asyncio.sleep(0.1)  # the program starts
    assert (answer.status_code, answer.text) == (200, "/a?b=c None")
    sent = await web.call("POST", path, content=b"x" * (2 << 20))
    assert sent.text == str(2 << 20)
    async with (
        aiohttp.ClientSession(headers=web.headers) as session,
        session.ws_connect(f"{web.url}{path}socket") as socket,
    ):
        await socket.send_str("through and through")
        assert await socket.receive_str() == "through and through"
    assert (await web.call("GET", "/proxy/default/served/1/")).status_code == 502
    assert (await web.call("GET", "/proxy/default/nobody/80/")).status_code == 404


@pytest.mark.root
async def test_a_program_that_would_run_as_root_ends_with_that_reason(web: Web) -> None:
    """The kubelet runs as root and the policy forbids root: one attempt, and a message that names the option."""
    if not AS_ROOT:
        pytest.skip("only a kubelet that runs as root can start a program as root: run as root")
    spec = {key: value for key, value in SPEC.items() if key != "user"} | {"command": ["id", "-u"]}
    made = await web.call("POST", "/v1/runs", json={"name": "rooted", "spec": spec | {"replicas": 2}})
    assert made.status_code == 201 and "MustNotBeRoot" in made.text
    ended = (await web.reaches("rooted", "Failed"))["status"]
    assert (ended["reason"], ended["attempts"]) == ("RunsAsRoot", 1)
    assert "--user 1000" in ended["message"]
    code, out, err = await web.kaji("run", "--name", "helped", "--user", "65534", *_here(), "busybox", "id", "-u")
    assert (code, out.strip()) == (0, "65534"), err
    code, _, err = await web.kaji("run", "--name", "again", *_here(), "busybox", "id", "-u")
    assert code == 2 and "--user 1000" in err


def _here() -> tuple[str, ...]:
    return ("--node-selector", f"kubernetes.io/hostname={NODE}", "--cpus", "0.1", "-m", "64m", "--restarts", "0")
