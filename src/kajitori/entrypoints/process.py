"""Common parts of all processes: stop signals, error handling, and supervision of parts."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from kajitori.core.backoff import Backoff
from kajitori.entrypoints.garbage import reduce_garbage_collection
from kajitori.entrypoints.logs import LogOptions, begin_logging, is_json, log_end
from kajitori.errors import AlreadyExists, Conflict, KajitoriError
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.resources import NAMESPACES

log = logging.getLogger("kajitori")

GPU_TYPE_LABEL = "kajitori.dev/gpu-type"
RESTART_PAUSE_SECONDS = 1.0
RESTART_PAUSE_MAX_SECONDS = 30.0

Part = Callable[[asyncio.Event], Awaitable[None]]
"""A part of a process, which works until the event is set."""


def run_until_told(work: Coroutine[Any, Any, None], options: LogOptions, *, may_lead: bool = False) -> int:
    """Run one process's work and return its exit code.

    Errors for users are raised alone, never inside an exception group. If the log is JSON, they are logged instead.
    """
    begin_logging(options)
    reduce_garbage_collection()
    try:
        _run(work, may_lead=may_lead)
    except KajitoriError as error:
        if is_json():
            return log_end(error)
        raise
    except Exception:
        if is_json():
            log.critical("this is a bug in kaji", exc_info=True)
            return KajitoriError.exit_code
        raise
    return 0


def _run(work: Coroutine[Any, Any, None], *, may_lead: bool) -> None:
    try:
        run_loop(work, may_lead=may_lead)
    except BaseExceptionGroup as group:
        known, _ = group.split(KajitoriError)
        if known is not None:
            first: BaseException = known
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from group
        raise


def run_loop(work: Coroutine[Any, Any, None], *, may_lead: bool) -> None:
    """Run the event loop; asyncio's own if the process may lead, else uvloop.

    A leader must send a write right after it has checked that it still leads. uvloop buffers writes until the end of a
    loop iteration. A leader that is suspended before that would send a stale write when it resumes.
    """
    if may_lead:
        asyncio.run(work)
    else:
        uvloop.run(work)


def stop_signal() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


async def supervise(parts: Sequence[tuple[str, Part]], stop: asyncio.Event) -> None:
    """Run the parts until `stop` is set. A part that fails is restarted after a pause; a Conflict ends all parts."""
    async with asyncio.TaskGroup() as group:
        for name, part in parts:
            group.create_task(_kept_alive(name, part, stop), name=name)


async def _kept_alive(name: str, part: Part, stop: asyncio.Event) -> None:
    backoff = Backoff(RESTART_PAUSE_SECONDS, RESTART_PAUSE_MAX_SECONDS)
    while not stop.is_set():
        try:
            await part(stop)
            return
        except Conflict:
            raise  # another process does this work already, so a restart would not help
        except Exception as error:
            pause = backoff.next_seconds()
            if isinstance(error, KajitoriError):
                log.error("the %s stopped: %s; started again in %.0f s", name, error, pause)
            else:
                log.exception("the %s failed, which is a bug; started again in %.0f s", name, pause)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await stop.wait()


@asynccontextmanager
async def existing(kubeconfig: Path | None, context: str | None) -> AsyncIterator[KubeClient]:
    """Yield a client of an existing cluster: of the named kubeconfig, else kubectl's, else the one of this Pod."""
    async with KubeClient(KubeConfig.discover(kubeconfig, context)) as client:
        yield client


async def ensure_namespace(client: KubeClient, name: str) -> None:
    """Create the namespace if it is missing."""
    if name == "default":
        return
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    with contextlib.suppress(AlreadyExists):
        await client.create(NAMESPACES, body)


def node_name(text: str) -> str:
    """Return a valid node name made from a host name or a GPU type."""
    kept = "".join(char if char.isalnum() or char in "-." else "-" for char in text.lower()).strip("-.")
    return kept or f"node-{getpass.getuser()}"
