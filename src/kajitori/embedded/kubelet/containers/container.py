"""One attempt of a container as the kubelet sees it: a folder, and the shim that holds the folder's lock."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kajitori.embedded.kubelet.containers import control, leftovers
from kajitori.embedded.kubelet.containers.control import Attachment
from kajitori.embedded.kubelet.containers.engine_execution import AnyExecution, execute_in_engine
from kajitori.embedded.kubelet.containers.launch import EngineContainer, Launch
from kajitori.embedded.kubelet.engine.client import EngineClient
from kajitori.embedded.kubelet.shim import main as shim
from kajitori.embedded.kubelet.shim import tree
from kajitori.embedded.kubelet.shim.cgroups import Cgroup
from kajitori.embedded.kubelet.shim.connection import MESSAGE_BYTES
from kajitori.errors import KajitoriError, Unavailable

log = logging.getLogger(__name__)

CGROUPS_FILE = "cgroups.json"
ENGINE_FILE = "engine.json"
"""File that names the engine's container. Without it the container is a process below its shim."""
REMOVE_AGAIN_SECONDS = 2.0
_SHIM_COMMAND = "import sys; sys.path.append({folder!r}); "


class ContainerState(msgspec.Struct, frozen=True):
    """The state that the shim last wrote. Times are seconds since 1970."""

    status: str
    shim_pid: int
    boot_id: str
    pid: int = 0
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int | None = None
    oom_killed: bool = False
    within_limit: bool = False
    """The container was killed for memory below its own limit: the machine had no memory left."""
    peak_bytes: int = 0
    message: str = ""
    container_uri: str = ""
    """An engine's identifier of the container, such as `podman://…`; empty for a process."""
    image_id: str = ""
    lost: bool = False
    """The shim was killed, or the machine restarted, so the program's end is unknown."""

    @property
    def running(self) -> bool:
        return self.status == shim.RUNNING


class Container:
    """One attempt of a container. `launch` starts its shim; `adopt` finds the shim that an earlier kubelet started.

    Each attempt has its own folder, which is used once.
    """

    def __init__(self, directory: Path, container_id: str) -> None:
        self.directory = directory
        self.container_id = container_id
        self.ended = asyncio.Event()
        self.on_ended: Callable[[], None] = lambda: None
        self.state = ContainerState(status=shim.FAILED, shim_pid=0, boot_id="", message="never started")
        self._pidfd: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._cpu_seconds_counted = 0.0
        self._engine: EngineContainer | None = None
        self._settling: asyncio.Task[None] | None = None

    @property
    def engine(self) -> EngineContainer | None:
        """The engine's container; None for a process."""
        if self._engine is None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                data = (self.directory / ENGINE_FILE).read_bytes()
                self._engine = msgspec.json.decode(data, type=EngineContainer)
        return self._engine

    def cpu_seconds(self) -> float:
        """Return the processor time since the start, in seconds: from a control group, else summed over the processes.

        The result never decreases. A sum may miss a process that ends while it is computed: the process is gone by
        then, and its parent was read before it inherited the time.
        """
        counted = next((used for group in self.cgroups() if (used := group.cpu_seconds()) is not None), None)
        if counted is None:
            counted = tree.cpu_seconds(self.state.shim_pid, self.pids())
        self._cpu_seconds_counted = max(self._cpu_seconds_counted, counted)
        return self._cpu_seconds_counted

    async def launch(self, launch: Launch) -> ContainerState:
        """Start the program. Return once it runs, or with the reason why it does not (`status` is `failed`)."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.directory / CGROUPS_FILE).write_text(json.dumps([cgroup.as_document() for cgroup in launch.cgroups]))
        mark = leftovers.mark_of(self.container_id, leftovers.write_origin(self.directory))
        if launch.engine is not None:
            self._engine = msgspec.structs.replace(launch.engine, body={})
            (self.directory / ENGINE_FILE).write_bytes(msgspec.json.encode(self._engine))
        launch.log_path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        lock = os.open(self.directory / shim.LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        document = os.memfd_create("launch", os.MFD_CLOEXEC)
        report, shim_report = os.pipe2(os.O_CLOEXEC)
        try:
            # The lock is held from before the shim exists until it has ended: a free lock proves that there is no shim.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(document, json.dumps(launch.document(self.directory, mark)).encode())
            os.lseek(document, 0, os.SEEK_SET)
            self._process = self._start_shim(lock, document, shim_report)
            self._watch(os.pidfd_open(self._process.pid))
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(shim_report)
            os.close(document)
            os.close(lock)
        await _read_all(report)
        if self.ended.is_set():
            return self.state
        state = self._read_state()
        self.state = state or self.state
        if state is None or not state.running:
            await self.ended.wait()
        return self.state

    def _start_shim(self, lock: int, document: int, report: int) -> subprocess.Popen[bytes]:
        """Start the shim, which inherits the locked lock file and reads the launch document from its standard input."""
        command = [sys.executable, "-I", "-S", "-c", _shim_program(self._engine)]
        with (self.directory / "shim.err").open("wb") as errors:
            return subprocess.Popen(
                [*command, str(lock), str(self.directory.resolve())],
                stdin=document,
                stdout=report,
                stderr=errors,
                pass_fds=(lock,),
                start_new_session=True,
                cwd="/",
                env={},
            )

    async def adopt(self) -> bool:
        """Adopt what an earlier kubelet started. Return False if nothing was ever started in this folder."""
        state = self._read_state()
        pid = await self._living_shim()
        if pid is not None:
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                pidfd = -1
            if pidfd >= 0 and self._is_locked():
                self.state = state or ContainerState(status=shim.RUNNING, shim_pid=pid, boot_id=shim.boot_id())
                self._watch(pidfd)
                return True
            if pidfd >= 0:
                os.close(pidfd)
            state = self._read_state()
        if state is None:
            return False
        if state.running:
            await self._remove_from_engine()
        self._settle_end()
        return True

    async def stop(self, grace_seconds: float, number: int = signal.SIGTERM) -> None:
        """Send SIGTERM (or `number`) to the program now. After the grace period the shim sends SIGKILL to all
        processes."""
        await self._send_order({"do": "stop", "signal": int(number), "grace_seconds": grace_seconds})

    async def execute(self, argv: Sequence[str], stdio: Sequence[int], *, tty: bool = False) -> AnyExecution:
        """Run a command beside the program. `stdio` are three descriptors, or one for a terminal; the caller closes
        them.

        Raises KajitoriError if it can't be started.
        """
        if (engine := self.engine) is not None:
            return await execute_in_engine(EngineClient(engine.socket, engine.api), engine.name, argv, stdio, tty=tty)
        return await control.execute(self.directory, argv, stdio, tty=tty)

    async def attach(self, outputs: Sequence[int]) -> Attachment:
        """Copy the program's further output to these descriptors: one for a terminal, else two.

        The caller closes them; the copies close when the container has ended. Raises Unavailable if it has already
        ended.
        """
        return await control.attach(self.directory, outputs)

    async def close_stdin(self) -> None:
        """End the program's input for good, once all attached clients have released it."""
        await self._send_order({"do": "close_stdin"})

    def pids(self) -> list[int]:
        """Return the container's processes, without the shim."""
        if self._pidfd is None:
            return []
        if self.engine is None:
            return tree.descendants(self.state.shim_pid)
        first = self.state.pid
        # Commands beside the program are not its children, but they are in its control groups.
        found = {pid for group in self.cgroups()[:1] for pid in group.pids()} or set(tree.descendants(first))
        return [first, *sorted(found - {first})] if first else []

    def memory_cgroup(self) -> Cgroup | None:
        """Return the control group that counts its memory, or None."""
        return next((cgroup for cgroup in self.cgroups() if cgroup.counts_memory), None)

    def cgroups(self) -> list[Cgroup]:
        """Return the control groups that were created for it."""
        try:
            return [Cgroup.from_document(group) for group in json.loads((self.directory / CGROUPS_FILE).read_bytes())]
        except (OSError, ValueError):
            return []

    def close(self) -> None:
        """Stop watching the container; the shim keeps running."""
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    # Watching the shim

    def _watch(self, pidfd: int) -> None:
        self._pidfd = pidfd
        asyncio.get_running_loop().add_reader(pidfd, self._shim_is_gone)

    def _shim_is_gone(self) -> None:
        self.close()
        if self._process is not None:
            self._process.wait()
        state = self._read_state()
        if self.engine is not None and (state is None or state.running):
            self._settling = asyncio.create_task(self._remove_and_settle())
        else:
            self._settle_end()

    async def _remove_and_settle(self) -> None:
        await self._remove_from_engine()
        self._settle_end()

    async def _remove_from_engine(self) -> None:
        """Remove the engine's container after its shim was killed. Returns only when it is gone, because no other
        attempt may run beside it."""
        if (engine := self.engine) is None or leftovers.is_copy(self.directory):
            return
        is_logged = False
        while True:
            try:
                await EngineClient(engine.socket, engine.api).remove(engine.name)
                return
            except KajitoriError as error:
                if not is_logged:
                    log.warning("container %s can't be removed yet: %s", engine.name, error.message)
                is_logged = True
                await asyncio.sleep(REMOVE_AGAIN_SECONDS)

    def _settle_end(self) -> None:
        """Read the end from the state file; if there is none, clean up after a shim that was killed."""
        state = self._read_state()
        if state is None or state.running:
            if self.engine is None:
                leftovers.kill(self.directory, self.container_id, self.cgroups())
            rebooted = state is not None and state.boot_id != shim.boot_id()
            last_error = _last_line(self.directory / "shim.err")
            killed = f"the container's shim was killed {last_error}".strip()
            state = ContainerState(
                status=shim.EXITED if state else shim.FAILED,
                shim_pid=0,
                boot_id=state.boot_id if state else "",
                pid=state.pid if state else 0,
                started_at=state.started_at if state else 0.0,
                finished_at=_modified_at(self.directory),
                exit_code=137 if state else 128,
                message="the machine restarted" if rebooted else killed,
                lost=True,
            )
        self.state = state
        self.ended.set()
        self.on_ended()

    def _read_state(self) -> ContainerState | None:
        try:
            return msgspec.json.decode((self.directory / shim.STATE_FILE).read_bytes(), type=ContainerState)
        except (OSError, msgspec.DecodeError):
            return None

    async def _living_shim(self) -> int | None:
        """Return the process identifier of the shim that holds the lock; None if no process holds it."""
        for _ in range(200):
            if not self._is_locked():
                return None
            with contextlib.suppress(OSError, ValueError):
                return int((self.directory / shim.LOCK_FILE).read_text())
            await asyncio.sleep(0.01)  # the shim has just started and has not written its number yet
        return None

    def _is_locked(self) -> bool:
        try:
            fd = os.open(self.directory / shim.LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    # Talking to the shim

    async def _send_order(self, order: Mapping[str, Any]) -> None:
        connection = await self._connect_while_it_lives()
        if connection is None:
            return  # it has ended, and all orders only end something
        try:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(connection, json.dumps(order).encode())
            await loop.sock_recv(connection, MESSAGE_BYTES)
        except OSError:
            pass
        finally:
            connection.close()

    async def _connect_while_it_lives(self) -> socket.socket | None:
        """Connect to the shim; try again while it lives. A shim that has just started does not listen yet, and no order
        may get lost."""
        pause_seconds = 0.01
        while self._pidfd is not None:
            try:
                return await control.connect(self.directory)
            except Unavailable:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, 0.5)
        return None


def _shim_program(engine: EngineContainer | None) -> str:
    end = shim.COMMAND_END if engine is None else shim.ENGINE_COMMAND_END
    return _SHIM_COMMAND.format(folder=str(Path(shim.__file__).parent.parent)) + end


async def _read_all(fd: int) -> None:
    """Wait until the shim has reported that the program runs, or has closed its end."""
    try:
        await control.readable(fd)
    finally:
        os.close(fd)


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f"({lines[-1][:200]})" if lines else ""


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
