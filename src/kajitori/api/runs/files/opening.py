"""Open the checkpoint folder of a run for a caller: a Pod of the run, the reader, mounts it."""

from __future__ import annotations

import asyncio
import time

import msgspec
from pydantic import Field

from kajitori.api.answers.paging import Parameters
from kajitori.api.context import Api
from kajitori.api.lookup import find_run, no_such_run
from kajitori.api.rights import User
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RUNS, RunObject
from kajitori.core.formats.times import format_time, seconds_since
from kajitori.core.naming import names
from kajitori.core.pods import reader
from kajitori.errors import (
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
    Unavailable,
    Unsupported,
    WrongState,
)
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import PODS, Resource

RENEW_SECONDS = 60.0
"""Age of the last request from which the next one is written down. The reader lives for `reader.IDLE_SECONDS` more."""


class Opening(Unavailable):
    """The folder is being opened. The same request succeeds a little later."""

    code = "Opening"


class PathParameters(Parameters):
    path: str = Field(default="", max_length=4096)
    """Path in the checkpoint folder, relative to it or as the run's members see it. Default: the folder itself."""
    wait: float = Field(default=20.0, ge=0, le=60)
    """Seconds to wait for a folder that has to be opened first. After that the answer is 503 with the code Opening."""


class OpenFolder(msgspec.Struct, frozen=True):
    """A folder that can be read."""

    client: KubeClient
    """The caller's own."""
    run: RunObject
    pod: Pod
    folder: str
    path: str

    @property
    def base_name(self) -> str:
        """The last part of the path, or the run's name for the folder itself."""
        return self.path.rpartition("/")[2] or self.run.metadata.name


async def open_folder(api: Api, user: User, namespace: str, name: str, query: PathParameters) -> OpenFolder:
    """Return the folder once it can be read. Raises Opening if that takes longer than the caller waits."""
    run = await find_run(api, user, namespace, name)
    await user.require("create", namespace, resource=PODS, subresource="exec")
    folder = _folder_of(api, run)
    try:
        path = reader.inner_path(query.path, (folder, *_written_path(run)))
    except FieldError as error:
        raise InvalidInput.one("path", error.message, value=query.path, hint=error.hint) from None
    until = time.monotonic() + query.wait
    changed = asyncio.Event()
    pod_key = (namespace, reader.reader_name(run.metadata.name))

    def note(resource: Resource, where: str, which: str) -> None:
        if resource == PODS and (where, which) == pod_key:
            changed.set()

    end = api.mirror.on_change(note)
    try:
        await renew(api, user.client, run)
        while True:
            changed.clear()
            pod = api.mirror.pods.get(pod_key)
            if pod is not None and _is_open(pod, run):
                return OpenFolder(user.client, run, pod, folder, path)
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await changed.wait()
            except TimeoutError:
                raise Opening(
                    f"the checkpoint folder of {run.metadata.name} is being opened: {_progress(pod)}",
                    hint=f"try again in a few seconds; if it never opens, see kaji events {run.metadata.name}",
                ) from None
    finally:
        end()


def _folder_of(api: Api, run: RunObject) -> str:
    """Return the path of the checkpoint folder in members. Raises WrongState or Unsupported if nothing can be read."""
    name = run.metadata.name
    if run.metadata.deletion_timestamp:
        raise WrongState(f"{name} is being deleted", hint="its checkpoint is kept, unless that was asked for")
    attempt = run.current_status.attempt
    if attempt is None:
        raise WrongState(f"{name} has not started yet: it has no files", hint=f"see why: kaji explain {name}")
    folder = reader.mounted_at(attempt)
    if not folder:
        raise WrongState(
            f"{name} has no checkpoint folder: only such folders outlive a run's members",
            hint=f"copy from a running member: kaji cp {name}:PATH . ; next time: kaji run --checkpoint /ckpt …",
        )
    if api.cluster.policy.start.image is None:
        raise Unsupported(
            "checkpoint folders can't be opened here, because the policy names no image of Kajitori (start.image)",
            hint=f"copy from a running member: kaji cp {name}:{folder} .",
        )
    return folder


def _written_path(run: RunObject) -> tuple[str, ...]:
    """Return the path of the checkpoint in the spec, which a node that mounts nothing replaces by the folder's own."""
    spec = msgspec.json.decode(run.spec)
    checkpoint = spec.get("checkpoint") if isinstance(spec, dict) else None
    path = checkpoint.get("path") if isinstance(checkpoint, dict) else checkpoint
    return (path,) if isinstance(path, str) and path.startswith("/") else ()


async def renew(api: Api, client: KubeClient, run: RunObject) -> None:
    """Note in the run that its files are being read, unless that was done within the last minute.

    Raises Forbidden with a hint if the caller may not change the run."""
    current = api.mirror.runs.get((run.metadata.namespace, run.metadata.name), run)
    age_seconds = seconds_since(current.metadata.annotations.get(names.ANNOTATION_FILES_READ, ""), api.now())
    if age_seconds is not None and age_seconds < RENEW_SECONDS:
        return
    meta = run.metadata
    mark = {"uid": meta.uid, "annotations": {names.ANNOTATION_FILES_READ: format_time(api.now())}}
    try:
        await client.patch(RUNS, meta.name, {"metadata": mark}, meta.namespace)
    except Forbidden as error:
        hint = "a user who may change the run can open its folder for five minutes; you can read it then"
        raise Forbidden(error.message, hint=hint) from None
    except NotFound as error:
        raise no_such_run(api, meta.namespace, meta.name, error) from None


def _is_open(pod: Pod, run: RunObject) -> bool:
    owner = pod.metadata.controller
    return (
        owner is not None
        and owner.uid == run.metadata.uid
        and pod.status.phase == "Running"
        and not pod.metadata.deletion_timestamp
        and any(status.state.running is not None for status in pod.status.container_statuses)
    )


def _progress(pod: Pod | None) -> str:
    """Return a text that says what the reader waits for."""
    if pod is None:
        return "its reader has not been created yet"
    if pod.is_finished or pod.metadata.deletion_timestamp:
        return "an earlier reader is being removed"
    if not pod.spec.node_name:
        why = next((c.message for c in pod.status.conditions if c.type == "PodScheduled"), "")
        return f"its reader has no node yet{': ' + why if why else ''}"
    waiting = next((s.state.waiting for s in pod.status.container_statuses if s.state.waiting is not None), None)
    reason = f"{waiting.reason} {waiting.message}".strip() if waiting is not None else ""
    return f"its reader starts on {pod.spec.node_name}{' (' + reason + ')' if reason else ''}"
