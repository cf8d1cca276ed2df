"""Images that the engine has, or pulls from a registry: pull policies, progress, and pauses after failures.

Reasons and wording follow Kubernetes' kubelet (`ErrImagePull`, `ImagePullBackOff`).
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kajitori.core.backoff import backoff_seconds
from kajitori.embedded.kubelet.engine.client import EngineClient, split_reference
from kajitori.errors import KajitoriError, NotFound

Say = Callable[[str, str, bool], None]
"""Records an Event: reason, message, whether it is a warning."""

FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 300.0
PROGRESS_SECONDS = 15.0
"""Interval between Events about the progress of a pull."""
LOOK_AGAIN_SECONDS = 0.5
MOST_IMAGES = 50
"""Images that a Node's status lists at most, as with other kubelets."""
DOCKER_HUB = "https://index.docker.io/v1/"


class ImageNotReady(KajitoriError):
    """The image can't be used yet, or at all; `code` is the reason that the container's status shows."""

    def __init__(self, reason: str, message: str, retry_seconds: float) -> None:
        super().__init__(message, code=reason)
        self.retry_seconds = retry_seconds


@dataclass
class Pull:
    """One pull, and those that failed before it."""

    task: asyncio.Task[None] | None = None
    failures: int = 0
    error: str = ""
    retry_at: float = 0.0
    layers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Bytes that have arrived and all bytes of each layer."""

    def progress(self) -> str:
        """Return a text such as ` (35 % of 4.2 GB)`; empty as long as nothing is known."""
        arrived, total = (sum(column) for column in zip(*self.layers.values(), strict=True)) if self.layers else (0, 0)
        return f" ({100 * arrived // total} % of {total / 1e9:.1f} GB)" if total else ""

    def note(self, message: Mapping[str, Any]) -> None:
        detail = message.get("progressDetail") or {}
        if message.get("id") and message.get("status") == "Downloading" and detail.get("total"):
            self.layers[message["id"]] = (int(detail.get("current") or 0), int(detail["total"]))
        elif message.get("status") == "Download complete" and message.get("id") in self.layers:
            total = self.layers[message["id"]][1]
            self.layers[message["id"]] = (total, total)


class Images:
    """The images of one engine."""

    def __init__(self, client: EngineClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._pulls: dict[tuple[str, str], Pull] = {}

    async def ensure(
        self, reference: str, policy: str, owner: str, auths: Mapping[str, Mapping[str, Any]], say: Say
    ) -> dict[str, Any]:
        """Return the engine's description of the image. A missing image is pulled meanwhile.

        `owner` names the start of the container, for which the policy `Always` pulls once. `auths` are credentials by
        registry, in the format of Docker's configuration. Raises ImageNotReady, also while the image is pulled.
        """
        key = (reference, owner if policy == "Always" else "")
        pull = self._pulls.get(key)
        if pull is None or pull.task is None:
            found = await self._find(reference) if policy != "Always" or "@" in reference else None
            if found is not None:
                say("Pulled", f'Container image "{reference}" already present on machine', False)
                return found
            if policy == "Never":
                message = f'Container image "{reference}" is not present with pull policy of Never'
                raise ImageNotReady("ErrImageNeverPull", message, LONGEST_PAUSE_SECONDS)
            pull = self._pulls.setdefault(key, Pull())
            self._begin(reference, pull, auths, say)
        if pull.task is not None and not pull.task.done():
            message = f'pulling image "{reference}"{pull.progress()}'
            raise ImageNotReady("ContainerCreating", message, LOOK_AGAIN_SECONDS)
        if not pull.error:
            del self._pulls[key]
            if (found := await self._find(reference)) is not None:
                return found
            pull.error = f'the engine has pulled "{reference}", but does not have it'
        left = pull.retry_at - self._clock()
        if left > 0:
            is_new = pull.failures == 1 and left > FIRST_PAUSE_SECONDS - 2 * LOOK_AGAIN_SECONDS
            reason = "ErrImagePull" if is_new else "ImagePullBackOff"
            prefix = "" if is_new else f'Back-off pulling image "{reference}": '
            raise ImageNotReady(reason, prefix + pull.error, min(left, LOOK_AGAIN_SECONDS if is_new else left))
        self._begin(reference, pull, auths, say)
        raise ImageNotReady("ContainerCreating", f'pulling image "{reference}"', LOOK_AGAIN_SECONDS)

    async def stop(self) -> None:
        """End all pulls."""
        tasks = [pull.task for pull in self._pulls.values() if pull.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _find(self, reference: str) -> dict[str, Any] | None:
        try:
            return await self._client.image(reference)
        except NotFound:
            return None

    def _begin(self, reference: str, pull: Pull, auths: Mapping[str, Mapping[str, Any]], say: Say) -> None:
        say("Pulling", f'Pulling image "{reference}"', False)
        pull.error, pull.layers = "", {}
        pull.task = asyncio.create_task(self._pull(reference, pull, registry_auth(reference, auths), say))

    async def _pull(self, reference: str, pull: Pull, auth: str, say: Say) -> None:
        begun = told_at = self._clock()
        try:
            async for message in self._client.pull(reference, auth):
                pull.note(message)
                if self._clock() - told_at >= PROGRESS_SECONDS and pull.progress():
                    told_at = self._clock()
                    say("Pulling", f'Pulling image "{reference}"{pull.progress()}', False)
        except KajitoriError as error:
            pull.error, pull.failures = error.message, pull.failures + 1
            pause = backoff_seconds(pull.failures, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            pull.retry_at = self._clock() + pause
            say("Failed", f'Failed to pull image "{reference}": {error.message}', True)
        else:
            say("Pulled", f'Successfully pulled image "{reference}" in {self._clock() - begun:.1f} s', False)


def images_in_status(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the engine's images as a Node's status lists them: those that have a name, the largest first."""
    shown = []
    for image in sorted(found, key=lambda one: -int(one.get("Size") or 0)):
        names = [*(image.get("RepoDigests") or ()), *(image.get("RepoTags") or ())]
        if names := [name for name in names if "<none>" not in name]:
            shown.append({"names": names, "sizeBytes": int(image.get("Size") or 0)})
    return shown[:MOST_IMAGES]


def pull_policy(container: Mapping[str, Any]) -> str:
    """Return the container's pull policy; by default `Always` for the tag latest, else `IfNotPresent`."""
    if policy := container.get("imagePullPolicy"):
        return str(policy)
    return "Always" if split_reference(container.get("image") or "")[1] == "latest" else "IfNotPresent"


def registry_of(reference: str) -> str:
    """Return the registry's host; Docker Hub's address for a name without one."""
    first, slash, _ = reference.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else DOCKER_HUB


def registry_auth(reference: str, auths: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the header with the credentials for the image's registry; empty without any."""
    registry = registry_of(reference)
    names = (registry, f"https://{registry}") if registry != DOCKER_HUB else (registry, "docker.io", "index.docker.io")
    found = next((auths[name] for name in names if name in auths), None)
    if found is None:
        return ""
    user, password = str(found.get("username") or ""), str(found.get("password") or "")
    if found.get("auth"):
        user, _, password = base64.b64decode(found["auth"]).decode(errors="replace").partition(":")
    document = {"username": user, "password": password, "serveraddress": registry}
    if found.get("identitytoken"):
        document["identitytoken"] = str(found["identitytoken"])
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode()
