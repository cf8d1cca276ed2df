"""The statuses that controllers trust after their own writes, and the frequency of writes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from aiohttp import web
from tests.unit.kube.fake_api import client_of, serving

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.runs.statuses import BUSY_INTERVAL, STATUS_INTERVAL, UNSEEN_PATIENCE, Statuses
from kajitori.core.gang import keep_waiting, preempt
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState
from kajitori.core.spec.status_parts.preemption import Preempted
from kajitori.kube.connection.concurrency import ConcurrencyLimiter
from kajitori.kube.events import EventRecorder
from kajitori.kube.metadata import ObjectMeta
from kajitori.monitoring.controller import FAILURES, PREEMPTIONS, RUNS_ENDED, ControllerMetrics

KEY = ("vision", "bert")
START = datetime(2026, 11, 21, tzinfo=UTC)
MOMENT = timedelta(milliseconds=1)
RUNNING = RunStatus(phase=Phase.RUNNING, queued_at="2026-11-21T00:00:00Z")


class Scene:
    """An API server that answers every request with version `stored`, and writers with a clock that the test sets."""

    def __init__(self) -> None:
        self.now = START
        self.stored = "9"

    async def answer(self, request: web.Request) -> web.Response:
        return web.json_response({"metadata": {"name": "bert", "namespace": "vision", "resourceVersion": self.stored}})

    @asynccontextmanager
    async def statuses(self, metrics: ControllerMetrics | None = None) -> AsyncIterator[tuple[Statuses, Mirror]]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        async with serving(app) as url, client_of(url) as client:
            mirror = Mirror(client)
            events = EventRecorder(client, "test", clock=lambda: self.now)
            yield Statuses(client, mirror, events, lambda: self.now, metrics), mirror


def run_of(version: str, status: RunStatus | None = RUNNING) -> RunObject:
    meta = ObjectMeta(name="bert", namespace="vision", uid="u1", resource_version=version)
    return RunObject(metadata=meta, spec=msgspec.Raw(b"{}"), status=status)


@pytest.mark.parametrize(("stored", "is_believed"), [("5", True), ("9", False)])
async def test_a_write_undone_by_a_restored_backup_is_not_waited_for(stored: str, is_believed: bool) -> None:
    """The API server is asked after a while. If it has the write, the mirror is only slow."""
    scene, old = Scene(), run_of("5")
    async with scene.statuses() as (statuses, _):
        assert statuses.is_shown(old), "nothing was written here"
        assert await statuses.write(old, RUNNING) == "9"
        assert not statuses.is_shown(old)
        assert statuses.is_shown(run_of("9"))
        scene.stored = stored
        scene.now += UNSEEN_PATIENCE - MOMENT
        await statuses.doubt(old)
        assert not statuses.is_shown(old), "it may still come"
        scene.now += MOMENT
        await statuses.doubt(old)
        assert statuses.is_shown(old) == is_believed


async def test_the_number_of_attempts_survives_a_wiped_status() -> None:
    """The writer remembers it. Another run with the same name begins at the first attempt."""
    scene, three = Scene(), msgspec.structs.replace(RUNNING, attempts=3)
    async with scene.statuses() as (statuses, _):
        assert not statuses.knows(run_of("5"))
        await statuses.write(run_of("5"), three)
        wiped = run_of("10", None)
        assert statuses.knows(wiped)
        assert statuses.current_status(wiped).attempts == 3
        statuses.note_attempts(wiped, 2)
        assert statuses.current_status(wiped).attempts == 3
        later = run_of("11", msgspec.structs.replace(RUNNING, attempts=4))
        assert statuses.current_status(later).attempts == 4
        other = msgspec.structs.replace(wiped, metadata=msgspec.structs.replace(wiped.metadata, uid="u2"))
        assert not statuses.knows(other) and statuses.current_status(other).attempts == 0


async def test_created_pods_are_waited_for_for_a_limited_time() -> None:
    """Pods that the mirror showed at any time are not waited for."""
    scene, run = Scene(), run_of("9")
    async with scene.statuses() as (statuses, mirror):
        mirror.pods["vision", "bert-1-0"] = Pod(metadata=ObjectMeta(name="bert-1-0", namespace="vision"))
        statuses.note_made(KEY, "u1", 1, ["bert-1-0", "bert-1-1"])
        assert not statuses.is_shown(run)
        statuses.note_seen(KEY, "bert-1-1")
        assert statuses.is_shown(run)
        statuses.note_made(KEY, "u1", 1, ["bert-1-2"])
        scene.now += UNSEEN_PATIENCE - MOMENT
        assert not statuses.is_shown(run)
        scene.now += MOMENT
        assert statuses.is_shown(run)
        statuses.note_made(KEY, "u1", 1, ["bert-1-3"])
        statuses.forget(KEY)
        assert statuses.is_shown(run), "another run of that name has nothing to do with it"


async def test_phases_are_written_at_once_and_counts_once_a_second() -> None:
    scene, run = Scene(), run_of("9")
    more = msgspec.structs.replace(RUNNING, members=MemberCounts(total=4, running=4))
    over = msgspec.structs.replace(RUNNING, phase=Phase.SUCCEEDED)
    async with scene.statuses() as (statuses, _):
        assert statuses.may_write(KEY, RUNNING, more), "nothing was written yet"
        await statuses.write(run, RUNNING)
        scene.now += STATUS_INTERVAL - MOMENT
        assert not statuses.may_write(KEY, RUNNING, more)
        assert statuses.may_write(KEY, RUNNING, over)
        assert statuses.may_write(KEY, None, more)
        scene.now += MOMENT
        assert statuses.may_write(KEY, RUNNING, more)


async def test_the_progress_of_a_start_is_written_later_under_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of the run, another attempt, and failures are written at once."""
    monkeypatch.setattr(ConcurrencyLimiter, "is_full", property(lambda _: True))
    scene = Scene()
    attempt = Attempt(number=1, nodes="a")
    placed = RunStatus(phase=Phase.STARTING, reason=Reason.CREATING, attempt=attempt, attempts=1)
    made = msgspec.structs.replace(placed, attempt=Attempt(number=1, nodes="a", created=True))
    runs = msgspec.structs.replace(made, phase=Phase.RUNNING, reason=Reason.NONE)
    async with scene.statuses() as (statuses, _):
        await statuses.write(run_of("8", placed), placed)
        for later in (made, runs):
            assert not statuses.may_write(KEY, placed, later)
        for turn in (
            msgspec.structs.replace(runs, phase=Phase.SUCCEEDED),
            msgspec.structs.replace(runs, phase=Phase.FAILED),
            msgspec.structs.replace(runs, attempt=Attempt(number=2, nodes="a"), attempts=2),
            msgspec.structs.replace(runs, restarts=1),
            msgspec.structs.replace(runs, interruptions=1),
        ):
            assert statuses.may_write(KEY, placed, turn)
        scene.now += BUSY_INTERVAL - MOMENT
        assert not statuses.may_write(KEY, placed, made)
        scene.now += MOMENT
        assert statuses.may_write(KEY, placed, made)
        monkeypatch.undo()
        scene.now -= BUSY_INTERVAL
        assert statuses.may_write(KEY, placed, made), "without load it is written at once"


async def test_created_pods_are_known_before_the_status_is_written() -> None:
    """This holds for this attempt of this run only, and not after a restored backup made the number available again."""
    scene = Scene()
    placed = RunStatus(phase=Phase.STARTING, attempt=Attempt(number=2, nodes="a"), attempts=2)

    def made_by(statuses: Statuses, run: RunObject) -> bool:
        attempt = statuses.current_status(run).attempt
        return attempt is not None and attempt.created

    async with scene.statuses() as (statuses, _):
        run = run_of("9", placed)
        assert not made_by(statuses, run)
        statuses.note_made(KEY, "u1", 2, ["bert-2-0"])
        assert made_by(statuses, run)
        assert statuses.current_status(run_of("9", RUNNING)) is RUNNING
        for uid, number in (("u1", 1), ("u1", 3), ("u2", 2)):
            statuses.note_made(KEY, uid, number, ["bert-2-0"])
            assert not made_by(statuses, run)
        statuses.note_made(KEY, "u1", 2, ["bert-2-0"])
        await statuses.write(run, placed)
        assert not made_by(statuses, run)


async def test_each_change_of_phase_is_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of the node request are events as well; a changed message is none."""
    scene, events = Scene(), list[tuple[str, str]]()
    waits = RunStatus(phase=Phase.QUEUED, reason=Reason.PROVISIONING_NODES, queued_at="2026-11-21T00:00:00Z")
    asked = NodeRequest(pool="spot", nodes=2, attempt=1, number=1)
    states = [RequestState.ASKED, RequestState.PROVISIONED, RequestState.PROVISIONED, RequestState.FAILED]
    monkeypatch.setattr(EventRecorder, "emit", lambda _, about, kind, reason, message: events.append((kind, reason)))
    async with scene.statuses() as (statuses, _):
        before: RunStatus | None = None
        for message, state in enumerate(states):
            request = msgspec.structs.replace(asked, state=state)
            after = msgspec.structs.replace(waits, node_request=request, message=str(message))
            await statuses.write(run_of("9", before), after)
            before = after
        assert events == [
            ("Normal", "ProvisioningNodes"),
            ("Normal", "NodesProvisioned"),
            ("Warning", "NodesNotProvisioned"),
        ]
        events.clear()
        assert before is not None
        again = msgspec.structs.replace(before, phase=Phase.QUEUED, reason=Reason.NODE_LOST, interruptions=1)
        await statuses.write(run_of("9", before), again)
        await statuses.write(run_of("9", again), msgspec.structs.replace(again, phase=Phase.FAILED))
        resumed = RunStatus(phase=Phase.QUEUED, reason=Reason.NOT_PLANNED_YET, queued_at="2026-11-21T01:00:00Z")
        await statuses.write(run_of("9", again), resumed)  # a resumed run's counts begin again; that is no setback
        assert events == [("Warning", "NodeLost"), ("Warning", "NodeLost"), ("Normal", "NotPlannedYet")]
        events.clear()
        first = preempt(RUNNING, Preempted(by="team/a", uid="a", ranks="1"))
        assert first.preemption is not None
        second = preempt(first, Preempted(by="team/b", uid="b", ranks="2", others=first.preemption.each))
        for before, after in (
            (RUNNING, first),
            (first, second),
            (second, msgspec.structs.replace(second, message="x")),
        ):
            await statuses.write(run_of("9", before), after)
        assert events == [("Warning", "Preempted"), ("Warning", "Preempted")]
        events.clear()
        stopping = msgspec.structs.replace(RUNNING, reason=Reason.STOPPING, message="asked to restart")
        ended = msgspec.structs.replace(RUNNING, phase=Phase.STOPPED, reason=Reason.RESTARTED_BY_USER)
        await statuses.write(run_of("9"), stopping)
        await statuses.write(run_of("9", stopping), ended)
        await statuses.write(run_of("9", ended), resumed)
        await statuses.write(run_of("9", resumed), ended)  # it waited: no members had to end first
        assert [reason for _, reason in events] == ["Stopping", "NotPlannedYet", "RestartedByUser"]


async def test_setbacks_ends_and_preemptions_are_counted_by_reason() -> None:
    """A setback counts once, however often the status is written while it lasts; so do an end and a preemption. A run
    that `docker create` made, and that was never started, has not ended."""
    scene, metrics = Scene(), ControllerMetrics.unread()
    preemption = Preempted(by="nlp/gpt", uid="u2", who="nlp/gpt", guaranteed=True)
    lost = RunStatus(phase=Phase.RESTARTING, reason=Reason.NODE_LOST, interruptions=1, queued_at=RUNNING.queued_at)
    failed = msgspec.structs.replace(lost, phase=Phase.FAILED, reason=Reason.PROGRAM_FAILED)
    grown = RunStatus(phase=Phase.RESTARTING, reason=Reason.GROWS, interruptions=1, queued_at=RUNNING.queued_at)
    async with scene.statuses(metrics) as (statuses, _):
        await statuses.write(run_of("1"), lost)
        await statuses.write(run_of("2", lost), msgspec.structs.replace(lost, message="other words"))
        await statuses.write(run_of("3", lost), failed)
        await statuses.write(run_of("4"), grown)
        created = RunStatus(phase=Phase.STOPPED, reason=Reason.NOT_STARTED, queued_at=RUNNING.queued_at)
        await statuses.write(run_of("7"), created)
        asked = preempt(RUNNING, preemption)
        await statuses.write(run_of("5"), asked)
        await statuses.write(run_of("6", asked), msgspec.structs.replace(asked, message="other words"))
    assert counted(metrics, FAILURES) == {"NodeLost": 1, "ProgramFailed": 1}
    assert counted(metrics, RUNS_ENDED) == {"Failed": 1}
    assert counted(metrics, PREEMPTIONS) == {"guarantee": 1}


def counted(metrics: ControllerMetrics, name: str) -> dict[str, float]:
    """Return a counter's values above 0 by its only label."""
    samples = (sample for family in metrics.registry.collect() for sample in family.samples if sample.name == name)
    return {next(iter(sample.labels.values())): sample.value for sample in samples if sample.value}


async def test_a_preemption_is_one_event_and_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both appear when it is decided and name the preemptor; there are none when its members end or when the run
    waits."""
    scene, events = Scene(), list[tuple[str, str]]()
    monkeypatch.setattr(EventRecorder, "emit", lambda _, about, kind, reason, message: events.append((reason, message)))
    asked = Preempted(by="nlp/gpt", uid="u2", who="nlp/gpt (high, of bob)")
    first = preempt(RUNNING, asked)
    ending = msgspec.structs.replace(first, phase=Phase.RESTARTING, interruptions=1)
    waits = keep_waiting(ending, Reason.WAITING_FOR_GPU, "needs 8 h100")
    assert waits.reason is Reason.PREEMPTED and waits.message.startswith("preempted by nlp/gpt (high, of bob)")
    async with scene.statuses() as (statuses, _):
        with caplog.at_level("INFO", "kajitori"):
            for before, after in ((RUNNING, first), (first, ending), (ending, waits)):
                await statuses.write(run_of("9", before), after)
    assert events == [("Preempted", "preempted by nlp/gpt (high, of bob)")]
    (record,) = caplog.records
    assert record.getMessage() == "run vision/bert: Preempted: preempted by nlp/gpt (high, of bob)"
    assert vars(record)["run"] == "vision/bert"
