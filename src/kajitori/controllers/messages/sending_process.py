"""Starts the process that sends messages when there is something to send, and ends it when there is nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import msgspec

from kajitori.cluster.objects import Node
from kajitori.core.policy.notifications import Notifications
from kajitori.messages.guard import CERTIFICATE_VARIABLES, Rules
from kajitori.messages.sender import Delivery, Receipt

log = logging.getLogger(__name__)

ANSWER_SECONDS = 60.0
"""A process that does not answer for this long is killed."""
IDLE_SECONDS = 60.0
"""After this time without a delivery the process ends: it takes some eighty megabytes."""
_LINE_LIMIT = 1 << 20


def delivery_rules(policy: Notifications, nodes: Iterable[Node], api_server: str) -> Rules:
    """Return where messages may go. Public addresses of nodes, Pods and the API server are the cluster's own."""
    own = {address.address for node in nodes for address in node.status.addresses}
    own |= {cidr for node in nodes for cidr in node.spec.pod_cidrs}
    own |= {urlsplit(api_server).hostname or "", os.environ.get("KUBERNETES_SERVICE_HOST", "")}
    return Rules(
        schemes=tuple(policy.schemes),
        hosts=tuple(policy.hosts),
        networks=tuple(policy.networks),
        denied=(*policy.denied_networks, *sorted(filter(_is_public, own))),
        proxy=policy.proxy,
        no_proxy=tuple(policy.no_proxy),
    )


def _is_public(text: str) -> bool:
    """Whether the text is a public network or address. All others are denied without being named."""
    try:
        return ipaddress.ip_network(text, strict=False).is_global
    except ValueError:
        return False


class _Process:
    """A child process, with the deliveries that it has not answered yet."""

    def __init__(self, process: asyncio.subprocess.Process, rules: Rules) -> None:
        self.rules = rules
        self.waiting: dict[int, asyncio.Future[Receipt]] = {}
        self._process = process
        self._reading = asyncio.create_task(self._read_receipts())

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None and not self._reading.done()

    def write(self, content: msgspec.Struct) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(content) + b"\n")

    async def _read_receipts(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                receipt = msgspec.json.decode(line, type=Receipt)
                future = self.waiting.pop(receipt.number, None)
                if future is not None and not future.done():
                    future.set_result(receipt)
        finally:
            for number, future in self.waiting.items():
                if not future.done():
                    future.set_result(Receipt(number=number, error="the sending process ended"))

    async def end(self) -> None:
        """Kill the process and wait until it is gone."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._reading.cancel()
        await asyncio.gather(self._reading, self._process.wait(), return_exceptions=True)


class SendingProcess:
    """Sends deliveries through a child process, which is started when it is needed. Several may be sent at once."""

    def __init__(self, rules: Callable[[], Rules], command: tuple[str, ...] = ()) -> None:
        """`rules` returns the present rules; `command` replaces that of the process."""
        self._rules = rules
        self._command = command or (sys.executable, "-I", "-m", "kajitori.messages.sender")
        self._numbers = itertools.count()
        self._process: _Process | None = None
        self._starting = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def send(self, delivery: Delivery) -> Receipt:
        """Send a delivery and return its receipt. It may have been delivered although the receipt says that it was not;
        then the caller sends it again with the same id."""
        try:
            process = await self._running_process()
        except OSError as error:
            return Receipt(number=delivery.number, error=f"the sending process does not start: {error.strerror}")
        delivery = msgspec.structs.replace(delivery, number=next(self._numbers))
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        process.waiting[delivery.number] = future
        process.write(delivery)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await future
        except TimeoutError:
            await self._end_process(process)
            return Receipt(number=delivery.number, error=f"no answer within {ANSWER_SECONDS:.0f} s")
        finally:
            process.waiting.pop(delivery.number, None)
            self._end_when_idle()

    async def _running_process(self) -> _Process:
        """Return a running process that has the present rules."""
        async with self._starting:
            rules, process = self._rules(), self._process
            if process is not None and process.is_alive and process.rules == rules:
                return process
            if process is not None:
                await self._end_process(process)
            environment = {name: os.environ[name] for name in CERTIFICATE_VARIABLES if name in os.environ}
            pipe = asyncio.subprocess.PIPE
            started = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=asyncio.subprocess.DEVNULL,
                env=environment,
                limit=_LINE_LIMIT,
                start_new_session=True,
            )
            self._process = _Process(started, rules)
            self._process.write(rules)
            return self._process

    def _end_when_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._process is not None and not self._process.waiting:
            task = asyncio.create_task(self._end_process(self._process))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def _end_process(self, process: _Process) -> None:
        if self._process is process:
            self._process = None
        await process.end()

    async def close(self) -> None:
        """End the process. The next leader sends the unfinished deliveries again."""
        if self._idle is not None:
            self._idle.cancel()
        if self._process is not None:
            await self._end_process(self._process)
