"""The shim's event loop, which runs one container from its start to its last process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import sys
import time

from . import process, syscalls, tree
from .attachment import PENDING_BYTES
from .connection import Connection
from .logfile import PARTIAL_AFTER_SECONDS, LogWriter
from .memory import LOOK_SECONDS, MemoryWatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STATE_FILE = "state.json"
LOCK_FILE = "lock"
COMMAND_END = "from shim.main import main; main()"
ENGINE_COMMAND_END = "from shim.engine import main; main()"
COMMAND_ENDS = (COMMAND_END, ENGINE_COMMAND_END)
"""Ends of the command lines of shims, by which they are found: of a process, and of a container of an engine. The
descriptor of the shim's lock and its container's folder follow."""
CONTROL_SOCKET = "control"
READ_BYTES = 64 * 1024
RUNNING, EXITED, FAILED = "running", "exited", "failed"

KILL_AGAIN_SECONDS = 0.02
READ_REST_SECONDS = 2.0
"""Time for an attached remote to read the end of an ended program's output."""


def write_atomically(path: str, document: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Write a document so that the file holds either the old content or the whole document, whenever the
    machine stops."""
    fresh = f"{path}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, json.dumps(document).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(fresh, path)


class Shim:
    """One container: its program, its log, and the orders that kubelets send.

    The program of this class is a process below the shim. A subclass that runs it in another way replaces
    `_start_program`, `_on_output`, `_is_alive`, `_reap`, `_kill_everything`, `_process_ids` and `signal_leader`.
    """

    def __init__(self, document: dict[str, Any], lock: int, report: int) -> None:
        self.directory: str = document["directory"]
        self.identity = process.Identity(document)
        self.argv: list[str] = document["argv"]
        self.tty: bool = document["tty"]
        counting = next((group for group in self.identity.cgroups if group.counts_memory), None)
        self.memory = MemoryWatch(document["memory_limit_bytes"], counting, self._process_ids)
        self.keeps_stdin = bool(document["stdin"])
        """Whether the program has an input that kubelets may write to."""
        self.stdin = -1
        """The writing end of the program's input, or its terminal; -1 without one, and once it was closed."""
        self.lock = lock
        self.report = report
        self.log = LogWriter(document["log_path"], document["log_max_bytes"], document["log_max_files"])
        self.poll = select.poll()
        self.streams: dict[int, str] = {}
        """Descriptors from which the program's output is read, with the name of the stream."""
        self.handlers: dict[int, Callable[[], None]] = {}
        """Further functions to call when a descriptor is ready."""
        self.connections: dict[int, Connection] = {}
        self.awaited: dict[int, Connection] = {}
        """Connections by the full pipe of their attached remote."""
        self.is_output_paused = False
        """True while an attached remote is far behind: the program's output stays unread in its pipes."""
        self.leader = 0
        """Process identifier of the program; 0 before its start and after its end."""
        self.exit_code: int | None = None
        self.killing = False
        """Whether all processes are being killed, which is repeated until none is left."""
        self.kill_at: float | None = None
        """Time of the monotonic clock at which the grace period is over; None if the program was not told to end."""
        self.state: dict[str, Any] = {
            "shim_pid": os.getpid(),
            "boot_id": boot_id(),
            "pid": 0,
            "started_at": 0.0,
            "finished_at": 0.0,
            "exit_code": None,
            "oom_killed": False,
            "within_limit": False,
            "peak_bytes": 0,
            "message": "",
        }

    # Start

    def run(self) -> None:
        """Start the program, and return once its last process has ended and its exit code is stored."""
        self._listen()
        self._wake_on_signals()
        try:
            self._start_program()
        except (OSError, process.StartFailure) as error:
            self.exit_code = error.exit_code if isinstance(error, process.StartFailure) else 128
            self._finish(FAILED, str(error))
            self._send_report(f"failed {error}")
            return
        self.state["pid"] = max(0, self.leader)
        self.state["started_at"] = time.time()
        self._write_state(RUNNING)
        self._send_report("running")
        while self._is_alive():
            self._run_once()
        self._drain()
        self._finish(EXITED, "")
        for connection in list(self.connections.values()):
            if connection.attachment is not None:
                connection.attachment.finish(READ_REST_SECONDS)

    def _listen(self) -> None:
        """Listen on the socket at which kubelets connect."""
        # The address of a Unix socket holds 107 bytes; a folder's path may be longer.
        folder = os.open(self.directory, os.O_PATH | os.O_DIRECTORY)
        address = f"/proc/self/fd/{folder}/{CONTROL_SOCKET}"
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)
        self.server.bind(address)
        self.server.listen(16)
        self.server.setblocking(False)
        os.close(folder)
        self.poll.register(self.server, select.POLLIN)

    def _wake_on_signals(self) -> None:
        """Let signals end the wait of the loop, and keep those from ending the shim that are meant for the program."""
        self.wakeup, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # A machine that shuts down sends SIGTERM to all processes; the shim passes it on to the program.
        signal.signal(signal.SIGTERM, lambda *_: self.signal_leader(signal.SIGTERM))
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        self.poll.register(self.wakeup, select.POLLIN)

    def _start_program(self) -> None:
        """Start the program with its streams. Raises OSError or StartFailure."""
        for cgroup in self.identity.cgroups:
            cgroup.create()
        if self.tty:
            ours, theirs = pty.openpty()
            child_ends = [theirs]
            stdio = (theirs, theirs, theirs)
            self.stdin = ours
            self._collect(ours, "stdout")
        else:
            out_read, out_write = os.pipe2(os.O_CLOEXEC)
            err_read, err_write = os.pipe2(os.O_CLOEXEC)
            stdin = self._stdin_descriptor()
            child_ends = [stdin, out_write, err_write]
            stdio = (stdin, out_write, err_write)
            self._collect(out_read, "stdout")
            self._collect(err_read, "stderr")
        self.leader = process.start(self.identity, self.argv, stdio, tty=self.tty, beside=None, dies_with_us=True)
        for fd in child_ends:
            os.close(fd)

    def _stdin_descriptor(self) -> int:
        """Return the reading end of the program's input, which is empty unless kubelets may write to it."""
        if not self.keeps_stdin:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        read, self.stdin = os.pipe2(os.O_CLOEXEC)
        return read

    def _collect(self, fd: int, stream: str) -> None:
        """Read the program's output from this descriptor from now on."""
        os.set_inheritable(fd, False)
        os.set_blocking(fd, False)
        self.streams[fd] = stream
        self.poll.register(fd, select.POLLIN)

    # One pass of the loop

    def _run_once(self) -> None:
        """Wait for output, orders, the end of a process or the time of the next check, and act on each."""
        for fd, _ in self.poll.poll(self._timeout_milliseconds()):
            if fd in self.streams:
                self._read_stream(fd)
            elif fd == self.wakeup:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wakeup, 4096)
            elif fd == self.server.fileno():
                self._accept()
            elif fd in self.connections:
                self.connections[fd].receive()
            elif fd in self.handlers:
                self.handlers[fd]()
        self._serve_attached()
        self._reap()
        now = time.monotonic()
        if self.kill_at is not None and now >= self.kill_at:
            self.killing = True
        if self.memory.is_due(now) and not self.killing:
            # A container without some of its processes is of no use, so all are killed, as with memory.oom.group.
            self.killing = self.memory.look(now)
        if self.killing:
            self._kill_everything()
        if self.log.partial_since is not None and now - self.log.partial_since >= PARTIAL_AFTER_SECONDS:
            self.log.flush_partial()

    def _timeout_milliseconds(self) -> int:
        """Return the longest time for which the loop may wait now."""
        if self.killing:
            return int(KILL_AGAIN_SECONDS * 1000)
        waits = [LOOK_SECONDS]
        if self.log.partial_since is not None:
            waits.append(max(0.0, self.log.partial_since + PARTIAL_AFTER_SECONDS - time.monotonic()))
        if self.kill_at is not None:
            waits.append(max(0.0, self.kill_at - time.monotonic()))
        return int(min(waits) * 1000) + 1

    def _read_stream(self, fd: int) -> None:
        """Read output that is there, or close the stream at its end."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a terminal without users answers EIO
        if data:
            self._on_output(fd, data)
        else:
            if not self.is_output_paused:
                self.poll.unregister(fd)
            if fd == self.stdin:
                self.stdin = -1
            del self.streams[fd]
            os.close(fd)

    def _on_output(self, fd: int, data: bytes) -> None:
        """Take what was read from a descriptor of `streams`."""
        self.print(self.streams[fd], data)

    def print(self, stream: str, data: bytes) -> None:
        """Write the program's output to the log and to attached remotes."""
        self.log.write(stream, data)
        for connection in list(self.connections.values()):
            if connection.attachment is not None and not connection.attachment.write(stream, data):
                connection.close()

    def _serve_attached(self) -> None:
        """Write pending output to attached remotes. Leave the program's output unread while a remote is far behind."""
        for fd in self.awaited:
            self.poll.unregister(fd)
        self.awaited.clear()
        largest_pending = 0
        for connection in list(self.connections.values()):
            attachment = connection.attachment
            if attachment is None:
                continue
            if not attachment.flush():
                connection.close()
                continue
            largest_pending = max(largest_pending, attachment.pending_bytes)
            for fd in attachment.waiting_for:
                self.awaited[fd] = connection
                self.poll.register(fd, select.POLLOUT)
        if (largest_pending > PENDING_BYTES) != self.is_output_paused:
            self.is_output_paused = not self.is_output_paused
            for fd in self.streams:
                if self.is_output_paused:
                    self.poll.unregister(fd)
                else:
                    self.poll.register(fd, select.POLLIN)

    def _accept(self) -> None:
        """Take the connection of a kubelet."""
        with contextlib.suppress(OSError):
            accepted, _ = self.server.accept()
            self.connections[accepted.fileno()] = Connection(self, accepted)
            self.poll.register(accepted, select.POLLIN)

    def _reap(self) -> None:
        """Take note of processes that have ended: the program, commands that kubelets run, and what these left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.memory.note_ended_process(usage.ru_maxrss * 1024)
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code
            if pid == self.leader:
                self.leader = 0
                self.exit_code = code
                self.state["finished_at"] = time.time()
                # A container ends with its first process, even if other processes are left.
                self.killing = True
            for connection in list(self.connections.values()):
                if connection.pid == pid:
                    connection.ended(code)

    def _is_alive(self) -> bool:
        """Return whether the program, or a process that it left, still runs."""
        if self.leader:
            return True
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def _kill_everything(self) -> None:
        """Send SIGKILL to all processes of the container."""
        for cgroup in self.identity.cgroups:
            if cgroup.version == 2:
                cgroup.kill()
        tree.kill_all(tree.descendants(os.getpid()))

    def _process_ids(self) -> list[int]:
        """Return the identifiers of all processes of the container."""
        return tree.descendants(os.getpid())

    # Orders

    def signal_leader(self, number: int) -> None:
        """Send a signal to the program."""
        if self.leader:
            with contextlib.suppress(OSError):
                os.kill(self.leader, number)

    def stop(self, number: int, grace_seconds: float) -> None:
        """Send the signal now, and SIGKILL to all processes after the grace period. A second order can only shorten
        that."""
        if self.kill_at is None:
            self.signal_leader(number)
        deadline = time.monotonic() + max(0.0, grace_seconds)
        self.kill_at = deadline if self.kill_at is None else min(self.kill_at, deadline)

    def close_stdin(self) -> None:
        """End the program's input, once no other process holds a descriptor of it. A terminal stays open."""
        if not self.tty and self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    # End

    def _drain(self) -> None:
        """Read the output that is left in the pipes."""
        for fd in list(self.streams):
            before = -1
            while fd in self.streams and before != 0:
                before = len(select.select([fd], [], [], 0)[0])
                if before:
                    self._read_stream(fd)

    def _finish(self, status: str, message: str) -> None:
        """Store how the container ended, and remove its cgroups."""
        self.log.close()
        self.memory.conclude()
        if self.memory.was_killed and not self.exit_code:
            self.exit_code = 137  # a shell survives its child's death and exits with 0
        self.state.update(
            exit_code=self.exit_code,
            oom_killed=self.memory.was_killed,
            within_limit=self.memory.within_limit,
            peak_bytes=self.memory.peak_bytes,
            message=message,
            finished_at=self.state["finished_at"] or time.time(),
        )
        for cgroup in self.identity.cgroups:
            cgroup.remove()
        self._write_state(status)

    def _write_state(self, status: str) -> None:
        """Write the state file, from which kubelets learn what became of the container."""
        self.state["status"] = status
        # Only the shim knows the exit code, so it waits until the full disk has room again.
        while True:
            try:
                write_atomically(os.path.join(self.directory, STATE_FILE), self.state)
                return
            except OSError:
                if not os.path.isdir(self.directory):
                    return
                time.sleep(1)

    def _send_report(self, text: str) -> None:
        """Tell the kubelet that started the shim whether the program runs; nothing else is reported this way."""
        with contextlib.suppress(OSError):
            os.write(self.report, text.encode())
        os.close(self.report)


def boot_id() -> str:
    """Return the identifier of this boot of the machine. A state with another one describes processes that are gone."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return ""


def main() -> None:
    """Run one container as a process below this one."""
    run(Shim)


def run(make: Callable[[dict[str, Any], int, int], Shim]) -> None:
    """Run one container. `argv[1]` is the descriptor of the locked lock file, `argv[2]` the container's folder. The
    launch document comes on stdin, the report goes to stdout.

    The shim holds the inherited lock for its whole life. By the lock a later kubelet distinguishes a living shim from
    another process that has the same number by then.
    """
    lock = int(sys.argv[1])
    os.set_inheritable(lock, False)
    with open(0, "rb", closefd=False) as stdin:
        document = json.loads(stdin.read())
    report = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    with contextlib.suppress(OSError):
        os.chdir("/")
    make(document, lock, report).run()
