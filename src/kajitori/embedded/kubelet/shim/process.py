"""Forks a process into the container: the program itself, or a command beside it (exec, probes, hooks)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import termios

# Modules that os.execvpe would import in the child, which already has the container's file system.
import warnings as warnings

from . import mounts, syscalls
from .cgroups import Cgroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

NOT_FOUND = 127
NOT_EXECUTABLE = 126


class StartFailure(Exception):
    """The program could not be started. `exit_code` is a shell's: 127 for not found, 126 for not executable."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class Identity:
    """Attributes that the program of a container shares with the commands that run beside it."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.environment: dict[str, str] = document["environment"]
        self.working_dir: str = document["working_dir"]
        self.uid: int | None = document["uid"]
        self.gid: int | None = document["gid"]
        self.groups: list[int] = document["groups"]
        self.umask: int = document["umask"]
        self.open_files: int = document["open_files"]
        self.oom_score_adjustment: int | None = document["oom_score_adjustment"]
        self.cgroups = [Cgroup.from_document(group) for group in document["cgroups"]]
        self.network_namespace: str = document["network_namespace"]
        self.host_name: str = document["host_name"]
        self.mount_namespace: Mapping[str, Any] | None = document["mount_namespace"]


def start(
    identity: Identity,
    argv: Sequence[str],
    stdio: tuple[int, int, int],
    *,
    tty: bool,
    beside: int | None,
    dies_with_us: bool,
) -> int:
    """Fork and execute `argv` as the leader of a new session. Return the identifier of the new process.

    `stdio` are the descriptors that become 0, 1 and 2; with `tty` the first is the controlling terminal. `beside` is
    the identifier of the container's program, whose namespaces are joined; None creates new ones. Raises StartFailure.
    """
    report_read, report_write = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become_program(identity, argv, stdio, report_write, tty, beside, parent if dies_with_us else 0)
    os.close(report_write)
    with open(report_read, "rb") as report:
        report_bytes = report.read()
    if report_bytes:
        os.waitpid(pid, 0)
        failure = json.loads(report_bytes)
        raise StartFailure(failure["message"], failure["exit_code"])
    return pid


def _become_program(
    identity: Identity,
    argv: Sequence[str],
    stdio: tuple[int, int, int],
    report: int,
    tty: bool,
    beside: int | None,
    parent: int,
) -> None:
    """Become the program. Never returns."""
    step = "start"
    try:
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            # Two signals can't be set, and neither can the C library's real-time signals.
            with contextlib.suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        step = "cgroup"
        for cgroup in identity.cgroups:
            cgroup.join()
        step = "standard streams"
        if tty:
            fcntl.ioctl(stdio[0], termios.TIOCSCTTY, 0)
        # Copy the descriptors above 2 first, since a source may itself be 0, 1 or 2.
        for target, source in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in stdio]):
            os.dup2(source, target, inheritable=True)
        _apply_limits(identity)
        _enter_namespaces(identity, beside)
        step = "user"
        if identity.gid is not None:
            os.setgroups(identity.groups)
            os.setresgid(identity.gid, identity.gid, identity.gid)
        if identity.uid is not None:
            os.setresuid(identity.uid, identity.uid, identity.uid)
        os.umask(identity.umask)
        step = f"working directory {identity.working_dir}"
        os.chdir(identity.working_dir)
        if parent:
            # After the change of user, which would clear it.
            syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(137)
        step = f"program {argv[0]}"
        # As container runtimes do: an editor or a pager needs to know the terminal's type.
        environment = {"TERM": "xterm", **identity.environment} if tty else identity.environment
        os.execvpe(argv[0], list(argv), environment)
    except BaseException as error:
        _report(report, step, argv[0], error)
    finally:
        os._exit(NOT_FOUND)


def _apply_limits(identity: Identity) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = identity.open_files if hard == resource.RLIM_INFINITY else min(identity.open_files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if identity.oom_score_adjustment is not None:
        # Lowering the value takes a privilege; without it, the process keeps its value.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(identity.oom_score_adjustment))


def _enter_namespaces(identity: Identity, beside: int | None) -> None:
    if identity.network_namespace:
        syscalls.enter(identity.network_namespace, syscalls.CLONE_NEWNET)
        if beside is not None:
            syscalls.enter(f"/proc/{beside}/ns/uts", syscalls.CLONE_NEWUTS)
        # The machine's own name resolves to the machine, so MPI would give other members a wrong address.
        else:
            syscalls.unshare(syscalls.CLONE_NEWUTS)
            syscalls.set_host_name(identity.host_name)
    if identity.mount_namespace is None:
        return
    if beside is not None:
        mounts.join(beside, bool(identity.mount_namespace["user_namespace"]))
    else:
        mounts.enter(identity.mount_namespace, os.getuid(), os.getgid())


def _report(report: int, step: str, program: str, error: BaseException) -> None:
    code = NOT_FOUND
    number = error.errno if isinstance(error, OSError) else None
    if step.startswith("program"):
        if number in (errno.EACCES, errno.ENOEXEC, errno.EISDIR, errno.EPERM):
            code = NOT_EXECUTABLE
            message = f'exec: "{program}": {error.strerror if isinstance(error, OSError) else error}'
        elif number == errno.ENOENT and "/" not in program:
            message = f'exec: "{program}": executable file not found in $PATH'
        else:
            message = f'exec: "{program}": {error.strerror if isinstance(error, OSError) else error}'
    else:
        code = 128
        message = f"{step}: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
    os.write(report, json.dumps({"message": message, "exit_code": code}).encode())
