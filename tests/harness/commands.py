"""`kaji` commands as processes that start in milliseconds: forks of one that has imported what commands need.

Each is a process of its own, with its own arguments, environment, folder, streams and exit code. That a command, or a
server, starts from nothing is what the tutorial, the demo and the tests in tests/unit/cli see to.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

_PRELOADED = (
    *(
        "kajitori.cli.app",
        "kajitori.cli.connection.http",
        "kajitori.cli.output",
        "kajitori.cli.connection.target",
        "kajitori.cli.submit.request",
    ),
    *(f"kajitori.cli.verbs.runs.{verb}" for verb in ("run", "ps", "logs", "describe", "explain", "rm", "stop", "wait")),
    *("platformdirs", "yaml"),
)
_SERVERS = ("up", "server", "controller", "node", "sim")
"""Verbs that import for a second or two: done when one of them is first asked for."""
_PASSED_ON = 1 << 20
"""Bytes: more than any command line, with its environment, in these tests."""


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user of this machine whose home is `home` and who configured nothing for `kaji`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAJI_", "XDG_", "KUBE"))}
    return {**kept, "HOME": str(home), **more}


def kaji(
    *arguments: str, env: Mapping[str, str], cwd: Path | None = None, stdin: str = "", timeout: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Runs `kaji ARGUMENTS` to its end. Raises subprocess.TimeoutExpired, and then the command is gone."""
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(stdin)
        given.seek(0)
        with Kaji(arguments, env, cwd, (given, out, err)) as command:
            code = command.wait(timeout)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


def server(*arguments: str, env: Mapping[str, str], log: IO[bytes], cwd: Path | None = None) -> Kaji:
    """Starts `kaji ARGUMENTS`, which says everything into the log. It ends with this process at the latest."""
    with Path(os.devnull).open("rb") as nothing:
        return Kaji(arguments, env, cwd, (nothing, log, log))


def quick_kaji(folder: Path, *, first_from_nothing: bool = False) -> Path:
    """A folder for $PATH with such a `kaji` in it, for shell scripts; first_from_nothing: the first time that a verb is
    asked for, it is the one that is installed."""
    folder.mkdir()
    script = folder / "kaji"
    settings = {"ADDRESS": _server().address, "PASSED_ON": _PASSED_ON}
    settings["INSTALLED"] = str(Path(sys.executable).parent / "kaji") if first_from_nothing else ""
    assigned = "".join(f"{name} = {value!r}\n" for name, value in settings.items())
    script.write_text(f"#!{sys.executable} -IS\n{assigned}{_QUICK}")
    script.chmod(0o755)
    return folder


_QUICK = """
import os, sys
if INSTALLED:
    try:
        os.mkdir(f"{os.path.dirname(__file__)}/seen-{''.join(sys.argv[1:2])}")
    except FileExistsError:
        pass
    else:
        os.execv(INSTALLED, [INSTALLED, *sys.argv[1:]])
import json, socket
told = {"arguments": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.connect(ADDRESS)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PASSED_ON)
    socket.send_fds(line, [json.dumps(told).encode()], [0, 1, 2])
    line.recv(16)
    code = int(line.recv(16))
sys.exit(code if code >= 0 else 128 - code)
"""


class Kaji:
    """One `kaji ARGUMENTS`, as subprocess.Popen would show it."""

    def __init__(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None, streams: Sequence[IO[Any]]
    ) -> None:
        self.arguments = arguments
        self.returncode: int | None = None
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.connect(_server().address)
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PASSED_ON)
        told = json.dumps({"arguments": arguments, "env": dict(env), "cwd": str(cwd or Path.cwd())}).encode()
        socket.send_fds(self._line, [told], [stream.fileno() for stream in streams])
        self.pid = int(self._line.recv(16))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Whoever waits for the command ends it when we go."""
        self._line.close()

    def poll(self) -> int | None:
        """The exit code, or the signal below zero; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float = 60.0) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                self.returncode = int(self._line.recv(16))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.arguments, timeout) from None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


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
            message, streams, _, _ = socket.recv_fds(line, _PASSED_ON, 3)
            if message:
                told = json.loads(message)
                _prepare(told["arguments"])
                if os.fork() == 0:
                    listening.close()
                    _answer(line, told, streams)
                    os._exit(0)
            for stream in streams:
                os.close(stream)
            line.close()


def _prepare(arguments: list[str]) -> None:
    """Imports what the command will need, once for all that come after it."""
    if arguments and arguments[0] in _SERVERS:
        import_module(f"kajitori.entrypoints.{arguments[0]}")
        gc.freeze()


def _answer(line: socket.socket, told: dict[str, Any], streams: list[int]) -> None:
    """In a process of its own: starts the command, tells who it is and its exit code, and ends it where nobody listens
    any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command == 0:
        line.close()
        _become(told["arguments"], told["env"], told["cwd"], streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(command)
    line.send(str(command).encode())
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
