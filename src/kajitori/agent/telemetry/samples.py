"""Samples of this node's members and of the node itself: one of each every 15 seconds. Those of members are kept for an
hour in memory of a fixed size."""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections.abc import Callable, Mapping, Sequence

from kajitori.agent.telemetry.figures import Figures
from kajitori.agent.telemetry.gpus.readings import GpuSource, NoGpus
from kajitori.agent.telemetry.members import LocalMember, MemberSource
from kajitori.agent.telemetry.node import NodeSamples
from kajitori.agent.telemetry.ports import Ports
from kajitori.agent.telemetry.processes import Processes
from kajitori.agent.telemetry.stacks import StackReader
from kajitori.core.telemetry.hangs.stacks import Detail
from kajitori.core.telemetry.quantities import GPU, MEMBER, MINUTE_SECONDS, SAMPLE_SECONDS
from kajitori.core.telemetry.report import (
    MAX_GPUS,
    MAX_MEMBERS,
    MAX_SAVED,
    SAVED_SECONDS,
    Answer,
    MemberMinute,
    Question,
    Report,
    SavedCheckpoint,
    Series,
)
from kajitori.core.telemetry.ring import Readings, Ring, summary
from kajitori.monitoring.lasting_failure import LastingFailure

log = logging.getLogger(__name__)

KEPT_ENDED_SECONDS = 180.0
"""Time for which the samples of a member are kept after its end, so that its last minute is reported."""
FRESH_SECONDS = 1.0
"""Shortest time over which the rates of a fresh sample are averaged."""
_LATE_SECONDS = 3.0
"""If a sample is taken this much later than planned, it gets the time at which it was taken."""


class _SampledMember:
    """A member with its samples and the files of figures that are read."""

    def __init__(self, member: LocalMember) -> None:
        self.member = member
        self.processes = Processes()
        self.readings = Readings(MEMBER)
        self.ring = Ring(len(MEMBER))
        self.gpus = member.gpus[:MAX_GPUS]
        self.gpu_readings = [Readings(GPU) for _ in self.gpus]
        self.gpu_ring = Ring(len(GPU) * len(self.gpus))
        self.figures = Figures()
        self.sampled_at = 0.0
        self.seen_at = 0.0
        self.has_ended = False

    def sample(self, at: float, gpus: Mapping[str, Mapping[str, float]], ports: Mapping[str, float]) -> None:
        """Add a row to the rings."""
        self.figures.read(self.member)
        values = self.readings.sample(at, {**self.processes.read(self.member), **ports})
        self.figures.training.sample(at)
        self.ring.add(at, values)
        if self.gpus:
            row: list[float] = []
            for identifier, readings in zip(self.gpus, self.gpu_readings, strict=True):
                row += readings.sample(at, gpus.get(identifier, {}))
            self.gpu_ring.add(at, row)
        self.sampled_at = self.seen_at = at

    def fresh(
        self, at: float, gpus: Mapping[str, Mapping[str, float]], ports: Mapping[str, float]
    ) -> tuple[list[float], list[float]]:
        """Return the values since the last sample, without keeping them."""
        self.figures.read(self.member)
        values = self.readings.peek(at, {**self.processes.read(self.member), **ports})
        row: list[float] = []
        for identifier, readings in zip(self.gpus, self.gpu_readings, strict=True):
            row += readings.peek(at, gpus.get(identifier, {}))
        return values, row


class MemberSamples:
    """The samples of one node's members in the last hour. Its methods may be called from several threads."""

    def __init__(
        self,
        source: MemberSource,
        gpus: GpuSource | None = None,
        clock: Callable[[], float] = time.time,
        ports: Ports | None = None,
        node: NodeSamples | None = None,
    ) -> None:
        self._source = source
        self._gpus = gpus or NoGpus()
        self._clock = clock
        self._members: dict[str, _SampledMember] = {}
        self._lock = threading.Lock()
        self._ports = ports or Ports()
        self._node = node or NodeSamples()
        self._stack_reader = StackReader()
        self._failure = LastingFailure(log, "members of this node cannot be listed now: %s")

    def sample(self, at: float | None = None) -> None:
        """Take one sample of every member and of the node. `at` is the time for which it was planned; by default the
        present."""
        now = self._clock()
        at = at if at is not None and now - at < _LATE_SECONDS else now
        with self._lock:
            self._update_members(now)
            present = [each for each in self._members.values() if each.seen_at == now]
            gpus = self._gpus.read()
            links = self._ports.read(now) if present else {}
            for each in present:
                each.sample(at, gpus, links)
            self._node.sample(at, gpus, self._gpus.devices(), {each.member.uid: each.gpus for each in present})

    def _update_members(self, now: float) -> None:
        """Add members that have started since the last call, and remove those that ended long ago."""
        try:
            members = self._source.members()
        except OSError as error:
            self._failure.note(str(error))
            return
        self._failure.end()
        for member in members[:MAX_MEMBERS]:
            known = self._members.get(member.uid)
            if known is None or known.gpus != member.gpus[:MAX_GPUS]:
                known = self._members[member.uid] = _SampledMember(member)
            known.member, known.seen_at, known.has_ended = member, now, False
        for uid, each in list(self._members.items()):
            if each.seen_at < now:
                if not each.has_ended:
                    each.has_ended = True
                    each.figures.close()
                    each.figures.training.sample(max(each.sampled_at, now - SAMPLE_SECONDS))
                if now - max(each.seen_at, each.sampled_at) > KEPT_ENDED_SECONDS:
                    del self._members[uid]

    def report(self, minutes: Sequence[int]) -> Report:
        """Return these minutes (since 1970) of the node, and of all members that have samples in them."""
        found = []
        with self._lock:
            for minute in minutes:
                for each in self._members.values():
                    made = _minute_of(each, minute)
                    if made is not None:
                        found.append(made)
            oldest = self._clock() - SAVED_SECONDS
            saved = [
                SavedCheckpoint(each.member.namespace, each.member.pod, each.member.uid, one.since, one.until)
                for each in self._members.values()
                for one in each.figures.training.saved
                if one.until > oldest
            ]
            node = self._node.report(minutes)
        return Report(minutes=tuple(found[: 2 * MAX_MEMBERS]), saved=tuple(saved[:MAX_SAVED]), node=node)

    def answer(self, question: Question) -> Answer:
        """Return the samples or the stacks for which the question asks."""
        if question.stacks:
            return self._stacks_answer(question)
        with self._lock:
            now = self._clock()
            new = {uid for uid in question.uids if uid not in self._members} if question.fresh else set()
            if new:
                self._update_members(now)
            found = [self._members[uid] for uid in question.uids if uid in self._members]
            gpus = self._gpus.read() if question.fresh and any(each.gpus for each in found) else {}
            links = self._ports.read(now) if question.fresh else {}
            for each in found:
                if each.member.uid in new:
                    each.sample(now, gpus, links)
            return Answer(tuple(_series_of(each, question, now, gpus, links) for each in found))

    def _stacks_answer(self, question: Question) -> Answer:
        """Return the stacks for which the question asks. This takes seconds, so it holds no lock and samples are taken
        meanwhile."""
        with self._lock:
            self._update_members(self._clock())
            members = [self._members[uid].member for uid in question.uids if uid in self._members]
        known = question.detail if question.detail in list(Detail) else Detail.PLAIN
        return Answer(stacks=self._stack_reader.read(members, Detail(known)))

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for each in self._members.values():
                each.figures.close()
            self._members.clear()


def _minute_of(each: _SampledMember, minute: int) -> MemberMinute | None:
    """Return the values of one member's minute; None if it was not sampled in it."""
    after, until = float(minute * MINUTE_SECONDS), float((minute + 1) * MINUTE_SECONDS)
    rows = each.ring.between(after, until)
    if not rows:
        return None
    gpu_values = array("f")
    if each.gpus:
        gpu_rows = each.gpu_ring.between(after, until)
        for start in range(0, len(GPU) * len(each.gpus), len(GPU)):
            gpu_values.extend(summary(GPU, [row[start : start + len(GPU)] for row in gpu_rows]))
    return MemberMinute(
        each.member.namespace,
        each.member.pod,
        each.member.uid,
        minute,
        summary(MEMBER, rows).tobytes(),
        each.gpus,
        gpu_values.tobytes(),
        each.figures.training.minute(after, until),
    )


def _series_of(
    each: _SampledMember,
    question: Question,
    now: float,
    gpus: Mapping[str, Mapping[str, float]],
    links: Mapping[str, float],
) -> Series:
    times, values = each.ring.since(question.since)
    _, gpu_values = each.gpu_ring.since(question.since) if each.gpus else (None, array("f"))
    if question.fresh and now - each.sampled_at >= FRESH_SECONDS and each.seen_at >= each.sampled_at:
        row, gpu_row = each.fresh(now, gpus, links)
        times.append(now)
        values.extend(row)
        gpu_values.extend(gpu_row)
    training = {
        name: found for name, series in each.figures.training.series.items() if (found := series.since(question.since))
    }
    for name, value in each.figures.training.news.items() if question.fresh else ():
        training.setdefault(name, []).append((now, value))
    return Series(each.member.uid, times.tobytes(), values.tobytes(), each.gpus, gpu_values.tobytes(), training)


class Sampling:
    """Takes samples in a thread of its own, from `start` to `stop`, at multiples of 15 seconds of the wall clock."""

    def __init__(self, samples: MemberSamples, clock: Callable[[], float] = time.time) -> None:
        self._samples = samples
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for the thread."""
        self._stop.set()
        self._thread.join()
        self._samples.close()

    def _run(self) -> None:
        due = self._clock()
        while True:
            try:
                self._samples.sample(due)
            except Exception:
                log.exception("a sample failed, which is a bug; the next one is taken in %d s", SAMPLE_SECONDS)
            due = (self._clock() // SAMPLE_SECONDS + 1) * SAMPLE_SECONDS
            if self._stop.wait(max(0.0, due - self._clock())):
                return
