"""One container of a Pod, through all its attempts."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kajitori.embedded.kubelet import manifest as pods
from kajitori.embedded.kubelet.containers.container import Container, ContainerState
from kajitori.embedded.kubelet.containers.launch import Launch
from kajitori.embedded.kubelet.containers.logs import last_text
from kajitori.embedded.kubelet.pods import messages
from kajitori.embedded.kubelet.pods.probes import ContainerProbes
from kajitori.embedded.kubelet.pods.records import PodFolders
from kajitori.embedded.kubelet.pods.status import IMAGE_ID, ContainerView
from kajitori.embedded.kubelet.pods.steps import Observed
from kajitori.embedded.kubelet.shim import main as shim

KEPT_ATTEMPTS = 2
"""Number of attempts that keep their files: the current one, and the one that `kubectl logs --previous` reads."""
TERMINATION_MESSAGE_BYTES = 2048


class Slot:
    """A container of the Pod's spec, its current attempt, and the one before."""

    def __init__(self, spec: dict[str, Any], pod_uid: str, folders: PodFolders, *, is_init: bool = False) -> None:
        self.spec = spec
        self.is_init = is_init
        self.name = str(spec["name"])
        self._pod_uid = pod_uid
        self._folders = folders
        self.attempt = -1
        self.container: Container | None = None
        self.previous: ContainerState | None = None
        self.probes: ContainerProbes | None = None
        self.waiting_reason = ""
        self.waiting_message = ""
        self.stopping: asyncio.Task[None] | None = None
        self.stop_deadline = float("inf")

    @property
    def running(self) -> bool:
        """Whether the current attempt runs or is being stopped."""
        return self.container is not None and not self.container.ended.is_set()

    @property
    def state(self) -> ContainerState | None:
        """The state of the current attempt; None before the first."""
        return self.container.state if self.container is not None else None

    def container_id(self, attempt: int) -> str:
        """Return the identifier of one attempt, for its control groups, its processes' environment and the Pod's
        status."""
        return hashlib.sha256(f"{self._pod_uid}/{self.name}/{attempt}".encode()).hexdigest()

    async def adopt(self, on_ended: Callable[[], None]) -> None:
        """Adopt the newest attempt that an earlier kubelet started, and read the end of the attempt before it."""
        for attempt in reversed(self._folders.attempts(self.name)):
            container = self._container_of(attempt)
            if not await container.adopt():
                continue
            if self.container is None:
                self.attempt, self.container = attempt, container
                container.on_ended = on_ended
            else:
                self.previous = container.state
                break

    async def launch(self, launch: Launch, on_ended: Callable[[], None]) -> ContainerState:
        """Start the next attempt. Raises OSError, and changes nothing, if not even the shim can be started."""
        before = (self.attempt, self.container, self.previous)
        container = self._container_of(self.attempt + 1)
        shutil.rmtree(container.directory, ignore_errors=True)  # left by a start that a crash interrupted
        self.previous = self.container.state if self.container is not None else None
        self.attempt, self.container = self.attempt + 1, container
        self.stopping, self.stop_deadline = None, float("inf")
        container.on_ended = on_ended
        try:
            state = await container.launch(launch)
        except OSError:
            self.attempt, self.container, self.previous = before
            raise
        self._remove_old_attempts()
        return state

    def end_probes(self) -> None:
        """Stop the probes, before the container is stopped or restarted."""
        if self.probes is not None:
            self.probes.stop()
            self.probes = None

    def close(self) -> None:
        """Stop watching the container, which keeps running."""
        self.end_probes()
        if self.stopping is not None:
            self.stopping.cancel()
        if self.container is not None:
            self.container.close()

    def observed(self, restarts_in_a_row: int) -> Observed:
        """Return the state of the container from which the next steps are decided."""
        state = self.state
        if state is None:
            return Observed()
        return Observed(
            attempt=self.attempt,
            running=self.running,
            exit_code=None if self.running else state.exit_code,
            started_at=state.started_at,
            finished_at=state.finished_at,
            restarts_in_a_row=restarts_in_a_row,
            started=self.probes is None or self.probes.started,
        )

    def view(self) -> ContainerView:
        """Return the part of the Pod's status about this container."""
        state = self.state
        running = self.running and state is not None and state.running
        if pods.is_sidecar(self.spec) or not self.is_init:
            ready = running and self.stopping is None and (self.probes is None or self.probes.ready)
        else:
            ready = state is not None and not running and state.exit_code == 0
        return ContainerView(
            name=self.name,
            attempt=self.attempt,
            container_id=self._container_uri(state, self.attempt),
            image_id=(state.image_id if state is not None else "") or IMAGE_ID,
            state=state if not (state is not None and self.running and not state.running) else None,
            previous=self.previous,
            previous_id=self._container_uri(self.previous, self.attempt - 1),
            waiting_reason="" if running else self.waiting_reason,
            waiting_message=self.waiting_message,
            termination_message=self._termination_message(state),
            ready=ready,
            started=running and (self.probes is None or self.probes.started),
        )

    def _container_uri(self, state: ContainerState | None, attempt: int) -> str:
        if attempt < 0:
            return ""
        engine = self.container.engine if self.container is not None else None
        scheme = engine.scheme if engine is not None else "process"
        return (state.container_uri if state is not None else "") or f"{scheme}://{self.container_id(attempt)}"

    def _container_of(self, attempt: int) -> Container:
        return Container(self._folders.container(self.name, attempt), self.container_id(attempt))

    def _termination_message(self, state: ContainerState | None) -> str:
        if state is None or state.running:
            return ""
        message = messages.read(self._folders.message(self.name, self.attempt))
        if message or self.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return message
        if state.exit_code == 0 or state.status == shim.FAILED:
            return ""
        return last_text(self._folders.log(self.name, self.attempt), TERMINATION_MESSAGE_BYTES)

    def _remove_old_attempts(self) -> None:
        for attempt in self._folders.attempts(self.name)[:-KEPT_ATTEMPTS]:
            shutil.rmtree(self._folders.container(self.name, attempt), ignore_errors=True)
            self._folders.message(self.name, attempt).unlink(missing_ok=True)
            for file in self._log_files(attempt):
                with contextlib.suppress(OSError):
                    file.unlink()

    def _log_files(self, attempt: int) -> list[Path]:
        log = self._folders.log(self.name, attempt)
        return [log, *log.parent.glob(f"{log.name}.*")]
