"""What belongs to no run goes from the store of blobs; what any run may still need stays."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.opening import open_blobs
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.records.tidying import overdue, referenced_code, tidy
from kajitori.core.policy.model import Logs
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import Attempt, RunStatus, template_text
from kajitori.core.words import first_step
from kajitori.kube.client import KubeClient
from kajitori.kube.mirror.mirror import Mirror
from kajitori.kube.objects import ObjectMeta, RunObject

ASKED, MADE_WITH = "sha256:" + "a" * 64, "sha256:" + "b" * 64


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
    known = {("vision", each.metadata.name): each for each in runs}
    return cast(Mirror, SimpleNamespace(runs=known, age_seconds=lambda: age_seconds))


def test_a_run_holds_the_code_it_asks_for_and_the_code_it_was_made_with() -> None:
    """They differ once it was edited; what is damaged holds nothing, and keeps nobody from looking."""
    step = {"name": first_step.CONTAINER, "env": [{"name": first_step.CODE_ENV, "value": MADE_WITH}]}
    edited = run("edited", {"code": {"digest": ASKED}}, {"initContainers": [step]})
    damaged = run("damaged", {"code": "what"}, {"initContainers": [{"name": first_step.CONTAINER}]})
    assert referenced_code(mirror_of(edited, damaged, run("none", {}))) == {("vision", ASKED), ("vision", MADE_WITH)}


def test_a_policy_that_keeps_runs_for_less_time_finds_older_ones() -> None:
    """Ended ones only; and none where policy keeps all."""
    ended = RunStatus(phase=Phase.FAILED, finished_at="2026-11-21T10:00:00Z")
    going = RunStatus(phase=Phase.RUNNING, finished_at="2026-11-21T10:00:00Z")
    runs = [msgspec.structs.replace(run(name, {}), status=status) for name, status in (("a", ended), ("b", going))]
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    mirror = mirror_of(*runs, run("new", {}))
    assert overdue(mirror, 3600, now) == [("vision", "a")]
    assert overdue(mirror, 3 * 3600, now) == overdue(mirror, None, now) == []


async def test_logs_of_runs_that_are_there_stay(tmp_path: Path) -> None:
    kept = await old_logs(tmp_path, "uid-here", "uid-gone")
    keeper = LogKeeper(cast(KubeClient, None), kept)
    await tidy(mirror_of(run("here", {})), Logs(), keeper, None)
    assert [len(await kept.of_run("vision", uid)) for uid in ("uid-here", "uid-gone")] == [1, 0]


async def test_a_mirror_that_is_cut_off_removes_nothing(tmp_path: Path) -> None:
    """It knows nothing of the runs that were submitted since."""
    kept = await old_logs(tmp_path, "uid-new")
    keeper = LogKeeper(cast(KubeClient, None), kept)
    for age_seconds, left in ((5.0, 1), (0.0, 0)):
        await tidy(mirror_of(age_seconds=age_seconds), Logs(), keeper, None)
        assert len(await kept.of_run("vision", "uid-new")) == left


async def old_logs(folder: Path, *uids: str) -> KeptLogs:
    """Logs of these runs, two hours old."""
    kept = KeptLogs(await open_blobs(folder.as_uri()))
    for uid in uids:
        name = MemberLogName("vision", uid, 1, 0)
        await kept.keep(name, b"x")
        then = time.time() - 7200
        os.utime(folder / name.key, (then, then))
    return kept
