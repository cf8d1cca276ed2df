"""Run a small command in a container for a caller, with the caller's credentials, and read its output."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kajitori.api.context import Api
from kajitori.api.lookup import find_run
from kajitori.api.rights import User
from kajitori.api.runs.members.streams import running_pod
from kajitori.cluster.objects import Pod
from kajitori.core.naming import names
from kajitori.errors import Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import PODS
from kajitori.kube.streams import Channel, ExecStream

ANSWER_SECONDS = 20.0
MAX_OUTPUT_BYTES = 8 << 20
_MAX_COMPLAINTS = 2000


@dataclass(frozen=True, slots=True)
class Container:
    """A container that runs, and a client with the caller's credentials."""

    client: KubeClient
    pod: Pod
    name: str


@dataclass(slots=True)
class Output:
    """The output of a command, and its exit code."""

    text: bytes
    complaints: str
    exit_code: int | None

    @property
    def why(self) -> str:
        """Why the command failed: its last words, or its exit code."""
        return self.complaints or f"exit code {self.exit_code}"


async def member_container(api: Api, user: User, namespace: str, name: str, rank: int) -> Container:
    """Return the container of a run's member. Raises Forbidden unless the caller may run programs there."""
    run = await find_run(api, user, namespace, name)
    await user.require("create", namespace, resource=PODS, subresource="exec")
    pod = await running_pod(api, user, run, rank)
    return Container(user.client, pod, names.MEMBER_CONTAINER)


@asynccontextmanager
async def program(container: Container, command: Sequence[str], *, stdin: bool = False) -> AsyncIterator[ExecStream]:
    """Run a command in a container while the context lasts."""
    meta = container.pod.metadata
    opened = await container.client.open_exec(
        meta.namespace, meta.name, command=command, container=container.name, stdin=stdin
    )
    async with opened:
        yield opened


async def output_of(container: Container, command: Sequence[str]) -> Output:
    """Run a command to its end. Raises Unavailable if it prints more than MAX_OUTPUT_BYTES or takes longer than
    ANSWER_SECONDS, as in a member that was paused."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS), program(container, command) as running:
            return await rest_of(running)
    except TimeoutError:
        message = f"the member gave no answer within {ANSWER_SECONDS:.0f} s"
        raise Unavailable(message, hint="its processes may be paused or hang") from None


async def rest_of(running: ExecStream) -> Output:
    """Read a command's output to its end."""
    text, complaints = bytearray(), b""
    async for channel, payload in running:
        if channel == Channel.STDOUT:
            text += payload
            if len(text) > MAX_OUTPUT_BYTES:
                raise Unavailable("the member's answer is too long")
        else:
            complaints = (complaints + payload)[-_MAX_COMPLAINTS:]
    return Output(bytes(text), last_words(complaints) or running.message, running.exit_code)


async def pieces_of(running: ExecStream, failed: str) -> AsyncGenerator[bytes, None]:
    """Yield a command's output. Raises Unavailable with `failed` and the command's last words if it fails."""
    complaints = b""
    async for channel, payload in running:
        if channel == Channel.STDOUT:
            yield payload
        else:
            complaints = (complaints + payload)[-_MAX_COMPLAINTS:]
    if running.exit_code != 0:
        raise Unavailable(f"{failed}: {last_words(complaints) or running.message}", hint="try again")


async def first_line(output: AsyncGenerator[bytes, None], most_bytes: int) -> tuple[bytes, AsyncGenerator[bytes, None]]:
    """Return the first line of an output, and the bytes after it. Raises Unavailable if there is none."""
    head, rest = b"", b""
    async for chunk in output:
        head, newline, rest = (head + chunk).partition(b"\n")
        if newline:
            return head, _joined(rest, output)
        if len(head) > most_bytes:
            raise Unavailable("the member's answer is too long")
    raise Unavailable("the member gave no answer", hint="try again")


async def _joined(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    if first:
        yield first
    async for chunk in rest:
        yield chunk


def last_words(complaints: bytes) -> str:
    """Return the last line that a command wrote to its standard error."""
    return complaints.decode(errors="replace").strip().rpartition("\n")[2]
