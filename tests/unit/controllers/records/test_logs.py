"""The end of a log is kept before its Pod is deleted, and what a member writes while it ends is added."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kajitori.blobs.logs import KeptLogs, MemberLogName
from kajitori.blobs.stores.opening import open_blobs
from kajitori.controllers.records import logs
from kajitori.controllers.records.logs import LogKeeper
from kajitori.controllers.runs.attempts import RunReference
from kajitori.core.gang import DeleteMember, Member, MemberState
from kajitori.core.policy.model import Logs as Rules
from kajitori.errors import InvalidInput, StorageFull, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.kube.events import About, EventRecorder
from kajitori.monitoring.controller import LOGS_LOST, LOGS_WAITING, ControllerMetrics

RUN = RunReference("vision", "bert", "run")
OVER = Member(1, 2, "bert-2-1", "uid", MemberState.FAILED, node="n7")
DELETION = DeleteMember("bert-2-1", "uid", 0)
RUNS = Member(0, 2, "bert-2-0", "uid", MemberState.RUNNING)


class Stream:
    """A log that ends when the test sets `ending`, or that has ended already."""

    def __init__(self, pieces: list[bytes], ending: asyncio.Event | None = None, last: bytes = b"") -> None:
        self._pieces, self._ending, self._last = pieces, ending, last

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._ending is not None:
            await self._ending.wait()
            yield self._last

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class RecordedEvents:
    """Records Events in place of an `EventRecorder`."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str]] = []
        self.any = asyncio.Event()

    def emit(self, about: About, kind: str, reason: str, message: str) -> None:
        assert (about.kind, about.name, kind) == ("Run", "bert", "Warning")
        self.recorded.append((reason, message))
        self.any.set()


class FakeLogClient:
    """A client that serves logs from memory: bytes, an error, or None for a log that never answers. An iterator gives
    one of these for each request."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.ending = asyncio.Event()

    async def open_log(self, namespace: str, pod: str, *, follow: bool, **more: Any) -> Stream:
        answer = self.answers[pod.replace("-", "_")]
        if isinstance(answer, Iterator):
            answer = next(answer)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        return Stream(answer, self.ending, b"2 bye\n") if follow else Stream(answer)


async def kept_in(folder: Path) -> KeptLogs:
    return KeptLogs(await open_blobs(folder.as_uri()))


async def read(kept: KeptLogs, member: Member) -> bytes:
    name = MemberLogName("vision", "run", member.attempt, member.rank)
    return b"".join([piece async for piece in kept.read(name)])


async def test_lines_written_while_a_member_ends_are_added(tmp_path: Path) -> None:
    kept = await kept_in(tmp_path)
    client = FakeLogClient(bert_2_0=[b"0 hello\n", b"1 step\n"])
    keeper = LogKeeper(cast(KubeClient, client), kept)
    await keeper.keep_ending(RUN, [RUNS], size_bytes=1000, grace_seconds=5)
    assert await read(kept, RUNS) == b"0 hello\n1 step\n"
    client.ending.set()
    await asyncio.gather(*keeper._following)
    assert await read(kept, RUNS) == b"0 hello\n1 step\n2 bye\n"
    await keeper.close()


async def test_the_next_controller_keeps_the_lines_that_a_member_writes_while_it_ends(tmp_path: Path) -> None:
    """The one that deleted the Pod was killed before the member ended. Each log is followed once."""
    kept = await kept_in(tmp_path)
    client = FakeLogClient(bert_2_0=[b"0 hello\n", b"1 step\n"])
    keeper = LogKeeper(cast(KubeClient, client), kept)
    ending = replace(RUNS, terminating=True, grace_seconds=30)
    for _ in range(2):
        await keeper.keep_terminating(RUN, [ending, replace(RUNS, uid="not deleted", pod="none")], Rules())
    assert len(keeper._following) == 1
    client.ending.set()
    await asyncio.gather(*keeper._following)
    assert await read(kept, ending) == b"0 hello\n1 step\n2 bye\n"
    await keeper.close()


async def test_a_pod_that_is_kept_for_its_exit_code_waits_until_its_log_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member has ended while no controller ran, and its kubelet does not serve logs yet."""
    monkeypatch.setattr(logs, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(logs, "FIRST_PAUSE_SECONDS", 0.0)
    kept = await kept_in(tmp_path)
    client = FakeLogClient(bert_2_1=iter([Unavailable("no kubelet"), [b"0 bye\n"]]))
    woken = asyncio.Event()
    keeper = LogKeeper(cast(KubeClient, client), kept, wake=lambda *_: woken.set())
    held = replace(OVER, terminating=True, kept_for_exit_code=True)
    assert await keeper.keep_terminating(RUN, [held], Rules()) == {"uid"}
    await woken.wait()
    assert await keeper.keep_terminating(RUN, [held], Rules()) == frozenset()
    assert await read(kept, held) == b"0 bye\n"
    assert await keeper.keep_terminating(RUN, [replace(held, node_ready=False)], Rules()) == frozenset()
    await keeper.close()


async def test_a_running_member_is_read_again_if_its_kubelet_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart of `kaji up` the kubelet may answer a moment later than the controller deletes the member."""
    monkeypatch.setattr(logs, "TRY_AGAIN_SECONDS", 0.0)
    kept = await kept_in(tmp_path)
    away = Unavailable("no kubelet")
    client = FakeLogClient(bert_2_0=iter([away, away, [b"0 hello\n"], away, [b"0 hello\n", b"1 step\n"]]))
    keeper = LogKeeper(cast(KubeClient, client), kept)
    await keeper.keep_ending(RUN, [RUNS], size_bytes=1000, grace_seconds=5)
    assert await read(kept, RUNS) == b"0 hello\n"
    client.ending.set()
    await asyncio.gather(*keeper._following)
    assert await read(kept, RUNS) == b"0 hello\n1 step\n2 bye\n"
    await keeper.close()


@pytest.mark.parametrize("size_bytes", [16, 17, 20, 34, 35, 1000])
async def test_only_the_end_is_kept_in_whole_lines(tmp_path: Path, size_bytes: int) -> None:
    """A notice says so, with a timestamp earlier than all lines."""
    kept = await kept_in(tmp_path)
    text = b"".join(b"%d line\n" % number for number in range(5))
    keeper = LogKeeper(cast(KubeClient, FakeLogClient(bert_2_1=[text[:10], text[10:12], text[12:]])), kept)
    await keeper.keep_ended(RUN, OVER, size_bytes=size_bytes, within_seconds=60)
    notice, newline, end = (await read(kept, OVER)).partition(b"were kept (policy: logs.perMember)\n")
    if not newline:
        notice, end = b"", notice
    assert notice.startswith(b"0001-01-01T00:00:00.000000000Z kaji: only the last ") or end == text
    before = text.removesuffix(end)
    assert before + end == text
    assert before.endswith(b"\n") or not before
    assert size_bytes - 2 * len(b"0 line\n") < len(end) <= size_bytes or end == text


async def test_a_pod_is_left_until_its_log_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node may take any time to answer; only the deletion of this Pod waits for it."""
    monkeypatch.setattr(logs, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(logs, "WAIT_SECONDS", 0.0)
    kept, woken = await kept_in(tmp_path), asyncio.Event()
    client = FakeLogClient(bert_2_1=Unavailable("its node is away"))
    keeper = LogKeeper(cast(KubeClient, client), kept, wake=lambda *_: woken.set())
    for _ in range(3):  # the run may be reconciled for any reason meanwhile
        assert await keeper.keep_before(RUN, [DELETION], [OVER], Rules()) == {OVER.uid}
        assert keeper.due_deletions(RUN) == []
    client.answers["bert_2_1"] = [b"0 broken\n"]
    await woken.wait()
    assert await read(kept, OVER) == b"0 broken\n"
    assert keeper.due_deletions(RUN) == [DELETION]
    assert await keeper.keep_before(RUN, [DELETION], [OVER], Rules()) == frozenset()
    await keeper.close()


async def test_nothing_is_remembered_of_a_forgotten_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a log could not be read, and the deletion of its Pod was put off until the run was deleted."""
    monkeypatch.setattr(logs, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(logs, "REPORT_AFTER_SECONDS", 0.0)
    client, events = FakeLogClient(bert_2_1=Unavailable("its node is away")), RecordedEvents()
    keeper = LogKeeper(cast(KubeClient, client), await kept_in(tmp_path), events=cast(EventRecorder, events))
    assert await keeper.keep_before(RUN, [DELETION], [OVER], Rules()) == {OVER.uid}
    await events.any.wait()
    assert keeper._ended and keeper._postponed and keeper._reported_attempts
    await keeper.forget(RUN.namespace, RUN.uid)
    assert not (keeper._ended or keeper._postponed or keeper._reported_attempts)
    await keeper.close()


@pytest.mark.parametrize("store_fails", [False, True])
async def test_a_log_that_is_given_up_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_fails: bool
) -> None:
    """Events name its rank and the cause, and a metric counts it; then its Pod is deleted."""
    monkeypatch.setattr(logs, "FIRST_PAUSE_SECONDS", 1.0)
    monkeypatch.setattr(logs, "REPORT_AFTER_SECONDS", 0.0)
    kept = await kept_in(tmp_path)

    async def refuse(name: MemberLogName, content: bytes) -> None:
        raise StorageFull("the store file:///x is full")

    if store_fails:
        monkeypatch.setattr(kept, "keep", refuse)
    events, metrics = RecordedEvents(), ControllerMetrics.unread()
    client = FakeLogClient(bert_2_1=[b"0 broken\n"] if store_fails else Unavailable("no route to host"))
    keeper = LogKeeper(cast(KubeClient, client), kept, events=cast(EventRecorder, events), metrics=metrics)
    waits = asyncio.create_task(keeper.keep_ended(RUN, OVER, size_bytes=1000, within_seconds=600))
    await events.any.wait()
    assert metrics.registry.get_sample_value(LOGS_WAITING) == 1
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    await keeper.keep_ended(RUN, OVER, size_bytes=1000, within_seconds=0)
    why = "its log can't be stored: the store file:///x is full"
    why = why if store_fails else "its log on n7 can't be read: no route to host"
    assert events.recorded == [
        ("LogNotKeptYet", f"rank 1 of attempt 2: {why}; its Pod stays for up to 10m (policy: logs.keepWithin)"),
        ("LogLost", f"rank 1 of attempt 2: {why}; it is given up after 0s"),
    ]
    assert metrics.registry.get_sample_value(LOGS_WAITING) == 0
    assert metrics.registry.get_sample_value(LOGS_LOST) == 1


async def test_a_container_that_never_began_is_not_waited_for(tmp_path: Path) -> None:
    answer = InvalidInput.one("", "container main is waiting to start")
    keeper = LogKeeper(cast(KubeClient, FakeLogClient(bert_2_1=answer)), await kept_in(tmp_path))
    assert await keeper.keep_before(RUN, [DELETION], [OVER], Rules()) == frozenset()
    await keeper.close()


async def test_members_that_hold_nodes_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their logs are read before they are ended only if that takes a moment."""
    monkeypatch.setattr(logs, "BEFORE_END_SECONDS", 0.05)
    keeper = LogKeeper(cast(KubeClient, FakeLogClient(bert_2_0=None)), await kept_in(tmp_path))
    await keeper.keep_ending(RUN, [RUNS], size_bytes=1000, grace_seconds=0)
    assert len(keeper._following) == 1
    await keeper.close()


async def test_the_last_attempt_is_found_from_kept_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of other runs do not count. It is 0 if the store does not answer."""
    kept = await kept_in(tmp_path)
    keeper = LogKeeper(cast(KubeClient, FakeLogClient()), kept)
    for uid, attempt in (("u1", 1), ("u1", 4), ("u2", 9)):
        await kept.keep(MemberLogName("vision", uid, attempt, 0), b"x")
    assert await keeper.last_attempt("vision", "u1") == 4
    assert await keeper.last_attempt("vision", "u3") == 0

    async def refuse(namespace: str, run_uid: str) -> list[Any]:
        raise Unavailable("no store")

    monkeypatch.setattr(kept, "of_run", refuse)
    assert await keeper.last_attempt("vision", "u1") == 0


@pytest.mark.parametrize(("of_sweep", "left"), [(False, [(30, 1)]), (True, [(2, 5), (30, 1)])])
async def test_logs_of_old_attempts_are_removed_but_not_a_sweeps(
    tmp_path: Path, of_sweep: bool, left: list[tuple[int, int]]
) -> None:
    """In a sweep, attempt 2 may be the last one of one member and attempt 30 the last one of another."""
    kept = await kept_in(tmp_path)
    await kept.keep(MemberLogName("vision", "run", 2, 5), b"0 long ago\n")
    keeper = LogKeeper(cast(KubeClient, FakeLogClient(bert_30_1=[b"0 broken\n"])), kept)
    now = Member(1, 30, "bert-30-1", "uid", MemberState.FAILED)
    actions = [DeleteMember("bert-30-1", "uid", 0)]
    await keeper.keep_before(RUN, actions, [now], Rules(attempts=10), of_sweep=of_sweep)
    assert [(log.attempt, log.rank) for log in await kept.of_run("vision", "run")] == left
