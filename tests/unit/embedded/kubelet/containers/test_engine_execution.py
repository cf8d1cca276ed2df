"""Commands beside the program of an engine's container: what they print, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Any, cast

import pytest
from tests.unit.embedded.kubelet.conftest import alive, until

from kajitori.embedded.kubelet.containers.control import CommandNotStarted
from kajitori.embedded.kubelet.containers.engine_execution import EngineExecution
from kajitori.embedded.kubelet.engine.client import EngineClient
from kajitori.embedded.kubelet.shim import tree

REFUSED = b'OCI runtime exec failed: exec failed: unable to start container process: exec: "x": %s: unknown\r\n'


class Ended:
    """An engine whose command has ended with this exit code."""

    def __init__(self, code: int) -> None:
        self._code = code

    async def exec_state(self, identifier: str) -> dict[str, Any]:
        return {"Running": False, "ExitCode": self._code}


class Connection:
    def close(self) -> None:
        return None


def frame(stream: int, data: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


async def outcome(code: int, *sent: bytes) -> tuple[int, bytes, bytes]:
    """Return exit code, standard output and standard error of a command of which the engine sends these frames."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"".join(sent))
    reader.feed_eof()
    null = os.open(os.devnull, os.O_RDONLY)
    pipes = [os.pipe(), os.pipe()]
    try:
        streams = (reader, cast(asyncio.StreamWriter, Connection()))
        stdio = (null, *(write for _, write in pipes))
        client = cast(EngineClient, Ended(code))
        execution = EngineExecution(client, "e", streams, stdio, tty=False, reads_input=False)
        ended = await execution.wait()
        for _, write in pipes:
            os.close(write)
        out, wrong = (os.read(read, 1000) for read, _ in pipes)
        return ended, out, wrong
    finally:
        os.close(null)
        for read, _ in pipes:
            os.close(read)


async def test_output_and_exit_code_are_those_of_the_command() -> None:
    assert await outcome(3, frame(1, b"out"), frame(2, b"wrong")) == (3, b"out", b"wrong")


@pytest.mark.parametrize(
    ("reason", "code"), [(b"executable file not found in $PATH", 127), (b"permission denied", 126)]
)
@pytest.mark.parametrize("told", [126, 127])
async def test_a_command_that_docker_can_not_start_has_a_shells_exit_code(reason: bytes, code: int, told: int) -> None:
    """Docker answers before it starts the command, and then sends its reason as the command's output; the exit code
    that it tells depends on its version."""
    with pytest.raises(CommandNotStarted, match=reason.decode().replace("$", ".")) as raised:
        await outcome(told, frame(1, REFUSED % reason))
    assert raised.value.program_exit_code == code


async def test_a_program_may_print_what_docker_would() -> None:
    words = b"OCI runtime exec failed"
    assert await outcome(0, frame(1, words)) == (0, words, b"")
    assert await outcome(126, frame(1, words), frame(2, b"!")) == (126, words, b"!")


class Running:
    """An engine whose command is this process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    async def exec_state(self, identifier: str) -> dict[str, Any]:
        return {"Running": True, "ExitCode": None, "Pid": self._pid}


async def test_a_command_ends_with_the_processes_that_it_started() -> None:
    """Engines end its first process alone, so that each health check that hung left one behind. A process with streams
    of its own goes on, as in a container of the process kubelet."""
    script = "sleep 1000 & echo $!; sleep 1000 >/dev/null 2>&1 & echo $!; wait"
    pipe = asyncio.subprocess.PIPE
    command = await asyncio.create_subprocess_exec("/bin/sh", "-c", script, stdout=pipe, start_new_session=True)
    null = os.open(os.devnull, os.O_RDWR)
    assert command.stdout is not None
    child, daemon = int(await command.stdout.readline()), int(await command.stdout.readline())
    try:
        await until(lambda: tree.streams_of(daemon) == {tree.file_of(null)})
        streams = (asyncio.StreamReader(), cast(asyncio.StreamWriter, Connection()))
        client = cast(EngineClient, Running(command.pid))
        execution = EngineExecution(client, "e", streams, (null, null, null), tty=False, reads_input=False)
        execution.close()
        await until(lambda: not alive(command.pid))
        await until(lambda: not alive(child))
        assert alive(daemon)
    finally:
        for pid in (command.pid, child, daemon):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        await command.wait()
        os.close(null)
