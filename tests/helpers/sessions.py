"""Connections to a run while servers are killed and connections break: an attached terminal, a forwarded port, and a
command."""

from __future__ import annotations

import os
import pty
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.harness.commands import Kaji, kaji
from tests.harness.waiting import PATIENCE_SECONDS, wait_until
from tests.helpers.counted import Following

PROGRAM = """
import itertools, socket, sys, threading, time
def serve(connection):
    with connection:
        while data := connection.recv(1000):
            connection.sendall(data.upper())
def listen():
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=listen, daemon=True).start()
print("port", server.getsockname()[1], flush=True)
typed = []
threading.Thread(target=lambda: typed.append(input()), daemon=True).start()
for number in itertools.count():
    print(f"<{number}>", flush=True)
    time.sleep(0.01)
    if typed:
        print("typed", typed[0], flush=True)
        sys.exit(6)
"""


class Attached(Following):
    """`kaji attach` in a terminal of its own."""

    def __init__(self, folder: Path, env: Mapping[str, str], run: str) -> None:
        self.keys, terminal = pty.openpty()
        self.out, self.err = folder / "attach.out", folder / "attach.err"
        with os.fdopen(terminal, "rb", 0) as keyboard, self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = Kaji(("attach", run), env, folder, (keyboard, out, err))

    def numbers(self) -> list[int]:
        return [int(number) for number in re.findall(r"<(\d+)>", self.out.read_text())]

    def goes_on(self) -> None:
        """Wait for a number that is not shown yet."""
        last = self.numbers()[-1:]
        wait_until(lambda: self.numbers()[-1:] != last, lambda: (self.out.read_text()[-300:], self.err.read_text()))


def assert_sessions_survive(
    folder: Path, env: Mapping[str, str], options: Sequence[str], breaks: Sequence[Callable[[], None]]
) -> None:
    """Start the run `sessions` with these options of `kaji run`, and call each of `breaks`: they kill servers and start
    them again, or break connections.

    After each, `kaji attach` has shown every line once, `kaji port-forward` takes new connections, and the command of
    `kaji exec` has ended with a message. What is typed then reaches the program.
    """
    asked = ("-dit", "--name", "sessions", "--cpus", "0.2", "-m", "64m", *options, "python:3")
    started = kaji("run", *asked, "python3", "-uc", PROGRAM, env=env, cwd=folder)
    assert started.returncode == 0, started.stderr
    said = wait_until(lambda: re.match(r"port (\d+)\s", kaji("logs", "sessions", env=env, cwd=folder).stdout))
    assert said is not None
    port = said[1]
    attached = Attached(folder, env, "sessions")
    forward = Following(folder, "forward", env, "port-forward", "sessions", f":{port}")
    followers: list[Following] = [attached, forward]
    try:
        wait_until(forward.out.read_text, forward.err.read_text)
        found = re.search(r"127\.0\.0\.1:(\d+) ->", forward.out.read_text())
        assert found is not None
        local = int(found[1])
        for number, break_off in enumerate(breaks):
            command = Following(folder, f"exec-{number}", env, "exec", "sessions", "sh", "-c", "echo in; sleep 1000")
            followers.append(command)
            wait_until(command.out.read_text, command.err.read_text)
            attached.goes_on()
            with connected(local) as connection:
                assert answer(connection) == b"WORD"
                break_off()
                connection.settimeout(PATIENCE_SECONDS)
                assert answer(connection) == b"", "a connection does not outlive the server"
            assert command.end(PATIENCE_SECONDS) == 125
            assert "the connection broke while the command ran" in command.err.read_text(), command.err.read_text()
            wait_until(lambda: _reaches(local), forward.err.read_text)
            attached.goes_on()
        os.write(attached.keys, b"something\r")
        assert attached.end(PATIENCE_SECONDS) == 6, attached.err.read_text()
        assert forward.end(PATIENCE_SECONDS) == 0, forward.err.read_text()
        numbers = attached.numbers()
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), (numbers, attached.err.read_text())
        assert "typed something" in attached.out.read_text()
        assert attached.err.read_text().count("attaching again") >= len(breaks)
    finally:
        os.close(attached.keys)
        for each in followers:
            each.process.kill()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)


def answer(connection: socket.socket) -> bytes:
    """Return the program's answer to a word; nothing if the connection has broken."""
    try:
        connection.sendall(b"word")
        return connection.recv(100)
    except ConnectionError:
        return b""


def _reaches(port: int) -> bool:
    with connected(port) as connection:
        return answer(connection) == b"WORD"
