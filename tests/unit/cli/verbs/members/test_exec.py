"""`kaji exec` over a real WebSocket: streams, half-close, exit codes, a raw terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.cli.fake_web_api import TOKEN, view
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from kajitori.client.members.streams import COMMAND_PROTOCOL, Channel

DEADLINE_SECONDS = 60
SUCCESS = {"status": "Success"}

Handler = Callable[[ServerConnection], None]


def failure(code: int) -> dict[str, Any]:
    """Return the status with which Kubernetes reports a command's exit code."""
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "message": "failed", "details": {"causes": causes}}


def end(socket: ServerConnection, status: dict[str, Any]) -> None:
    socket.send(bytes([Channel.STATUS]) + json.dumps(status).encode())


@contextmanager
def member(handler: Handler, refusal: tuple[int, dict[str, Any]] | None = None) -> Iterator[tuple[str, list[Request]]]:
    """Serve a Web API with the run `bert`; `handler` answers exec. Yield its URL and the list of requests."""
    requests: list[Request] = []

    def answer(socket: ServerConnection, request: Request) -> Response | None:
        path = urlsplit(request.path).path
        if path == "/v1/runs":
            return socket.respond(HTTPStatus.OK, json.dumps({"items": [view("bert")]}))
        requests.append(request)
        if refusal is not None:
            return socket.respond(HTTPStatus(refusal[0]), json.dumps(refusal[1]))
        return None

    server: Server
    with serve(
        handler, "127.0.0.1", 0, process_request=answer, subprotocols=[COMMAND_PROTOCOL], compression=None
    ) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}", requests
    thread.join()


def kaji(url: str, *args: str, stdin: bytes | None = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", "from kajitori.cli import main; main()", *args],
        input=stdin,
        env={**os.environ, "KAJI_SERVER": url, "KAJI_TOKEN": TOKEN},
        capture_output=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def received(socket: ServerConnection) -> bytes:
    message = socket.recv(DEADLINE_SECONDS)
    assert isinstance(message, bytes)
    return message


def test_streams_are_separate_and_the_exit_code_is_the_commands() -> None:
    """No word after RUN is an option of kaji."""

    def handler(socket: ServerConnection) -> None:
        socket.send(bytes([Channel.STDOUT]) + b"out\x00\xff")
        socket.send(bytes([Channel.STDERR]) + b"err")
        end(socket, failure(42))

    with member(handler) as (url, requests):
        done = kaji(url, "exec", "--rank", "3", "be", "sh", "-c", "exit 42")
    assert (done.returncode, done.stdout, done.stderr) == (42, b"out\x00\xff", b"err")
    (request,) = requests
    assert urlsplit(request.path).path == "/v1/runs/vision/bert/exec"
    assert parse_qs(urlsplit(request.path).query) == {"rank": ["3"], "command": ["sh", "-c", "exit 42"]}
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.headers["Sec-WebSocket-Protocol"] == "v5.channel.k8s.io"


def test_a_leading_double_dash_is_no_program() -> None:
    """Users of kubectl write `kaji exec RUN -- COMMAND`."""
    with member(lambda socket: end(socket, SUCCESS)) as (url, requests):
        assert kaji(url, "exec", "bert", "--", "ls", "--", "x").returncode == 0
    assert parse_qs(urlsplit(requests[0].path).query)["command"] == ["ls", "--", "x"]


def test_stdin_ends_with_a_half_close() -> None:
    """With -i the command reads stdin to its end, and answers afterwards."""

    def handler(socket: ServerConnection) -> None:
        text = b""
        while (message := received(socket)) != bytes([Channel.CLOSE, Channel.STDIN]):
            assert message[0] == Channel.STDIN
            text += message[1:]
        socket.send(bytes([Channel.STDOUT]) + text.upper())
        end(socket, SUCCESS)

    with member(handler) as (url, requests):
        done = kaji(url, "exec", "-i", "bert", "cat", stdin=b"hello " * 20_000)
    assert (done.returncode, done.stdout) == (0, b"HELLO " * 20_000)
    assert parse_qs(urlsplit(requests[0].path).query)["stdin"] == ["true"]


def test_a_failure_of_the_platform_exits_with_125() -> None:
    with member(lambda socket: end(socket, {"status": "Failure", "message": "no such member"})) as (url, _):
        done = kaji(url, "exec", "bert", "ls")
    assert (done.returncode, done.stderr) == (125, b"kaji: no such member\n")


def test_a_broken_connection_exits_with_125() -> None:
    """A command with an unknown end has not succeeded."""
    with member(lambda socket: socket.send(bytes([Channel.STDOUT]) + b"half")) as (url, _):
        done = kaji(url, "exec", "bert", "ls")
    assert (done.returncode, done.stdout) == (125, b"half")
    assert b"kaji: the connection ended before the command did" in done.stderr


@pytest.mark.parametrize(("status", "code"), [(403, 2), (404, 2), (401, 125), (409, 125), (503, 125)])
def test_a_refused_exec_shows_the_servers_message(status: int, code: int) -> None:
    problem = {"title": "t", "detail": "you may not", "hint": "ask somebody"}
    with member(lambda _: None, (status, problem)) as (url, _):
        done = kaji(url, "exec", "bert", "ls")
    assert (done.returncode, done.stderr) == (code, b"kaji: you may not\n      ask somebody\n")


def test_a_terminal_option_without_a_terminal_is_wrong_usage() -> None:
    """docker does the same."""
    done = kaji("http://127.0.0.1:9", "exec", "-it", "bert", "bash")
    assert done.returncode == 2
    assert b"-t needs a terminal" in done.stderr


def test_a_terminal_is_raw_during_exec_and_restored_afterwards() -> None:
    """Keys, even Ctrl-C, reach the member unchanged, and so does the window's size."""
    sizes: list[dict[str, int]] = []

    def handler(socket: ServerConnection) -> None:
        message = received(socket)
        assert message[0] == Channel.RESIZE
        sizes.append(json.loads(message[1:]))
        socket.send(bytes([Channel.STDOUT]) + b"ready")
        assert received(socket) == bytes([Channel.STDIN]) + b"\x03"
        end(socket, failure(7))

    own, theirs = pty.openpty()
    termios.tcsetwinsize(own, (40, 120))
    before = termios.tcgetattr(theirs)
    with member(handler) as (url, requests):
        environment = {**os.environ, "KAJI_SERVER": url, "KAJI_TOKEN": TOKEN}
        environment = {key: value for key, value in environment.items() if key not in ("COLUMNS", "LINES")}
        process = subprocess.Popen(
            [sys.executable, "-c", "from kajitori.cli import main; main()", "exec", "-it", "bert", "bash"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
        )
        try:
            shown = b""
            while b"ready" not in shown:
                shown += os.read(own, 1024)
            os.write(own, b"\x03")
            assert process.wait(DEADLINE_SECONDS) == 7
        finally:
            process.kill()
            process.wait()
    assert termios.tcgetattr(theirs) == before
    os.close(own)
    os.close(theirs)
    assert sizes == [{"Width": 120, "Height": 40}]
    assert parse_qs(urlsplit(requests[0].path).query)["tty"] == ["true"]
