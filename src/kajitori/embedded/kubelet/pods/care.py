"""What is done to the containers of one Pod while they run: hooks, probes, and an end with grace."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.events import EventRecorder
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.pods.probes import ContainerProbes, check
from kajitori.embedded.kubelet.pods.records import PodRecord
from kajitori.embedded.kubelet.pods.slot import Slot


class Care:
    """Hooks and probes of a Pod's containers, and how these are stopped."""

    def __init__(
        self, events: EventRecorder, record: PodRecord, pod: Callable[[], Manifest], wake: Callable[[], None]
    ) -> None:
        """`pod` answers the Pod as it is now; `wake` is called when probes say something else than before."""
        self._events = events
        self._record = record
        self._pod = pod
        self._wake = wake
        self._tasks: set[asyncio.Task[None]] = set()
        """Hooks that have not come to their end: the loop itself would not keep them."""

    def begin_probes(self, slot: Slot) -> None:
        """Has the container that runs now probed, unless it is one of those that only come before the others."""
        container = slot.container
        if container is None or (slot.is_init and not pods.is_sidecar(slot.spec)):
            return

        def failed(kind: str, message: str) -> None:
            if slot.container is container:
                said = f"Container {slot.name} failed {kind} probe, will be restarted"
                self.stop(slot, _probe_grace(slot.spec, kind, pods.grace_seconds(self._pod())), said)

        def unhealthy(kind: str, message: str) -> None:
            said = f"{kind.capitalize()} probe failed: {message}"
            self._events.record(self._pod(), "Unhealthy", said, warning=True)

        slot.probes = ContainerProbes(
            slot.spec,
            lambda probe: check(probe, container, slot.spec, self._record.pod_ip),
            self._wake,
            unhealthy,
            failed,
        )

    def run_start_hook(self, slot: Slot) -> None:
        """Begins what is to be done after the container's start; where that fails the container is stopped."""
        handler = (slot.spec.get("lifecycle") or {}).get("postStart")
        container = slot.container
        if not handler or container is None:
            return

        async def hook() -> None:
            said = await check(handler, container, slot.spec, self._record.pod_ip)
            if said is not None and slot.container is container:
                self._events.record(self._pod(), "FailedPostStartHook", said, warning=True)
                self.stop(slot, pods.grace_seconds(self._pod()), "FailedPostStartHook")

        task = asyncio.create_task(hook())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, slot: Slot, grace_seconds: float, why: str) -> None:
        """Begins the container's end, or shortens its grace; returns at once."""
        container = slot.container
        if container is None or not slot.running:
            return
        deadline = asyncio.get_running_loop().time() + grace_seconds
        if slot.stopping is None:
            self._events.record(self._pod(), "Killing", why)
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
                        said = await check(hook, container, slot.spec, self._record.pod_ip)
                except TimeoutError:
                    said = "it did not end within the grace period"
                if said is not None:
                    self._events.record(self._pod(), "FailedPreStopHook", said, warning=True)
            # As Kubernetes: a hook that used up the grace still leaves two seconds between SIGTERM and SIGKILL.
            left = deadline - loop.time()
            await container.stop(max(left, 2.0 if hook and grace_seconds > 0 else 0.0), number)

        slot.stopping = asyncio.create_task(stop())


def _stop_signal(spec: dict[str, Any]) -> int:
    said = (spec.get("lifecycle") or {}).get("stopSignal")
    return int(getattr(signal, str(said), signal.SIGTERM)) if said else int(signal.SIGTERM)


def _probe_grace(spec: dict[str, Any], kind: str, default: float) -> float:
    said = (spec.get(f"{kind}Probe") or {}).get("terminationGracePeriodSeconds")
    return float(said) if said is not None else default
