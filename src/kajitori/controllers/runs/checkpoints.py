"""Checkpoints that are folders: gone with their run where the user wants it and policy lets us."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

from kajitori.core.pods.mounts import checkpoint_folder
from kajitori.core.pods.resolved import RunIdentity
from kajitori.core.policy.file import Policy
from kajitori.core.words import names
from kajitori.errors import NotFound
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import RUNS

log = logging.getLogger(__name__)


async def delete_checkpoint(client: KubeClient, policy: Policy, namespace: str, name: str) -> None:
    """Deletes the folder of a run that is being deleted, if it is marked so. Done twice, the second time does nothing.

    To be called when no member is left that could write, and before the Run is gone: so it happens even if this process
    is killed meanwhile. Links are not followed. A folder that resists is told in the log, and does not keep the run.
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
        pass  # it never had one
    except OSError as error:
        log.warning("the checkpoint of %s/%s could not be deleted: %s", namespace, name, error)
