"""Containers that cannot be started yet: the reason in their status, the Event, and the next try."""

from __future__ import annotations

from collections.abc import Callable

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.containers.environment import ConfigError
from kajitori.embedded.kubelet.engine.images import ImageNotReady
from kajitori.embedded.kubelet.manifest import Manifest
from kajitori.embedded.kubelet.network.links import NetworkError
from kajitori.embedded.kubelet.pods.context import Context
from kajitori.embedded.kubelet.pods.records import PodRecord
from kajitori.embedded.kubelet.pods.slot import Slot
from kajitori.embedded.kubelet.pods.starter import WaitingForPeer
from kajitori.embedded.kubelet.volumes.mount_plan import MountsUnavailable
from kajitori.embedded.kubelet.volumes.pod_volumes import VolumeNotReady

RETRY_SECONDS = 2.0
PEER_RETRY_SECONDS = 0.5
PREPARATION_ERRORS = (ImageNotReady, WaitingForPeer, VolumeNotReady, NetworkError, ConfigError, MountsUnavailable)
"""Errors for which a container waits before it is started."""


class StartWaits:
    """Notes what the containers of one Pod wait for."""

    def __init__(
        self, context: Context, record: PodRecord, pod: Callable[[], Manifest], fail: Callable[[str, str], None]
    ) -> None:
        """`pod` returns the Pod as it is now; `fail` ends it with a reason and a message."""
        self._context = context
        self._record = record
        self._pod = pod
        self._fail = fail

    def after(self, slot: Slot, error: Exception) -> float:
        """Note why the container cannot be started yet, or fail the Pod. Return the seconds until the next try."""
        events, settings = self._context.events, self._context.settings
        match error:
            case ImageNotReady():
                return self._for_image(slot, error)
            case WaitingForPeer():
                if self._context.clock() > self._record.started_at + settings.peer_wait_seconds:
                    self._fail("PeerUnavailable", f"{error.message}, for {settings.peer_wait_seconds:g} s")
                return self.wait_for(slot, error.code, error.message, PEER_RETRY_SECONDS)
            case VolumeNotReady() | NetworkError():
                reason = "FailedMount" if isinstance(error, VolumeNotReady) else error.code
                events.record(self._pod(), reason, error.message, warning=True)
                return self.wait_for(slot, "ContainerCreating", error.message, RETRY_SECONDS)
            case ConfigError():
                message = f"{error.message}. {error.hint}".removesuffix(". ")
                if error.code == "NoCommand":
                    self._fail(error.code, message)
                events.record(self._pod(), "Failed", f"Error: {message}", warning=True)
                return self.wait_for(slot, ConfigError.code, message, RETRY_SECONDS)
            case MountsUnavailable():
                self._fail(error.code, f"{error.message}. {error.hint}")
                return self.wait_for(slot, ConfigError.code, error.message, RETRY_SECONDS)
        return self.wait_for(slot, "CreateContainerError", str(error), RETRY_SECONDS)

    def _for_image(self, slot: Slot, error: ImageNotReady) -> float:
        """Note that the container waits for its image. Return the seconds until the next try."""
        if error.code in ("ImagePullBackOff", "ErrImageNeverPull") and slot.waiting_reason != error.code:
            reason = "BackOff" if error.code == "ImagePullBackOff" else error.code
            self._context.events.record(self._pod(), reason, error.message, warning=True)
        return self.wait_for(slot, error.code, error.message, error.retry_seconds)

    def wait_for(self, slot: Slot, reason: str, message: str, seconds: float) -> float:
        """Note what the container waits for. Return the seconds until the next try, which are given."""
        slot.waiting_reason, slot.waiting_message = reason, message
        return seconds

    def back_off(self, slot: Slot, seconds: float) -> None:
        """Note that the container waits for its restart after this whole pause."""
        if slot.waiting_reason != "CrashLoopBackOff":
            self._context.events.record(
                self._pod(), "BackOff", f"Back-off restarting failed container {slot.name}", warning=True
            )
        slot.waiting_reason = "CrashLoopBackOff"
        slot.waiting_message = (
            f"back-off {seconds:g}s restarting failed container={slot.name} pod={pods.key(self._pod())}"
        )
