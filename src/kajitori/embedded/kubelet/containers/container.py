"""One container of a Pod as the kubelet sees it: a folder, and the shim that holds the folder's lock."""

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from kajitori.embedded.kubelet.containers import control
from kajitori.embedded.kubelet.containers.control import Attachment
from kajitori.embedded.kubelet.containers.engine_execution import AnyExecution, execute_in_engine
from kajitori.embedded.kubelet.engine.client import EngineClient
from kajitori.embedded.kubelet.shim import main as shim
from kajitori.embedded.kubelet.shim import tree
from kajitori.embedded.kubelet.shim.cgroups import Cgroup
from kajitori.embedded.kubelet.shim.connection import MESSAGE_BYTES
from kajitori.errors import KajitoriError, Unavailable

log = logging.getLogger(__name__)

CGROUPS_FILE = "cgroups.json"
ORIGIN_FILE = "origin.json"
"""File with the identity of the container's folder at its start: device, inode, and the machine's boot. In a copied
folder it holds the identity of the original."""
MARKER_VARIABLE = "KAJITORI_CONTAINER"
"""Variable in every process of a container, by which the processes are found if their shim was killed."""
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


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How to start a container. The document with the environment stays in memory, since it may hold secrets."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    working_dir: str
    log_path: Path
    log_max_bytes: int = 10 * 1024**2
    log_max_files: int = 5
    uid: int | None = None
    gid: int | None = None
    groups: Sequence[int] = ()
    umask: int = 0o022
    open_files: int = 1_048_576
    oom_score_adjustment: int | None = None
    memory_limit_bytes: int = 0
    cgroups: Sequence[Cgroup] = ()
    mount_namespace: Mapping[str, Any] | None = None
    network_namespace: str = ""
    host_name: str = ""
    """The host name that the program sees, if it has a network of its own."""
    tty: bool = False
    stdin: bool = False
    engine: EngineContainer | None = None
    """The engine's container to create; None: `argv` runs as a process."""

    def document(self, directory: Path, mark: str) -> dict[str, Any]:
        """Return the document for the shim, as JSON. All processes of the container carry `mark`."""
        return {
            "directory": str(directory),
            "argv": list(self.argv),
            "environment": {**self.environment, MARKER_VARIABLE: mark},
            "working_dir": self.working_dir,
            "log_path": str(self.log_path),
            "log_max_bytes": self.log_max_bytes,
            "log_max_files": self.log_max_files,
            "uid": self.uid,
            "gid": self.gid,
            "groups": list(self.groups),
            "umask": self.umask,
            "open_files": self.open_files,
            "oom_score_adjustment": self.oom_score_adjustment,
            "memory_limit_bytes": self.memory_limit_bytes,
            "cgroups": [cgroup.as_document() for cgroup in self.cgroups],
            "mount_namespace": self.mount_namespace,
            "network_namespace": self.network_namespace,
            "host_name": self.host_name,
            "tty": self.tty,
            "stdin": self.stdin,
        } | ({"engine": msgspec.to_builtins(self.engine)} if self.engine is not None else {})


class EngineContainer(msgspec.Struct, frozen=True):
    """A container that an engine runs."""

    socket: str
    """Path of the engine's socket."""
    scheme: str
    name: str
    body: dict[str, Any] = {}
    """The body of the engine's request to create the container. It may hold secrets, so it is in no file."""
    api: str = ""
    """Beginning of the paths of requests; empty in the files of earlier kubelets."""
    create: str = "/containers/create"
    """Path of the request that creates it, as `body` is in Docker's words or in Podman's own."""


class Container:
    """A container with an existing folder. `launch` starts its shim; `adopt` finds one of an earlier kubelet.

    Each attempt has a folder of its own, which is used once.
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

        The result never decreases. A sum misses a process that ends meanwhile: its own line is gone by then, and its
        parent's was read before the parent inherited its time.
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
        origin = _identity(self.directory)
        (self.directory / ORIGIN_FILE).write_text(json.dumps(origin))
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
            mark = _mark(self.container_id, origin)
            os.write(document, json.dumps(launch.document(self.directory, mark)).encode())
            os.lseek(document, 0, os.SEEK_SET)
            with (self.directory / "shim.err").open("wb") as errors:
                self._process = subprocess.Popen(  # noqa: ASYNC220 - a vfork, 2 ms
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        "-c",
                        _shim_program(self._engine),
                        str(lock),
                        str(self.directory.resolve()),
                    ],
                    stdin=document,
                    stdout=shim_report,
                    stderr=errors,
                    pass_fds=(lock,),
                    start_new_session=True,
                    cwd="/",
                    env={},
                )
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
        self._settle()
        return True

    async def stop(self, grace_seconds: float, number: int = signal.SIGTERM) -> None:
        """Send SIGTERM (or `number`) to the program now, and SIGKILL to all processes after the grace period, which the
        shim waits for."""
        await self._order({"do": "stop", "signal": int(number), "grace_seconds": grace_seconds})

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
        await self._order({"do": "close_stdin"})

    def pids(self) -> list[int]:
        """Return the container's processes, without the shim."""
        if self._pidfd is None:
            return []
        if self.engine is None:
            return tree.descendants(self.state.shim_pid)
        first = self.state.pid
        # Commands beside the program are no children of its, but in its control groups.
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
            self._settle()

    async def _remove_and_settle(self) -> None:
        await self._remove_from_engine()
        self._settle()

    async def _remove_from_engine(self) -> None:
        """Remove the engine's container after its shim was killed. Returns when it is gone, however long that takes: no
        other attempt may run beside it."""
        origin = self._origin()
        if (engine := self.engine) is None or (origin is not None and origin != _identity(self.directory)):
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

    def _settle(self) -> None:
        """Read the end from the state file; if there is none, clean up after a shim that was killed."""
        state = self._read_state()
        if state is None or state.running:
            self._kill_leftovers()
            rebooted = state is not None and state.boot_id != shim.boot_id()
            last_error = _last_line(self.directory / "shim.err")
            killed = f"the container's shim was killed {last_error}".strip()
            state = ContainerState(
                status=shim.EXITED if state else shim.FAILED,
                shim_pid=0,
                boot_id=state.boot_id if state else "",
                pid=state.pid if state else 0,
                started_at=state.started_at if state else 0.0,
                finished_at=_modified(self.directory),
                exit_code=137 if state else 128,
                message="the machine restarted" if rebooted else killed,
                lost=True,
            )
        self.state = state
        self.ended.set()
        self.on_ended()

    def _kill_leftovers(self) -> None:
        """Kill the processes that a killed shim left, and remove their control groups.

        A copy of a data folder names the original's processes and groups; it must touch neither.
        """
        origin = self._origin()
        if self.engine is not None or (origin is not None and origin != _identity(self.directory)):
            return
        # Without an origin file this may be a copy as well. Processes below a living shim belong to the original then.
        shims = living_shims() if origin is None else set()
        groups = [group for group in self.cgroups() if not any(_is_below(pid, shims) for pid in group.pids())]
        for group in groups:
            if not group.kill():
                tree.kill_all(group.pids())
        tree.kill_all(pid for pid in marked_processes(self.mark) if not _is_below(pid, shims))
        for group in groups:
            group.remove()

    @property
    def mark(self) -> str:
        """The value of the marker variable in all of its processes, once it was started."""
        origin = self._origin()
        return self.container_id if origin is None else _mark(self.container_id, origin)

    def _origin(self) -> list[Any] | None:
        """Return the folder's identity at the start; None for containers that earlier versions of Kajitori started."""
        try:
            found = json.loads((self.directory / ORIGIN_FILE).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, list) else None

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

    async def _order(self, order: Mapping[str, Any]) -> None:
        connection = await self._connect_while_it_lives()
        if connection is None:
            return  # it has ended, and every order is about ending it
        try:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(connection, json.dumps(order).encode())
            await loop.sock_recv(connection, MESSAGE_BYTES)
        except OSError:
            pass
        finally:
            connection.close()

    async def _connect_while_it_lives(self) -> socket.socket | None:
        """Connect to the shim; try again while it lives. A shim that was adopted right after its start does not listen
        yet, and no order may get lost."""
        pause_seconds = 0.01
        while self._pidfd is not None:
            try:
                return await control.connect(self.directory)
            except Unavailable:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, 0.5)
        return None


def marked_processes(mark: str) -> list[int]:
    """Return the processes that carry a container's mark in their environment; those of other users can't be read."""
    variable = f"{MARKER_VARIABLE}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 - no Path objects for every process of the machine
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if variable in file.read().split(b"\0"):
                    found.append(int(entry))
    return found


def living_shims() -> set[int]:
    """Return all shims that live on this machine, for any folder."""
    found: set[int] = set()
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")[:-1]
                if len(words) > 2 and words[-3].endswith(shim.COMMAND_ENDS):
                    found.add(int(entry))
    return found


def _is_below(pid: int, shims: set[int]) -> bool:
    """Whether a process is one of these shims, or below one."""
    return bool(shims) and not shims.isdisjoint((pid, *tree.ancestors(pid)))


def _identity(directory: Path) -> list[Any]:
    """Return device, inode and boot. They distinguish a folder from its copies while the machine is up."""
    found = directory.stat()
    return [found.st_dev, found.st_ino, shim.boot_id()]


def _mark(container_id: str, origin: Sequence[Any]) -> str:
    """Return the mark of the container's processes. It holds the folder's identity, since a copied folder has the same
    container ID."""
    return f"{container_id}-{origin[0]:x}-{origin[1]:x}"


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


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
