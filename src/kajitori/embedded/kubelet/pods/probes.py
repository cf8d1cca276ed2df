"""Startup, liveness and readiness probes of one container, and the checks that hooks share with them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from kajitori.embedded.kubelet.containers.container import Container
from kajitori.embedded.kubelet.containers.environment import expand
from kajitori.embedded.kubelet.pods.records import ProbeResults
from kajitori.errors import KajitoriError

Check = Callable[[Mapping[str, Any]], Awaitable[str | None]]
"""Performs a handler (`exec`, `httpGet`, `tcpSocket`). Returns None on success, else what went wrong."""
OUTPUT_BYTES = 1024
READ_BYTES = 64 * 1024


@dataclass(frozen=True)
class Pace:
    """Timing and thresholds of a probe, with Kubernetes' defaults."""

    initial_delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    success_threshold: int
    failure_threshold: int

    @classmethod
    def of(cls, probe: Mapping[str, Any]) -> Pace:
        return cls(
            float(probe.get("initialDelaySeconds") or 0),
            float(probe.get("periodSeconds") or 10),
            float(probe.get("timeoutSeconds") or 1),
            int(probe.get("successThreshold") or 1),
            int(probe.get("failureThreshold") or 3),
        )


class ContainerProbes:
    """Runs the probes of one attempt. `started` and `ready` are their current results; `changed` is called when they
    change."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        check: Check,
        changed: Callable[[], None],
        unhealthy: Callable[[str, str], None],
        failed: Callable[[str, str], None],
        known: ProbeResults | None = None,
    ) -> None:
        """`unhealthy(probe, message)` is called on every failure, and `failed(probe, message)` when the startup or
        liveness probe has reached its threshold. `known` are the results of an earlier kubelet for this attempt, which
        hold until the next probe."""
        self._spec = spec
        self._check = check
        self._changed = changed
        self._unhealthy = unhealthy
        self._failed = failed
        self.started = not spec.get("startupProbe") or (known is not None and known.started)
        self.ready = self.started and (not spec.get("readinessProbe") or (known is not None and known.ready))
        self._task: asyncio.Task[None] | None = None
        if any(spec.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness")):
            self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        self.ready = False
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        if not self.started:
            if not await self._until_settled("startup", self._spec["startupProbe"]):
                return
            self.started = True
            self.ready = not self._spec.get("readinessProbe")
            self._changed()
        async with asyncio.TaskGroup() as group:
            if self._spec.get("livenessProbe"):
                group.create_task(self._until_settled("liveness", self._spec["livenessProbe"], goes_on=True))
            if self._spec.get("readinessProbe"):
                group.create_task(self._watch_readiness(self._spec["readinessProbe"]))

    async def _until_settled(self, kind: str, probe: Mapping[str, Any], *, goes_on: bool = False) -> bool:
        """Return True once the probe has succeeded, unless `goes_on` is set; return False once it has failed
        `failureThreshold` times in a row."""
        pace = Pace.of(probe)
        await asyncio.sleep(pace.initial_delay_seconds)
        failures = 0
        while True:
            failure = await self._probe_once(probe, pace)
            if failure is None:
                failures = 0
                if not goes_on:
                    return True
            else:
                failures += 1
                self._unhealthy(kind, failure)
                if failures >= pace.failure_threshold:
                    self._failed(kind, failure)
                    return False
            await asyncio.sleep(pace.period_seconds)

    async def _watch_readiness(self, probe: Mapping[str, Any]) -> None:
        pace = Pace.of(probe)
        await asyncio.sleep(pace.initial_delay_seconds)
        in_a_row, last = 0, False
        while True:
            failure = await self._probe_once(probe, pace)
            good = failure is None
            in_a_row = in_a_row + 1 if good == last else 1
            last = good
            if failure is not None:
                self._unhealthy("readiness", failure)
            needed = pace.success_threshold if good else pace.failure_threshold
            if in_a_row >= needed and self.ready != good:
                self.ready = good
                self._changed()
            await asyncio.sleep(pace.period_seconds)

    async def _probe_once(self, probe: Mapping[str, Any], pace: Pace) -> str | None:
        try:
            async with asyncio.timeout(pace.timeout_seconds):
                return await self._check(probe)
        except TimeoutError:
            return f"no answer within {pace.timeout_seconds:g} s"
        except OSError as error:  # too many open files, for example: the next probe may succeed
            return error.strerror or str(error)


async def check(handler: Mapping[str, Any], container: Container, spec: Mapping[str, Any], pod_ip: str) -> str | None:
    """Perform one handler of a probe or a lifecycle hook on a running container. Returns what went wrong, or None."""
    if handler.get("exec"):
        return await _check_command(handler["exec"].get("command") or [], container)
    if handler.get("httpGet"):
        return await _check_http(handler["httpGet"], spec, pod_ip)
    if handler.get("tcpSocket"):
        host = handler["tcpSocket"].get("host") or pod_ip
        return await _check_tcp(host, port_number(handler["tcpSocket"]["port"], spec))
    if handler.get("sleep"):
        await asyncio.sleep(float(handler["sleep"].get("seconds") or 0))
        return None
    return f"a handler of this kind is not supported: {sorted(handler)}"


def with_variables(probe: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a probe whose command has values for `$(VAR)`. As in Kubernetes only variables of the container whose
    value the spec has are replaced, and those in hooks are not."""
    if not probe.get("exec"):
        return probe
    known = {one["name"]: one.get("value") or "" for one in spec.get("env") or () if not one.get("valueFrom")}
    return {**probe, "exec": {"command": [expand(word, known) for word in probe["exec"].get("command") or ()]}}


def port_number(port: int | str, spec: Mapping[str, Any]) -> int:
    """Return a port given by its number or by its name among the container's ports; 0 if there is no such name."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    return next((int(entry["containerPort"]) for entry in spec.get("ports") or () if entry.get("name") == port), 0)


class _Output:
    """Reads what a command prints, so that a full pipe never holds it up, and keeps the beginning."""

    def __init__(self, fd: int) -> None:
        self.kept = b""
        self._fd = fd

    def read(self) -> bool:
        """Read once, and return whether there may be more to keep."""
        with contextlib.suppress(BlockingIOError):
            self.kept += os.read(self._fd, READ_BYTES)[: OUTPUT_BYTES - len(self.kept)]
            return len(self.kept) < OUTPUT_BYTES
        return False


async def _check_command(argv: Sequence[str], container: Container) -> str | None:
    loop = asyncio.get_running_loop()
    read, write = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(read, False)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    output = _Output(read)
    loop.add_reader(read, output.read)
    try:
        execution = await container.execute(argv, (null, write, write))
        try:
            code = await execution.wait()
        finally:
            execution.close()
        if code == 0:
            return None
        while output.read():
            pass
        text = output.kept.decode(errors="replace").strip()
        return f"exit code {code}{': ' if text else ''}{text}"
    except KajitoriError as error:
        return error.message
    finally:
        loop.remove_reader(read)
        for fd in (read, write, null):
            os.close(fd)


async def _check_http(request: Mapping[str, Any], spec: Mapping[str, Any], pod_ip: str) -> str | None:
    scheme = str(request.get("scheme") or "HTTP").lower()
    host = request.get("host") or pod_ip
    where = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{where}:{port_number(request['port'], spec)}/{str(request.get('path') or '/').lstrip('/')}"
    headers = {header["name"]: header["value"] for header in request.get("httpHeaders") or ()}
    headers.setdefault("User-Agent", "kube-probe/1.36")
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, headers=headers, ssl=False, allow_redirects=False) as answer,
        ):
            if 200 <= answer.status < 400:
                return None
            return f"HTTP probe failed with statuscode: {answer.status}"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"Get {url!r}: {error}"


async def _check_tcp(host: str, port: int) -> str | None:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return f"dial {host}:{port}: {error.strerror or error}"
    writer.close()
    return None
