"""One container of a Pod as the kubelet sees it: a folder, and the shim that holds its lock."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
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
from kajitori.embedded.kubelet.containers.control import Attachment, Execution
from kajitori.embedded.kubelet.shim import main as shim
from kajitori.embedded.kubelet.shim import tree
from kajitori.embedded.kubelet.shim.cgroups import Cgroup
from kajitori.embedded.kubelet.shim.connection import MESSAGE_BYTES
from kajitori.errors import Unavailable

CGROUPS_FILE = "cgroups.json"
ORIGIN_FILE = "origin.json"
"""The container's folder as it was when the container was started: device, inode, and the machine's boot. A copy of the
folder holds those of the original."""
MARKER_VARIABLE = "KAJITORI_CONTAINER"
"""In every process of a container: how its processes are found when the shim that was their parent was killed."""
_SHIM_COMMAND = "import sys; sys.path.append({folder!r}); " + shim.COMMAND_END


class ContainerState(msgspec.Struct, frozen=True):
    """What the shim wrote last. Times are seconds since 1970."""

    status: str
    shim_pid: int
    boot_id: str
    pid: int = 0
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int | None = None
    oom_killed: bool = False
    within_limit: bool = False
    """It was killed for memory though its own limit never stood in the way: the machine had none left."""
    peak_bytes: int = 0
    message: str = ""
    lost: bool = False
    """The shim itself was killed, or the machine restarted: how the program ended nobody knows."""

    @property
    def running(self) -> bool:
        return self.status == shim.RUNNING


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a container is started. The document with the environment goes through memory only: it may hold secrets."""

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
    """What the machine is called for the program, where it has a network of its own."""
    tty: bool = False
    stdin: bool = False

    def document(self, directory: Path, mark: str) -> dict[str, Any]:
        """Return what its shim is told, as JSON. All processes of the container carry the mark."""
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
        }


class Container:
    """A container whose folder exists. `launch` starts its shim, `adopt` finds out what became of one.

    The folder of one attempt is used once: a container that is started again gets the next number.
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

    def cpu_seconds(self) -> float:
        """Processor time since the start, in seconds: from a control group, else summed over the processes.

        Never less than an earlier answer. A process that ends while the sum is made is missing in it: its own line is
        gone by then, and its parent's was read before the parent inherited its time.
        """
        counted = next((used for group in self.cgroups() if (used := group.cpu_seconds()) is not None), None)
        if counted is None:
            counted = tree.cpu_seconds(self.state.shim_pid, self.pids())
        self._cpu_seconds_counted = max(self._cpu_seconds_counted, counted)
        return self._cpu_seconds_counted

    async def launch(self, launch: Launch) -> ContainerState:
        """Starts the program. Answers once it runs, or why it does not (`status` is then `failed`)."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.directory / CGROUPS_FILE).write_text(json.dumps([cgroup.as_document() for cgroup in launch.cgroups]))
        origin = _identity(self.directory)
        (self.directory / ORIGIN_FILE).write_text(json.dumps(origin))
        launch.log_path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        lock = os.open(self.directory / shim.LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        document = os.memfd_create("launch", os.MFD_CLOEXEC)
        report, shim_report = os.pipe2(os.O_CLOEXEC)
        try:
            # Held from before the shim exists until it is gone: whoever finds it free knows that nobody is there.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mark = _mark(self.container_id, origin)
            os.write(document, json.dumps(launch.document(self.directory, mark)).encode())
            os.lseek(document, 0, os.SEEK_SET)
            with (self.directory / "shim.err").open("wb") as errors:
                self._process = subprocess.Popen(  # noqa: ASYNC220 - a vfork, 2 ms
                    [sys.executable, "-I", "-S", "-c", _shim_program(), str(lock), str(self.directory.resolve())],
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
        """Takes over what an earlier kubelet started; False where nothing was ever started in this folder."""
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
        self._settle()
        return True

    async def stop(self, grace_seconds: float, number: int = signal.SIGTERM) -> None:
        """SIGTERM (or `number`) to the program now, SIGKILL to everything after the grace; the shim sees to it by
        itself.
        """
        await self._order({"do": "stop", "signal": int(number), "grace_seconds": grace_seconds})

    async def execute(self, argv: Sequence[str], stdio: Sequence[int], *, tty: bool = False) -> Execution:
        """Runs a command beside the program. `stdio` are three descriptors, or the terminal's one; they stay the
        caller's.

        Raises KajitoriError where it can't be started.
        """
        return await control.execute(self.directory, argv, stdio, tty=tty)

    async def attach(self, outputs: Sequence[int]) -> Attachment:
        """Copies what the program prints from now on to these descriptors: one with a terminal, else two. They stay
        the caller's; the copies close when the container has ended.

        Raises Unavailable if it has ended already.
        """
        return await control.attach(self.directory, outputs)

    async def close_stdin(self) -> None:
        """Ends the program's input for good, once all who are attached have let go of it."""
        await self._order({"do": "close_stdin"})

    def pids(self) -> list[int]:
        """The container's processes, without the shim."""
        return tree.descendants(self.state.shim_pid) if self._pidfd is not None else []

    def memory_cgroup(self) -> Cgroup | None:
        """The control group that counts its memory, where there is one."""
        return next((cgroup for cgroup in self.cgroups() if cgroup.counts_memory), None)

    def cgroups(self) -> list[Cgroup]:
        """The control groups that were made for it."""
        try:
            return [Cgroup.from_document(one) for one in json.loads((self.directory / CGROUPS_FILE).read_bytes())]
        except (OSError, ValueError):
            return []

    def close(self) -> None:
        """Looks away; the shim goes on by itself."""
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
        self._settle()

    def _settle(self) -> None:
        """Reads the end from the state file; where there is none, cleans up behind a shim that was killed."""
        state = self._read_state()
        if state is None or state.running:
            self._kill_leftovers()
            rebooted = state is not None and state.boot_id != shim.boot_id()
            said = _last_line(self.directory / "shim.err")
            state = ContainerState(
                status=shim.EXITED if state else shim.FAILED,
                shim_pid=0,
                boot_id=state.boot_id if state else "",
                pid=state.pid if state else 0,
                started_at=state.started_at if state else 0.0,
                finished_at=_modified(self.directory),
                exit_code=137 if state else 128,
                message="the machine restarted" if rebooted else f"the container's shim was killed {said}".strip(),
                lost=True,
            )
        self.state = state
        self.ended.set()
        self.on_ended()

    def _kill_leftovers(self) -> None:
        """Kill the processes that a killed shim left, and remove their control groups.

        A copy of a data folder names the original's processes and groups: it touches neither.
        """
        origin = self._origin()
        if origin is not None and origin != _identity(self.directory):
            return
        # Without an origin this may be a copy, too. Then what a shim still attends to belongs to the original.
        attended = attended_processes() if origin is None else set()
        groups = [group for group in self.cgroups() if attended.isdisjoint(group.pids())]
        for group in groups:
            if not group.kill():
                tree.kill_all(group.pids())
        tree.kill_all(set(marked_processes(self.mark)) - attended)
        for group in groups:
            group.remove()

    @property
    def mark(self) -> str:
        """The value that all its processes have in their environment, once it was started."""
        origin = self._origin()
        return self.container_id if origin is None else _mark(self.container_id, origin)

    def _origin(self) -> list[Any] | None:
        """The folder's identity at the start; None for containers that earlier versions of Kajitori started."""
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
        """The pid of the shim that holds the lock; None where nobody does."""
        for _ in range(200):
            if not self._is_locked():
                return None
            with contextlib.suppress(OSError, ValueError):
                return int((self.directory / shim.LOCK_FILE).read_text())
            await asyncio.sleep(0.01)  # it has only just been started and has not written its number yet
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

    # Talking to it

    async def _order(self, order: Mapping[str, Any]) -> None:
        connection = await self._connect_while_it_lives()
        if connection is None:
            return  # it has ended meanwhile, which is what any order wants
        try:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(connection, json.dumps(order).encode())
            await loop.sock_recv(connection, MESSAGE_BYTES)
        except OSError:
            pass
        finally:
            connection.close()

    async def _connect_while_it_lives(self) -> socket.socket | None:
        """A shim that was adopted as soon as it was started does not listen yet: an order must not be lost by that."""
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


def attended_processes() -> set[int]:
    """Return the shims that live on this machine, of whatever folder, and all processes below them."""
    found: set[int] = set()
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
                words = os.fsdecode(file.read()).split("\0")[:-1]
                if len(words) > 2 and words[-3].endswith(shim.COMMAND_END):
                    found.update((int(entry), *tree.descendants(int(entry))))
    return found


def _identity(directory: Path) -> list[Any]:
    """Device, inode and boot: tell a folder from its copies for as long as the machine is up."""
    found = directory.stat()
    return [found.st_dev, found.st_ino, shim.boot_id()]


def _mark(container_id: str, origin: Sequence[Any]) -> str:
    """Names the container's processes: those of a copied folder run under the same id."""
    return f"{container_id}-{origin[0]:x}-{origin[1]:x}"


def _shim_program() -> str:
    return _SHIM_COMMAND.format(folder=str(Path(shim.__file__).parent.parent))


async def _read_all(fd: int) -> None:
    """Waits until the shim has said that the program runs, or has closed its end."""
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
