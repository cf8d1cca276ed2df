"""Attaching to a container's program: copies of its output, its input, slow readers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.embedded.kubelet.conftest import BOUND_SECONDS, Bench, alive, until

from kajitori.embedded.kubelet.containers import control
from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.execution import STDERR, STDOUT, RemoteAttachment, RemoteCommand
from kajitori.embedded.kubelet.shim.attachment import PENDING_BYTES, STALLED_SECONDS, Attachment
from kajitori.errors import Unavailable


class Client:
    """Collects the output of a remote. While `reads` is not set, it does not read."""

    def __init__(self) -> None:
        self.got = {STDOUT: b"", STDERR: b""}
        self.reads = asyncio.Event()
        self.reads.set()

    async def send(self, channel: int, data: bytes) -> None:
        await self.reads.wait()
        self.got[channel] += data

    def attach(self, container: Container, **options: bool) -> RemoteAttachment:
        chosen = {"once": False, "stdin": False, "stderr": True, "tty": False} | options
        return RemoteAttachment(container, send=self.send, **chosen)


async def finished(running: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
    return await asyncio.wait_for(running, BOUND_SECONDS)


async def test_each_attached_client_gets_a_copy_to_the_end(bench: Bench) -> None:
    """Each gets what the program prints after it has attached, on both streams. The log has all of it."""
    container, clients = bench.container(), [Client(), Client()]
    script = "read a; echo $a; read b; echo $b; read c; echo oops >&2; printf $c"
    await container.launch(bench.shell(script, stdin=True))
    running = []
    for client, word in zip(clients, ("a", "b"), strict=True):
        remote = client.attach(container, stdin=True)
        running.append(asyncio.create_task(remote.run()))
        await remote.feed(f"{word}\n".encode())
        await until(lambda client=client, word=word: word.encode() in client.got[STDOUT])  # type: ignore[misc]
    await remote.feed(b"c\n")
    for task in running:
        assert (await finished(task))["status"] == "Success"
    assert clients[0].got == {STDOUT: b"a\nb\nc", STDERR: b"oops\n"}
    assert clients[1].got == {STDOUT: b"b\nc", STDERR: b"oops\n"}
    assert sorted(bench.text().split()) == ["a", "b", "c", "oops"]


async def test_with_stdin_once_input_ends_with_the_first_client(bench: Bench) -> None:
    container, client = bench.container(), Client()
    await container.launch(bench.shell("cat; echo end", stdin=True))
    remote = client.attach(container, stdin=True, once=True)
    running = asyncio.create_task(remote.run())
    await remote.feed(b"typed\n")
    await remote.close_stdin()
    await finished(running)
    assert client.got[STDOUT] == b"typed\nend\n"


async def test_input_stays_open_after_one_client_has_left(bench: Bench) -> None:
    """The program of a Pod without `stdinOnce` does not see the end."""
    container = bench.container()
    await container.launch(bench.shell("read a; echo $a; read b; echo $b", stdin=True))
    for word in (b"one\n", b"two\n"):
        client = Client()
        remote = client.attach(container, stdin=True)
        running = asyncio.create_task(remote.run())
        await remote.feed(word)
        await remote.close_stdin()
        await until(lambda client=client, word=word: client.got[STDOUT] == word)  # type: ignore[misc]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    assert container.state.exit_code == 0


async def test_a_terminal_can_be_resized_before_it_exists(bench: Bench) -> None:
    container, client = bench.container(), Client()
    await container.launch(bench.shell("read x; stty size", stdin=True, tty=True))
    remote = client.attach(container, stdin=True, tty=True)
    remote.resize(json.dumps({"Width": 100, "Height": 40}).encode())
    running = asyncio.create_task(remote.run())
    await remote.feed(b"\n")
    await finished(running)
    assert b"40 100" in client.got[STDOUT]


async def test_a_slow_reader_pauses_the_program_and_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program continues as soon as the client reads again, or has left."""
    container, clients = bench.container(), [Client(), Client()]
    size = 4 * PENDING_BYTES
    program = (
        "import sys\n"
        "for _ in range(2):\n"
        "    sys.stdin.readline()\n"
        f"    sys.stdout.write('x' * 1023 + '\\n'); sys.stdout.write(('y' * 1023 + '\\n') * {size // 1024})\n"
        "    sys.stdout.flush()\n"
    )
    await container.launch(bench.python(program, stdin=True))
    remotes = [client.attach(container, stdin=True) for client in clients]
    attached: list[object] = []
    attach = container.attach

    async def attach_and_count(outputs: Sequence[int]) -> control.Attachment:
        attached.append(made := await attach(outputs))
        return made

    monkeypatch.setattr(container, "attach", attach_and_count)
    running = [asyncio.create_task(remote.run()) for remote in remotes]
    await until(lambda: len(attached) == len(remotes), "both clients attached, before the program prints")
    clients[1].reads.clear()
    await remotes[0].feed(b"\n")
    await until(lambda: clients[0].got[STDOUT])
    clients[1].reads.set()
    await until(lambda: all(len(client.got[STDOUT]) == size + 1024 for client in clients))
    clients[1].reads.clear()
    await remotes[0].feed(b"\n")
    await until(lambda: len(clients[0].got[STDOUT]) > size + 1024)
    running[1].cancel()
    await finished(running[0])
    assert len(clients[0].got[STDOUT]) == 2 * (size + 1024)
    await asyncio.gather(*running, return_exceptions=True)


def test_a_stalled_remote_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a program would wait for ever for a connection that hangs."""
    read, write = os.pipe()
    attached = Attachment({"stdout": write})
    assert attached.write("stdout", b"x" * PENDING_BYTES)
    assert attached.waiting_for == [write]
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + STALLED_SECONDS + 1)
    assert not attached.flush()
    assert os.read(read, PENDING_BYTES)
    assert attached.flush(), "it has taken something: it gets more time"
    os.close(read)
    assert not attached.flush(), "its other end is closed"
    attached.close()


async def test_attaching_to_an_ended_container_fails(bench: Bench) -> None:
    container = bench.container()
    await container.launch(bench.shell("exit 0"))
    await asyncio.wait_for(container.ended.wait(), BOUND_SECONDS)
    with pytest.raises(Unavailable, match="has ended"):
        await container.attach([1, 2])
    assert (await Client().attach(container).run())["status"] == "Failure"


async def test_a_slow_client_gets_all_output_of_a_command(bench: Bench) -> None:
    """The rest of the output stays in the pipes after the command's end until the client reads it."""
    container, client = bench.container(), Client()
    await container.launch(bench.launch("sleep", "1000"))
    size = 64 * 1024 + 5000
    argv = [sys.executable, "-I", "-S", "-c", f"print('x' * {size}, end='')"]
    remote = RemoteCommand(container, argv, stdin=False, stderr=True, tty=False, send=client.send)
    client.reads.clear()
    running = asyncio.create_task(remote.run())
    await asyncio.wait({running}, timeout=1.5)  # the limit was once a second
    client.reads.set()
    assert (await finished(running))["status"] == "Success"
    assert len(client.got[STDOUT]) == size


async def test_a_command_ends_though_its_child_keeps_its_output_open(bench: Bench) -> None:
    container, client = bench.container(), Client()
    await container.launch(bench.launch("sleep", "1000"))
    argv = ["/bin/sh", "-c", "sleep 1000 & echo $!"]
    remote = RemoteCommand(container, argv, stdin=False, stderr=True, tty=False, send=client.send)
    assert (await asyncio.wait_for(remote.run(), BOUND_SECONDS))["status"] == "Success"
    assert alive(int(client.got[STDOUT]))
