"""The shim of a container that Docker's or Podman's engine runs: it creates the container, keeps its log, and removes
it.

The engine's own log is switched off, since the shim writes the log. If the connection to the engine breaks, the
container goes on, and the shim connects again; the log says that output was lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import termios
import time
import tty

from . import engine_groups, process, tree
from .engine_wire import EngineFailure, Frames, call, read_answer, send_request, upgrade
from .main import READ_BYTES, Shim, run, write_atomically

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CGROUPS_FILE = "cgroups.json"
START_SECONDS = 900.0
"""Longest wait for the engine to create or start a container: some storage drivers copy the whole image."""
CALL_SECONDS = 30.0
LOOK_SECONDS = 0.01
"""Interval at which the memory of a container is looked at while Docker starts it."""
TRY_AGAIN_SECONDS = 1.0
REST_SECONDS = 3.0
"""Longest wait for the rest of the output after the container's end."""
LOST = b"kaji: the connection to the container engine was lost; output that was printed meanwhile is missing\n"
DETACH_KEYS = ",".join(["ctrl-%5E"] * 4)
"""Detach keys that are never typed, so that the engine does not remove Ctrl-P Ctrl-Q from the input."""
_NOT_FOUND = ("not found", "no such file or directory")
_DENIED = ("permission denied", "exec format error", "is a directory")


class EngineShim(Shim):
    """One container of an engine. `document["engine"]` has the engine's socket, and the container's name and body."""

    def __init__(self, document: dict[str, Any], lock: int, report: int) -> None:
        super().__init__(document, lock, report)
        engine = document["engine"]
        self.socket_path: str = engine["socket"]
        self.scheme: str = engine["scheme"]
        self.body: dict[str, Any] = engine["body"]
        self.name: str = engine["name"]
        self.container = f"{engine['api']}/containers/{self.name}"
        self.create_path = f"{engine['create']}?name={self.name}"
        self.frames = Frames()
        self.attached = -1
        self.input: socket.socket | None = None
        """The connection that takes input."""
        self.echo = -1
        """Descriptor of output that comes back by a connection of its own for input, and is not needed."""
        self.source = -1
        """Descriptor of the input that attached remotes type."""
        self.unsent = b""
        self.waiting: socket.socket | None = None
        self.try_at = 0.0
        self.ended_at = 0.0
        self.is_resized = False
        self.identifier = ""
        self.state.update(container_uri="", image_id="")

    # Start

    def _start_program(self) -> None:
        self._make_input()
        try:
            self._create()
            self._attach()
            self._start()
            self._wait()
        except EngineFailure as failure:
            with contextlib.suppress(EngineFailure):
                self._remove()
            raise process.StartFailure(_in_words(failure.message), _shell_code(failure.message)) from failure

    def _create(self) -> None:
        path = self.create_path
        try:
            answer = call(self.socket_path, "POST", path, self.body, START_SECONDS)
        except EngineFailure as failure:
            if failure.status != 409:
                raise
            self._remove()  # left by a start that a crash interrupted
            answer = call(self.socket_path, "POST", path, self.body, START_SECONDS)
        self.identifier = str(json.loads(answer)["Id"])

    def _make_input(self) -> None:
        if self.tty:
            self.stdin, self.source = pty.openpty()
            tty.setraw(self.source)
            # The kernel tells the session's leader that the size of its terminal has changed.
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.source, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGWINCH, self._note_resize)
        elif self.keeps_stdin:
            self.source, self.stdin = os.pipe2(os.O_CLOEXEC)
        if self.source >= 0:
            os.set_blocking(self.source, False)
            self.handlers[self.source] = self._forward_input
            self.poll.register(self.source, select.POLLIN)

    def _attach(self) -> None:
        has_input, is_podman = self.source >= 0, self.scheme == "podman"
        connection = self._attached_to(stdin=has_input and not is_podman)
        self.attached = connection.detach()
        self.frames = Frames()
        self._collect(self.attached, "attached")
        self.input = socket.socket(fileno=os.dup(self.attached))
        if has_input and is_podman:
            # A program may end before it has read all of its input. Podman's monitor then resets the connection, and
            # output that is on its way there is lost. So the input has a connection of its own. It brings the output,
            # too: without, Podman would not read it, and the monitor would wait.
            self.input = self._attached_to(stdin=True)
            self._stop_echo()
            self.echo = os.dup(self.input.fileno())
            os.set_blocking(self.echo, False)
            self.handlers[self.echo] = self._drop_echo
            self.poll.register(self.echo, select.POLLIN)
        self.input.setblocking(False)

    def _attached_to(self, *, stdin: bool) -> socket.socket:
        query = f"?stream=1&stdout=1&stderr=1&stdin={int(stdin)}&detachKeys={DETACH_KEYS}"
        return upgrade(self.socket_path, f"{self.container}/attach{query}", START_SECONDS)

    def _drop_echo(self) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                data = os.read(self.echo, READ_BYTES)
            except ConnectionError:
                data = b""
            if not data:
                self._stop_echo()

    def _stop_echo(self) -> None:
        if self.echo >= 0:
            self.poll.unregister(self.echo)
            del self.handlers[self.echo]
            os.close(self.echo)
            self.echo = -1

    def _start(self) -> None:
        """Start the program, and find its control groups in time to see that it ran out of memory at once. Podman has
        created them and the first process when the shim attaches; Docker creates them now."""
        self._learn_processes()
        starting = send_request(self.socket_path, "POST", f"{self.container}/start", START_SECONDS)
        if self.ending >= 0:
            ready, _, _ = select.select([starting.fileno(), self.ending], [], [], START_SECONDS)
            if self.ending in ready:
                self._first_process_ended()
        else:
            self._look_until_started(starting)
        read_answer(self.socket_path, starting)
        if self.leader < 0:
            self._learn_processes()

    def _look_until_started(self, starting: socket.socket) -> None:
        """Read the counters of the container's memory until the engine answers, because Docker misses kills that happen
        before it watches."""
        while True:
            is_answered = bool(select.select([starting.fileno()], [], [], LOOK_SECONDS)[0])
            if self.memory.group is None:
                self.memory.group = engine_groups.memory_of(self.identifier)
            self.memory.note_kills()
            if is_answered:
                return

    def _learn_processes(self) -> None:
        found = self._inspect()
        self.leader = int(found["State"].get("Pid") or 0) or -1
        self.state.update(container_uri=f"{self.scheme}://{found['Id']}", image_id=str(found.get("Image") or ""))
        if self.leader < 0:
            return
        groups = engine_groups.of_container(self.leader, found["Id"])
        self.memory.group = next((group for group in groups if group.counts_memory), self.memory.group)
        with contextlib.suppress(OSError):
            documents = [group.as_document() for group in groups]
            fresh = os.path.join(self.directory, CGROUPS_FILE)
            write_atomically(fresh, documents)
        self._watch_end()

    def _watch_end(self) -> None:
        """Ask the kernel to report the end of the first process, because the engine removes the counters of its memory
        a moment later."""
        with contextlib.suppress(OSError):
            self.ending = os.pidfd_open(self.leader)
            self.handlers[self.ending] = self._first_process_ended
            self.poll.register(self.ending, select.POLLIN)
            return
        self._read_last_counters()  # it has ended

    ending = -1

    def _first_process_ended(self) -> None:
        self.poll.unregister(self.ending)
        del self.handlers[self.ending]
        os.close(self.ending)
        self.ending = -1
        self._read_last_counters()

    def _read_last_counters(self) -> None:
        self.memory.note_kills()
        self.memory.note_peak()

    def _wait(self) -> None:
        waiting = send_request(self.socket_path, "POST", f"{self.container}/wait?condition=not-running", CALL_SECONDS)
        self.waiting = waiting
        self.handlers[waiting.fileno()] = self._wait_answered
        self.poll.register(waiting, select.POLLIN)

    # While it runs

    def _on_output(self, fd: int, data: bytes) -> None:
        if self.tty:
            self.print("stdout", data)
            return
        for stream, piece in self.frames.feed(data):
            self.print(stream, piece)

    def _forward_input(self) -> None:
        try:
            data = os.read(self.source, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.unsent = data
            self._send_input()
            return
        self.poll.unregister(self.source)
        del self.handlers[self.source]
        os.close(self.source)
        self.source = -1
        if self.input is not None:
            with contextlib.suppress(OSError):
                self.input.shutdown(socket.SHUT_WR)

    def _send_input(self) -> None:
        """Send typed input. While the container does not read it, no more input is taken."""
        target = self.input
        is_waiting = target is not None and target.fileno() in self.handlers
        try:
            while self.unsent and target is not None:
                self.unsent = self.unsent[target.send(self.unsent) :]
        except BlockingIOError:
            if target is not None and not is_waiting:
                self.poll.unregister(self.source)
                self.handlers[target.fileno()] = self._send_input
                self.poll.register(target, select.POLLOUT)
            return
        except OSError:
            self.unsent = b""
        if is_waiting and target is not None:
            self.poll.unregister(target)
            del self.handlers[target.fileno()]
            self.poll.register(self.source, select.POLLIN)

    def _note_resize(self, *_: object) -> None:
        self.is_resized = True

    def _resize(self) -> None:
        self.is_resized = False
        with contextlib.suppress(OSError, EngineFailure):
            rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(self.source, termios.TIOCGWINSZ, b"\0" * 8))
            self._post(f"/resize?h={rows}&w={columns}", CALL_SECONDS)

    def _is_alive(self) -> bool:
        return bool(self.leader) or (bool(self.streams) and time.monotonic() < self.ended_at + REST_SECONDS)

    def _reap(self) -> None:
        if self.is_resized:
            self._resize()
        if not self.leader or (self.waiting is not None and self.attached in self.streams):
            self.try_at = 0.0
        elif not self.try_at:
            # When a container ends, its output may end a moment before the engine knows of the end.
            self.try_at = time.monotonic() + TRY_AGAIN_SECONDS
        elif time.monotonic() >= self.try_at:
            self.try_at = 0.0
            self._connect_again()

    def _connect_again(self) -> None:
        """Find out the container's state after the connection to its engine broke."""
        is_detached = self.attached not in self.streams
        is_lost = is_detached and self.waiting is None
        try:
            if not self._note_end() and self.waiting is None:
                self._wait()
            if self.leader and is_detached:
                self._attach()
                is_lost = True
        except EngineFailure:
            if not os.path.isdir(self.directory):  # its exit code is not needed
                self.exit_code, self.leader = 137, 0
            return
        if is_lost:
            self.print("stderr", LOST)

    def _wait_answered(self) -> None:
        waiting = self.waiting
        if waiting is None:
            return
        try:
            data = waiting.recv(READ_BYTES)
        except OSError:
            data = b""
        if data and b"StatusCode" not in data:
            return  # Docker sends the head of its answer at once
        self.poll.unregister(waiting)
        del self.handlers[waiting.fileno()]
        waiting.close()
        self.waiting = None
        with contextlib.suppress(EngineFailure):
            self._note_end()

    def _note_end(self) -> bool:
        """Return whether the container has ended, and record its end."""
        try:
            state = self._inspect()["State"]
        except EngineFailure as failure:
            if failure.status != 404:
                raise
            state = {"Status": "removed", "ExitCode": 137}
        if state.get("Running") or state.get("Status") in ("running", "paused", "restarting", "stopping"):
            return False
        self.exit_code = int(state.get("ExitCode") or 0)
        self.memory.was_killed = self.memory.was_killed or bool(state.get("OOMKilled"))
        self.memory.group = None  # the engine has removed it
        self.leader = 0
        self.state["finished_at"] = time.time()
        self.ended_at = time.monotonic()
        return True

    def _process_ids(self) -> list[int]:
        return [self.leader, *tree.descendants(self.leader)] if self.leader > 0 else []

    # End

    def signal_leader(self, number: int) -> None:
        if self.leader:
            with contextlib.suppress(EngineFailure):
                self._post(f"/kill?signal={number}", CALL_SECONDS)

    def _kill_everything(self) -> None:
        if self.leader and time.monotonic() >= self.kill_again_at:
            self.kill_again_at = time.monotonic() + TRY_AGAIN_SECONDS
            self.signal_leader(signal.SIGKILL)

    kill_again_at = 0.0

    def run(self) -> None:
        super().run()
        with contextlib.suppress(EngineFailure):
            self._remove()

    def _remove(self) -> None:
        try:
            call(self.socket_path, "DELETE", f"{self.container}?force=true&v=true", None, START_SECONDS)
        except EngineFailure as failure:
            if failure.status != 404:
                raise

    def _inspect(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(call(self.socket_path, "GET", f"{self.container}/json", None, CALL_SECONDS))
        return found

    def _post(self, action: str, seconds: float) -> None:
        call(self.socket_path, "POST", f"{self.container}{action}", None, seconds)


def _shell_code(message: str) -> int:
    """Return the exit code that a shell would have for a program that can't be started."""
    words = message.lower()
    if "exec" in words or "executable" in words:
        if any(part in words for part in _NOT_FOUND):
            return process.NOT_FOUND
        if any(part in words for part in _DENIED):
            return process.NOT_EXECUTABLE
    return 128


def _in_words(message: str) -> str:
    """Return an engine's message. If a mount does not fit the image, replace the runtime's text by a sentence."""
    source, _, rest = message.partition('error mounting "')[2].partition('" to rootfs at "')
    target = rest.partition('"')[0]
    if not target or "not a directory" not in rest:
        return message
    if os.path.isdir(source):
        return f"{target} is a file in the image, and a folder can't be mounted over it"
    return f"{target} is a folder in the image, and a file can't be mounted over it: name the file, as in {target}/NAME"


def main() -> None:
    """Run one container of an engine."""
    run(EngineShim)
