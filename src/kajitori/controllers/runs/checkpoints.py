"""Deleting checkpoint folders with their run, if the user asks for it and policy allows it."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.pods.mounts import checkpoint_folder
from kajitori.core.pods.resolved import RunIdentity
from kajitori.core.policy.file import Policy
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient

log = logging.getLogger(__name__)


async def delete_checkpoint(client: KubeClient, policy: Policy, namespace: str, name: str) -> None:
    """Delete the checkpoint folder of a run that is being deleted, if the run is marked for that. May be repeated.

    Call it after the last member has ended and before the Run is released, so that a killed process repeats it. Links
    are not followed. A failure is logged and does not keep the run.
    """
    if policy.checkpoint.kind != "folder" or not policy.checkpoint.deletable:
        return
    try:
        run = await client.get(RUNS, name, namespace)
    except NotFound:
        return
    annotations = run["metadata"].get("annotations") or {}
    if annotations.get(names.ANNOTATION_DELETE_CHECKPOINT) != "true":
        return
    folder = Path(checkpoint_folder(policy, RunIdentity(name, namespace)))
    try:
        await asyncio.to_thread(shutil.rmtree, folder)
    except FileNotFoundError:
        pass  # the run never wrote one
    except OSError as error:
        log.warning("the checkpoint of %s/%s could not be deleted: %s", namespace, name, error)
