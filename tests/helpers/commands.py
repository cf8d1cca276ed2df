"""`kaji` commands as processes that start in milliseconds: forks of one that has imported what commands need.

Each is a process of its own, with its own arguments, environment, folder, streams and exit code. That a command starts
from nothing is what the tutorial, the demo and the tests in tests/unit/cli see to.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

_PRELOADED = (
    *("kajitori.cli.app", "kajitori.cli.http", "kajitori.cli.output", "kajitori.cli.target", "kajitori.cli.request"),
    *(f"kajitori.cli.verbs.{verb}" for verb in ("run", "ps", "logs", "describe", "explain", "rm", "stop", "wait")),
    *("httpcore2", "platformdirs", "rich.console", "rich.table", "yaml"),
)
_PASSED_ON = 1 << 20
"""Bytes: more than any command line, with its environment, in these tests."""


def kaji(
    *arguments: str, env: Mapping[str, str], cwd: Path | None = None, stdin: str = "", timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Runs `kaji ARGUMENTS` to its end. Raises subprocess.TimeoutExpired, and then the command is gone."""
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line,
    ):
        given.write(stdin)
        given.seek(0)
        line.settimeout(timeout)
        line.connect(_server().address)
        told = json.dumps({"arguments": arguments, "env": dict(env), "cwd": str(cwd or Path.cwd())}).encode()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PASSED_ON)
        socket.send_fds(line, [told], [given.fileno(), out.fileno(), err.fileno()])
        try:
            code = int(line.recv(16))
        except TimeoutError:  # whoever waits for the command ends it when we go
            raise subprocess.TimeoutExpired(arguments, timeout) from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


@dataclass(frozen=True)
class _Server:
    address: str
    """Where forks are to be had: in Linux's abstract names."""
    process: subprocess.Popen[bytes]


@functools.cache
def _server() -> _Server:
    """Started when it is first needed; it ends with this process."""
    address = f"\0kajitori-tests-{os.getpid()}-{os.urandom(4).hex()}"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve({address!r}, {os.getpid()})"],
        stdin=subprocess.DEVNULL,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root), *sys.path[1:]))},
    )
    deadline = time.monotonic() + 60.0
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            if probe.connect_ex(address) == 0:
                return _Server(address, process)
        assert time.monotonic() < deadline, "the server of forks did not start"
        time.sleep(0.02)


def serve(address: str, owner: int) -> None:
    """Forks a command for whoever asks, as long as the process that began it lives."""
    for module in _PRELOADED:
        import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address)
        listening.listen()
        listening.settimeout(1.0)
        while os.getppid() == owner:
            try:
                line, _ = listening.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                listening.close()
                _answer(line)
                os._exit(0)
            line.close()


def _answer(line: socket.socket) -> None:
    """In a process of its own: starts the command, tells its exit code, and ends it where nobody listens any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, streams, _, _ = socket.recv_fds(line, _PASSED_ON, 3)
    if not message:
        return
    told = json.loads(message)
    command = os.fork()
    if command == 0:
        line.close()
        _become(told["arguments"], told["env"], told["cwd"], streams)
    ended = os.pidfd_open(command)
    ready, _, _ = select.select([ended, line.fileno()], [], [])
    if ended not in ready:
        os.kill(command, signal.SIGKILL)
    _, status = os.waitpid(command, 0)
    with contextlib.suppress(OSError):
        line.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(arguments: list[str], env: dict[str, str], cwd: str, streams: list[int]) -> None:
    """`kaji ARGUMENTS`, as if it had just been started."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["kaji", *arguments]
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace")
    from kajitori.cli import main

    code: object = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
