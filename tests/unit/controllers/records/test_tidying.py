"""Blobs that belong to no run are removed; blobs that a run may still need stay."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.records.tidying import overdue, referenced_code, tidy
from kajitori.core.naming import first_step
from kajitori.core.policy.model import Logs
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.kube.client import KubeClient
from kajitori.kube.metadata import ObjectMeta

ASKED, IN_TEMPLATE = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def run(name: str, spec: Any, template: Any = None) -> RunObject:
    status = None
    if template:
        status = RunStatus(
            attempts=1,
            attempt=Attempt(number=1, nodes="n1", template=template_text({"spec": {"containers": [], **template}})),
        )
    meta = ObjectMeta(name=name, namespace="vision", uid=f"uid-{name}")
    return RunObject(metadata=meta, spec=msgspec.Raw(msgspec.json.encode(spec)), status=status)


def mirror_of(*runs: RunObject, age_seconds: float = 0.0) -> Mirror:
    known = {("vision", run.metadata.name): run for run in runs}
    return cast(Mirror, SimpleNamespace(runs=known, age_seconds=lambda: age_seconds))


def test_the_code_in_a_runs_spec_and_in_its_template_are_both_needed() -> None:
    """They differ once the spec was edited. A damaged Run needs no code and does not break the search."""
    step = {"name": first_step.CONTAINER, "env": [{"name": first_step.CODE_ENV, "value": IN_TEMPLATE}]}
    edited = run("edited", {"code": {"digest": ASKED}}, {"initContainers": [step]})
    step = {"name": first_step.CONTAINER, "env": [{"name": first_step.FILES_ENV, "value": "sha256:2"}]}
    files = run("files", {"files": {"digest": "sha256:1"}}, {"initContainers": [step]})
    assert referenced_code(mirror_of(files)) == {("vision", "sha256:1"), ("vision", "sha256:2")}
    damaged = run("damaged", {"code": "what"}, {"initContainers": [{"name": first_step.CONTAINER}]})
    assert referenced_code(mirror_of(edited, damaged, run("none", {}))) == {("vision", ASKED), ("vision", IN_TEMPLATE)}


def test_a_shorter_retention_in_policy_makes_older_runs_overdue() -> None:
    """Only ended runs are overdue, and none are if policy keeps all."""
    ended = RunStatus(phase=Phase.FAILED, finished_at="2026-11-21T10:00:00Z")
    going = RunStatus(phase=Phase.RUNNING, finished_at="2026-11-21T10:00:00Z")
    created = msgspec.structs.replace(ended, phase=Phase.STOPPED, reason=Reason.NOT_STARTED)
    states = (("a", ended), ("b", going), ("created", created))
    runs = [msgspec.structs.replace(run(name, {}), status=status) for name, status in states]
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    mirror = mirror_of(*runs, run("new", {}))
    assert overdue(mirror, 3600, now) == [("vision", "a")]
    assert overdue(mirror, 3 * 3600, now) == overdue(mirror, None, now) == []


async def test_only_logs_of_deleted_runs_are_removed(tmp_path: Path) -> None:
    kept = await old_logs(tmp_path, "uid-here", "uid-gone")
    keeper = LogKeeper(cast(KubeClient, None), kept)
    await tidy(mirror_of(run("here", {})), Logs(), keeper, None)
    assert [len(await kept.of_run("vision", uid)) for uid in ("uid-here", "uid-gone")] == [1, 0]


async def test_nothing_is_removed_while_the_mirror_is_stale(tmp_path: Path) -> None:
    """A stale mirror does not know runs that were submitted since."""
    kept = await old_logs(tmp_path, "uid-new")
    keeper = LogKeeper(cast(KubeClient, None), kept)
    for age_seconds, left in ((5.0, 1), (0.0, 0)):
        await tidy(mirror_of(age_seconds=age_seconds), Logs(), keeper, None)
        assert len(await kept.of_run("vision", "uid-new")) == left


async def old_logs(folder: Path, *uids: str) -> KeptLogs:
    """Store logs of these runs (UIDs), two hours old."""
    kept = KeptLogs(await open_blobs(folder.as_uri()))
    for uid in uids:
        name = MemberLogName("vision", uid, 1, 0)
        await kept.keep(name, b"x")
        then = time.time() - 7200
        os.utime(folder / name.key, (then, then))
    return kept
