"""Supervision of one Pod's containers while they run: hooks, probes, and a stop with a grace period."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.events import EventRecorder
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.pods.probes import ContainerProbes, check, with_variables
from kajitori.embedded.kubelet.pods.records import PodRecord, ProbeResults
from kajitori.embedded.kubelet.pods.slot import Slot


class Supervisor:
    """Runs the hooks and probes of a Pod's containers, and stops containers."""

    def __init__(
        self, events: EventRecorder, record: PodRecord, pod: Callable[[], Manifest], changed: Callable[[], None]
    ) -> None:
        """`pod` returns the Pod as it is now; the supervisor calls `changed` when the record has another result of a
        probe."""
        self._events = events
        self._record = record
        self._pod = pod
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()
        """Running hooks: the event loop itself keeps no reference to them."""

    def begin_probes(self, slot: Slot) -> None:
        """Start the probes of the container's current attempt. An init container that is no sidecar has none. An
        attempt that an earlier kubelet started keeps the results that the record has."""
        container = slot.container
        if container is None or (slot.is_init and not pods.is_sidecar(slot.spec)):
            return

        def failed(kind: str, message: str) -> None:
            if slot.container is container:
                reason = f"Container {slot.name} failed {kind} probe, will be restarted"
                self.stop(slot, _probe_grace(slot.spec, kind, pods.grace_seconds(self._pod())), reason)

        def unhealthy(kind: str, message: str) -> None:
            self._events.record(self._pod(), "Unhealthy", f"{kind.capitalize()} probe failed: {message}", warning=True)

        def changed() -> None:
            if slot.container is container and (probes := slot.probes) is not None:
                self._record.probes[slot.name] = ProbeResults(slot.attempt, probes.started, probes.ready)
                self._changed()

        known = self._record.probes.get(slot.name)
        is_same = known is not None and known.attempt == slot.attempt
        slot.probes = ContainerProbes(
            slot.spec,
            lambda probe: check(with_variables(probe, slot.spec), container, slot.spec, self._record.pod_ip),
            changed,
            unhealthy,
            failed,
            known if is_same else None,
        )

    def run_start_hook(self, slot: Slot) -> None:
        """Start the postStart hook; if it fails, the container is stopped."""
        handler = (slot.spec.get("lifecycle") or {}).get("postStart")
        container = slot.container
        if not handler or container is None:
            return

        async def hook() -> None:
            failure = await check(handler, container, slot.spec, self._record.pod_ip)
            if failure is not None and slot.container is container:
                self._events.record(self._pod(), "FailedPostStartHook", failure, warning=True)
                self.stop(slot, pods.grace_seconds(self._pod()), "FailedPostStartHook")

        task = asyncio.create_task(hook())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, slot: Slot, grace_seconds: float, reason: str) -> None:
        """Begin to stop the container, or shorten its grace period. Returns at once."""
        container = slot.container
        if container is None or not slot.running:
            return
        deadline = asyncio.get_running_loop().time() + grace_seconds
        if slot.stopping is None:
            self._events.record(self._pod(), "Killing", reason)
        elif deadline >= slot.stop_deadline:
            return
        else:
            slot.stopping.cancel()
        hook = (slot.spec.get("lifecycle") or {}).get("preStop") if slot.stopping is None else None
        slot.stop_deadline = deadline
        slot.end_probes()
        number = _stop_signal(slot.spec)

        async def stop() -> None:
            loop = asyncio.get_running_loop()
            if hook and grace_seconds > 0:
                try:
                    async with asyncio.timeout(grace_seconds):
                        failure = await check(hook, container, slot.spec, self._record.pod_ip)
                except TimeoutError:
                    failure = "it did not end within the grace period"
                if failure is not None:
                    self._events.record(self._pod(), "FailedPreStopHook", failure, warning=True)
            # As in Kubernetes: a hook that used up the grace period still leaves two seconds between SIGTERM and
            # SIGKILL.
            left = deadline - loop.time()
            await container.stop(max(left, 2.0 if hook and grace_seconds > 0 else 0.0), number)

        slot.stopping = asyncio.create_task(stop())


def _stop_signal(spec: dict[str, Any]) -> int:
    name = (spec.get("lifecycle") or {}).get("stopSignal")
    return int(getattr(signal, str(name), signal.SIGTERM)) if name else int(signal.SIGTERM)


def _probe_grace(spec: dict[str, Any], kind: str, default: float) -> float:
    seconds = (spec.get(f"{kind}Probe") or {}).get("terminationGracePeriodSeconds")
    return float(seconds) if seconds is not None else default
