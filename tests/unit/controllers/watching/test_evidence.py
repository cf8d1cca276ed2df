"""Stacks that the controller takes: several times of a run that may be stuck, once before survivors are ended."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.blobs.questions import Asked, Questions
from kajitori.blobs.stacks import KeptStacks
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.objects import Node, Pod
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.watching import evidence
from kajitori.controllers.watching.evidence import StackTaker
from kajitori.controllers.watching.stuck import Inspection
from kajitori.core.naming import names
from kajitori.core.telemetry.hangs.evidence import read
from kajitori.core.telemetry.hangs.stacks import Detail, Frame, MemberStacks, ProcessStacks, ThreadStack
from kajitori.core.telemetry.report import Answer, Series
from kajitori.core.telemetry.stuck import Finding, Verdict
from kajitori.errors import Unavailable
from kajitori.kube.metadata import ObjectMeta

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RUN = RunObject(metadata=ObjectMeta(name="bert", namespace="vision", uid="run"))
SUSPECTED = Finding(Verdict.SUSPECTED, 1200.0, 600.0, 60.0)
LONG_READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "PAUSES_SECONDS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(evidence, "SPIN_PAUSES_SECONDS", (0.0, 0.0))


def pod(rank: int, node: str, *, attempt: int = 1, phase: str = "Running") -> Pod:
    labels = {
        names.LABEL_RUN: "bert",
        names.LABEL_RUN_UID: "run",
        names.LABEL_ATTEMPT: str(attempt),
        names.LABEL_RANK: str(rank),
    }
    document = {
        "metadata": {"name": f"bert-{attempt}-{rank}", "namespace": "vision", "uid": f"p{rank}", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {
            "phase": phase,
            "podIP": f"10.0.0.{rank}",
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2026-11-21T11:00:00Z"}}}],
        },
    }
    return msgspec.convert(document, Pod)


class Nodes:
    """Stands for questions: the function in which each Pod is, by look."""

    def __init__(self, *looks: dict[str, str] | Exception) -> None:
        self.looks = list(looks)
        self.asked: list[Sequence[Asked]] = []
        self.asked_native: list[str] = []
        """Pods of which calls in native code were asked for."""
        self.details: list[str] = []
        self.line = 14
        self.unanswered: dict[str, tuple[str, ...]] = {}
        self.quiet: set[str] = set()
        """Pods that have printed nothing lately. Nodes say nothing about the others."""
        self.since: list[float] = []

    async def ask(self, asked: Sequence[Asked], seconds: float) -> dict[int, Answer]:
        if not asked[0].stacks:
            self.since.append(asked[0].since)
            return {number: self._samples(each) for number, each in enumerate(asked) if each.fresh}
        if all(each.detail == Detail.NATIVE for each in asked):
            self.asked_native += [uid for each in asked for uid in each.uids]
            return {0: Answer(stacks=tuple(map(self._native, self.asked_native)))}
        self.details.append(asked[0].detail)
        self.asked.append(asked)
        places = self.looks.pop(0) if self.looks else {}
        if isinstance(places, Exception):
            raise places
        return {
            number: Answer(stacks=tuple(self._stacks(uid, places[uid]) for uid in each.uids if uid in places))
            for number, each in enumerate(asked)
        }

    def _samples(self, asked: Asked) -> Answer:
        row, at = array("f", [1200.0]).tobytes(), array("d", [asked.since + 100]).tobytes()
        return Answer(tuple(Series(uid, at, row) for uid in asked.uids if uid in self.quiet), ("output.age",))

    def _native(self, uid: str) -> MemberStacks:
        thread = ThreadStack("MainThread", (Frame("recv", "[libc.so.6]", 0),))
        return MemberStacks(uid, NOW.timestamp(), (ProcessStacks(7, "python", "S", native=(thread,)),))

    def _stacks(self, uid: str, function: str) -> MemberStacks:
        frames = [Frame(function, "/code/train.py", 14)]
        if function.startswith("spin"):
            self.line += 1
            frames = [Frame("spin", "/code/train.py", self.line)]
        elif function == "all_reduce":
            frames = [Frame(function, "/lib/python3.12/site-packages/gang.py", 1), Frame("train", "/code/train.py", 88)]
        thread = ThreadStack("MainThread", tuple(frames), values=hash(function))
        process, silent = ProcessStacks(7, "python", "S", (thread,)), self.unanswered.get(uid, ())
        return MemberStacks(uid, NOW.timestamp(), (process,), unanswered=silent)


class Setting:
    def __init__(self, nodes: Nodes, *pods: Pod) -> None:
        ready = msgspec.convert({"metadata": {"name": "n"}, **LONG_READY}, Node)
        shown: Any = SimpleNamespace(pods_of_run=lambda run: pods, nodes={f"n{number}": ready for number in range(9)})
        self.nodes = nodes
        self.kept = KeptStacks(MemoryBlobs())
        self.taker = StackTaker(cast(Questions, nodes), self.kept, cast(Mirror, shown), lambda: NOW)

    async def words(self, attempt: int = 1) -> list[tuple[str, str, list[int]]]:
        kept = await self.kept.read("vision", "run", attempt)
        return [(each.occasion, each.told, sorted(each.ranks)) for each in kept]


GANG = [pod(rank, f"n{rank // 2}") for rank in range(4)]
STILL = {"p0": "barrier", "p1": "barrier", "p2": "barrier", "p3": "load"}


async def test_a_run_whose_processes_stand_still_is_stuck_and_the_odd_rank_is_named() -> None:
    """The status shows no code: everybody who may read the run reads it."""
    setting = Setting(Nodes(*4 * [STILL]), *GANG)
    inspection = await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    words = ("The others seem to wait for rank 3 on n1.", "For details: kaji why --attempt 1 bert")
    assert inspection == Inspection(True, words, (3,))
    assert [(each.node, each.uids) for each in setting.nodes.asked[0]] == [("n0", ("p0", "p1")), ("n1", ("p2", "p3"))]
    ((occasion, told, ranks),) = await setting.words()
    assert (occasion, ranks) == ("stuck", [0, 1, 2, 3]) and told.startswith("It is stuck")


@pytest.mark.parametrize("silent", [None, "p1"])
async def test_the_samples_of_all_ranks_show_whether_the_run_was_quiet_up_to_the_look(silent: str | None) -> None:
    setting = Setting(Nodes(*4 * [STILL]), *GANG)
    setting.nodes.quiet = STILL.keys() - {silent}
    inspection = await setting.taker.of_suspected(RUN, 1, replace(SUSPECTED, until=5000.0))
    assert (inspection.is_still, inspection.is_quiet, setting.nodes.since) == (True, silent is None, [5000.0])


async def test_native_calls_of_the_odd_rank_and_of_one_that_waits_are_kept_too() -> None:
    setting = Setting(Nodes(*4 * [STILL]), *GANG)
    await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    assert setting.nodes.asked_native == ["p0", "p3"]
    (kept,) = await setting.kept.read("vision", "run", 1)
    told = read(kept.ranks, kept.nodes, kept.addresses).native
    assert told == tuple(f"rank {rank} on n{rank // 2}, below its program: recv [libc.so.6]" for rank in (3, 0))


async def test_native_calls_are_not_asked_for_if_the_survivors_must_end() -> None:
    setting = Setting(Nodes(STILL), *GANG)
    await setting.taker.before_end(RUN, 1, "member 2: exit code 3", evidence.LEAST_NATIVE_SECONDS / 2)
    assert [occasion for occasion, _, _ in await setting.words()] == ["end"]
    assert setting.nodes.asked_native == []


async def test_a_rank_whose_messages_get_no_answer_is_the_odd_one() -> None:
    """All ranks are at the same place: they wait for each other in a collective operation."""
    alike = dict.fromkeys(STILL, "barrier")
    setting = Setting(Nodes(*4 * [alike]), *GANG)
    setting.nodes.unanswered = {"p3": ("10.0.0.1", "10.0.0.2"), "p1": ("10.0.0.3",)}
    inspection = await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    assert (inspection.is_still, inspection.odd) == (True, (3,))
    assert inspection.words[0] == "The others seem to wait for rank 3 on n1."
    (kept,) = await setting.kept.read("vision", "run", 1)
    words = read(kept.ranks, kept.nodes, kept.addresses).words()
    assert words[:2] == [
        "Rank 1 on n0 gets no answer from rank 3 (10.0.0.3).",
        "Rank 3 on n1 gets no answer from rank 1 (10.0.0.1), rank 2 (10.0.0.2).",
    ]


SPIN = dict.fromkeys(STILL, "all_reduce") | {"p3": "spin"}


async def test_a_rank_that_repeats_itself_while_the_others_wait_is_stuck() -> None:
    setting = Setting(Nodes(*6 * [SPIN]), *GANG)
    inspection = await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    assert (inspection.is_still, inspection.odd, inspection.words[1]) == (True, (3,), evidence.SPINS)
    assert setting.nodes.details == ["", "", Detail.VALUES, Detail.VALUES, ""]
    ((_, told, _),) = await setting.words()
    assert told.startswith("It is stuck") and told.endswith(evidence.SPINS)


@pytest.mark.parametrize(
    ("again", "last"),
    [
        pytest.param({"p3": "spin on other values"}, SPIN, id="it works"),
        pytest.param(SPIN, SPIN | {"p1": "load"}, id="another one went on"),
        pytest.param(SPIN, {"p0": "all_reduce"}, id="the others were not seen again"),
    ],
)
async def test_a_rank_that_moves_is_not_stuck(again: dict[str, str], last: dict[str, str]) -> None:
    setting = Setting(Nodes(SPIN, SPIN, SPIN, again, last), *GANG)
    assert (await setting.taker.of_suspected(RUN, 1, SUSPECTED)).is_still is False


async def test_a_process_that_moves_is_no_evidence_of_a_hang() -> None:
    setting = Setting(Nodes(STILL, STILL | {"p3": "decode"}), *GANG)
    inspection = await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    assert inspection.is_still is False
    ((_, told, _),) = await setting.words()
    assert told.startswith("It may be stuck, but its processes still move")


async def test_a_process_that_moves_once_in_several_seconds_is_not_stuck() -> None:
    """An evaluation may spend seconds in one call. It is asked no more once it was seen to move."""
    setting = Setting(Nodes(STILL, STILL, STILL | {"p3": "decode"}, STILL), *GANG)
    inspection = await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    assert (inspection.is_still, len(setting.nodes.asked)) == (False, 3)


async def test_nodes_that_answer_only_once_give_no_evidence() -> None:
    setting = Setting(Nodes(STILL), *GANG)
    inspection = await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    assert (inspection.is_still, inspection.odd) == (None, (3,))
    ((_, told, _),) = await setting.words()
    assert told.startswith("It may be stuck: no rank")


async def test_silent_nodes_give_no_evidence() -> None:
    setting = Setting(Nodes({}), *GANG)
    inspection = await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    assert (inspection.is_still, inspection.odd, await setting.words()) == (None, (), [])
    assert "no agent of its nodes answered" in inspection.words[0]


async def test_what_survivors_did_is_kept_once_before_they_are_ended() -> None:
    """Members that have ended, and those of other attempts, are not asked."""
    setting = Setting(Nodes(STILL, STILL), *GANG[:2], pod(2, "n1", phase="Failed"), pod(3, "n1", attempt=2))
    for _ in range(2):
        await setting.taker.before_end(RUN, 1, "member 2: exit code 3", 5.0)
    assert await setting.words() == [("end", "member 2: exit code 3", [0, 1])]
    assert len(setting.nodes.asked) == 1
    setting.taker.forget("run")


@pytest.mark.parametrize("look", [STILL, {}, Unavailable("no store")])
async def test_it_is_known_whether_nodes_answered_the_last_question_about_survivors(look: Any) -> None:
    """Before any telemetry has come, one gang waits for an answer; the next ones do not if there was none."""
    setting = Setting(Nodes(look), *GANG)
    assert setting.taker.survivors_answer
    await setting.taker.before_end(RUN, 1, "member 2: exit code 3", 5.0)
    assert setting.taker.survivors_answer is (look is STILL)


async def test_a_store_that_does_not_answer_keeps_no_gang_from_its_end() -> None:
    setting = Setting(Nodes(Unavailable("no store")), *GANG)
    await setting.taker.before_end(RUN, 1, "member 2: exit code 3", 5.0)
    assert await setting.words() == []
    await setting.taker.before_end(RUN, 2, "no time", 0.0)
    assert len(setting.nodes.asked) == 1


async def test_a_rank_that_was_seen_once_leaves_the_verdict_open() -> None:
    """The others wait, and this one may work: its node is too busy to answer. What was seen of it is kept."""
    others = {uid: place for uid, place in STILL.items() if uid != "p3"}
    setting = Setting(Nodes(STILL, *3 * [others]), *GANG)
    inspection = await setting.taker.of_suspected(RUN, 1, SUSPECTED)
    assert (inspection.is_still, inspection.odd, len(setting.nodes.asked)) == (None, (3,), 4)
    again = await Setting(Nodes(STILL, others, STILL, others), *GANG).taker.of_suspected(RUN, 1, SUSPECTED)
    assert again.is_still is True
