"""The commands that users type: `kubectl`, and `kaji` as a process that starts in milliseconds.

Each `kaji` is a fork of a server process that has imported what commands need. It is a process of its own, with its own
arguments, environment, folder, streams and exit code. The tutorial, the demo and the tests in tests/unit/cli show that
the installed `kaji` starts.
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
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

from tests.harness.binaries import kubectl_binary
from tests.harness.waiting import PATIENCE_SECONDS, wait_until

from kajitori.core import leadership
from kajitori.core.leadership import LeaseTimings

Completed = subprocess.CompletedProcess[str]

_PRELOADED = (
    *(
        "kajitori.cli.app",
        "kajitori.client.web_api",
        "kajitori.cli.printing.output",
        "kajitori.client.target",
        "kajitori.client.submit.request",
    ),
    *(f"kajitori.cli.verbs.runs.{verb}" for verb in ("run", "rm", "stop", "wait")),
    *(f"kajitori.cli.verbs.inspection.{verb}" for verb in ("ps", "logs", "describe", "explain")),
    *("platformdirs", "yaml"),
)
_SERVERS = ("up", "server", "controller", "node", "sim")
"""Verbs that import for a second or two. The server process imports what they need when one of them is first used."""
_REQUEST_BYTES = 1 << 20
"""Size limit of a command line with its environment."""

SHORT_LEASE = {"KAJITORI_TESTS_SHORT_LEASE": "1"}
"""Environment of a `kaji` in which another controller takes over from a dead leader within 5 s instead of 15."""
SHORT_TERMS = LeaseTimings(lease_seconds=5.0, lead_seconds=3.75, interval_seconds=0.5, look_seconds=0.2)
SHORT_ABSENT_SECONDS = 7.0
"""With SHORT_LEASE, the Web API says after this time that no controller works."""


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a user with the home folder `home` and without any configuration of `kaji`.

    No container engine of this machine is used.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAJI_", "XDG_", "KUBE"))}
    return {**kept, "KAJI_ENGINE": "process", "HOME": str(home), **more}


def kubectl(
    kubeconfig: Path,
    *arguments: str,
    stdin: str | bytes = "",
    env: Mapping[str, str] | None = None,
    seconds: float = PATIENCE_SECONDS,
) -> Completed:
    """Run `kubectl ARGUMENTS` to its end, with a home beside its kubeconfig.

    `env` comes on top of this process's environment. Raises subprocess.TimeoutExpired.
    """
    done = subprocess.run(
        [kubectl_binary(), f"--kubeconfig={kubeconfig}", *arguments],
        input=stdin if isinstance(stdin, bytes) else stdin.encode(),
        capture_output=True,
        timeout=seconds,
        env={**os.environ, "HOME": str(kubeconfig.parent), **(env or {})},
        check=False,
    )
    out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    return Completed(done.args, done.returncode, out, err)


def output_of(done: Completed, code: int = 0) -> str:
    """Return what a command printed; both streams if it was expected to fail. Asserts that it ended with `code`."""
    assert done.returncode == code, (done.args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr if code else done.stdout


def kaji(
    *arguments: str,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: str = "",
    timeout: float = PATIENCE_SECONDS,
) -> Completed:
    """Run `kaji ARGUMENTS` to its end. Raises subprocess.TimeoutExpired after killing the command."""
    with (
        tempfile.TemporaryFile("w+") as input_file,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        input_file.write(stdin)
        input_file.seek(0)
        with Kaji(arguments, env, cwd, (input_file, out, err)) as command:
            code = command.wait(timeout)
        out.seek(0)
        err.seek(0)
        return Completed(arguments, code, out.read(), err.read())


def start_kaji(*arguments: str, env: Mapping[str, str], log: IO[bytes], cwd: Path | None = None) -> Kaji:
    """Start `kaji ARGUMENTS` with its output in `log`. It ends with this process at the latest."""
    with Path(os.devnull).open("rb") as no_input:
        return Kaji(arguments, env, cwd, (no_input, log, log))


def quick_kaji(folder: Path, *, first_from_nothing: bool = False) -> Path:
    """Create a folder for $PATH with such a `kaji` in it, for shell scripts.

    With `first_from_nothing`, the first use of each verb starts the installed `kaji`.
    """
    folder.mkdir()
    script = folder / "kaji"
    settings = {"ADDRESS": _server().address, "REQUEST_BYTES": _REQUEST_BYTES}
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
request = {"arguments": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.connect(ADDRESS)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
    socket.send_fds(line, [json.dumps(request).encode()], [0, 1, 2])
    line.recv(16)
    code = int(line.recv(16))
sys.exit(code if code >= 0 else 128 - code)
"""


class Kaji:
    """A running `kaji ARGUMENTS`, with the interface of subprocess.Popen."""

    def __init__(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None, streams: Sequence[IO[Any]]
    ) -> None:
        self.arguments = arguments
        self.returncode: int | None = None
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.connect(_server().address)
        self._line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
        request = json.dumps({"arguments": arguments, "env": dict(env), "cwd": str(cwd or Path.cwd())}).encode()
        socket.send_fds(self._line, [request], [stream.fileno() for stream in streams])
        self.pid = int(self._line.recv(16))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection; the process at its other end then kills the command."""
        self._line.close()

    def poll(self) -> int | None:
        """Return the exit code, or the negative number of the signal; None while the command runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float = 60.0) -> int:
        """Return the exit code. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._line.settimeout(timeout)
            try:
                self.returncode = int(self._line.recv(16))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.arguments, timeout) from None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True)
class _Server:
    address: str
    """Its Unix socket, an abstract name of Linux."""
    process: subprocess.Popen[bytes]


@functools.cache
def _server() -> _Server:
    """Return the server process, started at the first call. It ends with this process."""
    address = f"\0kajitori-tests-{os.getpid()}-{os.urandom(4).hex()}"
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve({address!r}, {os.getpid()})"],
        stdin=subprocess.DEVNULL,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root), *sys.path[1:]))},
    )

    def listens() -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            return probe.connect_ex(address) == 0

    wait_until(listens, "the server of `kaji` processes listens", every=0.02)
    return _Server(address, process)


def serve(address: str, owner: int) -> None:
    """Fork a command for each connection, until the process `owner` ends."""
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
            message, streams, _, _ = socket.recv_fds(line, _REQUEST_BYTES, 3)
            if message:
                request = json.loads(message)
                _prepare(request["arguments"])
                if os.fork() == 0:
                    listening.close()
                    _answer(line, request, streams)
                    os._exit(0)
            for stream in streams:
                os.close(stream)
            line.close()


def _prepare(arguments: list[str]) -> None:
    """Import what the command needs, once for all later commands."""
    if arguments and arguments[0] in _SERVERS:
        import_module(f"kajitori.entrypoints.{arguments[0]}")
        gc.freeze()


def _answer(line: socket.socket, request: dict[str, Any], streams: list[int]) -> None:
    """Start the command, and send its process ID and its exit code. Kill it if the connection is closed. Runs in a
    process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command == 0:
        line.close()
        _become(request["arguments"], request["env"], request["cwd"], streams)
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
    """Run `kaji ARGUMENTS` as if it had just been started."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["kaji", *arguments]
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace")
    if SHORT_LEASE.items() <= env.items():
        LeaseTimings.__init__.__defaults__ = astuple(SHORT_TERMS)
        leadership.ABSENT_SECONDS = SHORT_ABSENT_SECONDS
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
