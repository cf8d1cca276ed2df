"""py-spy as a child process: the threads of a Python process, read from outside."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sysconfig
import threading
import time
from collections.abc import Sequence

import msgspec

from kajitori.core.telemetry.hangs import native
from kajitori.core.telemetry.hangs.stacks import MAX_TEXT, Detail, Frame, ThreadStack

MAX_OUTPUT_BYTES = 4 << 20
"""Most output of py-spy that is read. A program cannot make the agent read more."""


class _SpyLocal(msgspec.Struct):
    name: str = ""
    repr: str | None = None


class _SpyFrame(msgspec.Struct):
    name: str = ""
    filename: str = ""
    line: int = 0
    module: str | None = None
    """The library; None for Python's frames."""
    locals: list[_SpyLocal] | None = None


class _SpyThread(msgspec.Struct):
    thread_name: str | None = None
    active: bool = False
    frames: list[_SpyFrame] = []


_decode = msgspec.json.Decoder(list[_SpyThread]).decode


def dump(
    pid: int, seconds: float, detail: Detail = Detail.PLAIN, *, nonblocking: bool = False
) -> tuple[ThreadStack, ...]:
    """Return the threads of a Python process. With `nonblocking` the process is not stopped meanwhile.

    Raises TimeoutError, or another OSError if it is no Python process, or cannot be read in this way.
    """
    until = time.monotonic() + seconds
    try:
        return _dump(pid, seconds, detail, nonblocking=nonblocking)
    except OSError:
        left = until - time.monotonic()
        if nonblocking or left <= 0 or detail is Detail.NATIVE:  # native frames can only be read while it is stopped
            raise
        return _dump(pid, left, detail, nonblocking=True)  # a debugger traces the process, or it was stopped just now


_OPTIONS = {Detail.PLAIN: (), Detail.NATIVE: ("--native",), Detail.VALUES: ("--locals",)}


def _dump(pid: int, seconds: float, detail: Detail, *, nonblocking: bool) -> tuple[ThreadStack, ...]:
    options = [*_OPTIONS[detail], *(["--nonblocking"] if nonblocking else [])]
    command = [_program_path(), "dump", "--json", "--pid", str(pid), *options]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"RUST_BACKTRACE": "0"}
    ) as spy:
        assert spy.stdout is not None and spy.stderr is not None
        is_late = threading.Event()

        def give_up() -> None:
            is_late.set()
            spy.kill()

        timer = threading.Timer(seconds, give_up)
        timer.start()
        try:
            told = spy.stdout.read(MAX_OUTPUT_BYTES)
            complaint = spy.stderr.read(MAX_TEXT)
        finally:
            timer.cancel()
            spy.kill()
    if spy.returncode == 0:
        with contextlib.suppress(msgspec.MsgspecError):
            return tuple(_stack_of(each) for each in _decode(told))
    if is_late.is_set():
        raise TimeoutError(f"py-spy took longer than {seconds:.0f} s")
    lines = complaint.decode(errors="replace").splitlines()
    raise OSError(lines[0] if lines else f"py-spy ended with {spy.returncode}")


def _stack_of(each: _SpyThread) -> ThreadStack:
    frames = tuple(native.merged(map(_frame_of, each.frames)))
    return ThreadStack(each.thread_name or "", frames, each.active, _locals_fingerprint(each.frames))


def _frame_of(frame: _SpyFrame) -> Frame:
    if frame.module is not None:
        return native.named(frame.name, frame.module)
    return Frame(frame.name, frame.filename, frame.line)


def _locals_fingerprint(frames: Sequence[_SpyFrame]) -> int:
    """Return a number that changes with the values of the local variables. It does not disclose them, because Python
    hashes text with a secret of the agent's process."""
    if all(frame.locals is None for frame in frames):
        return 0
    return hash(tuple((each.name, each.repr) for frame in frames for each in frame.locals or ())) or 1


def _program_path() -> str:
    """Return py-spy's path. Raises FileNotFoundError without it."""
    found = shutil.which("py-spy", path=sysconfig.get_path("scripts")) or shutil.which("py-spy")
    if found is None:
        raise FileNotFoundError("py-spy is not installed on the node")
    return found
