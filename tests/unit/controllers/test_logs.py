"""The end of a log is kept before its Pod goes, and what is said while it ends is added."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kajitori.controllers import logs
from kajitori.controllers.logs import LogKeeper
from kajitori.core.gang import DeleteMember, Member, MemberState
from kajitori.core.policy_model import Logs as Rules
from kajitori.errors import StorageFull, Unavailable
from kajitori.kube.client import KubeClient
from kajitori.store.blobs import open_blobs
from kajitori.store.logs import KeptLogs, MemberLogName

OVER = Member(1, 2, "bert-2-1", "uid", MemberState.FAILED)
RUNS = Member(0, 2, "bert-2-0", "uid", MemberState.RUNNING)


class Stream:
    """A log that ends when it is told to, or has ended already."""

    def __init__(self, said: list[bytes], ending: asyncio.Event | None = None, last: bytes = b"") -> None:
        self._said, self._ending, self._last = said, ending, last

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._said:
            yield piece
        if self._ending is not None:
            await self._ending.wait()
            yield self._last

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Logs:
    """Stands for a client: what each Pod says, or that it says nothing."""

    def __init__(self, **said: Any) -> None:
        self.said = said
        self.ending = asyncio.Event()

    async def open_log(self, namespace: str, pod: str, *, follow: bool, **more: Any) -> Stream:
        answer = self.said[pod.replace("-", "_")]
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


async def test_last_words_are_added(tmp_path: Path) -> None:
    kept = await kept_in(tmp_path)
    client = Logs(bert_2_0=[b"0 hello\n", b"1 step\n"], bert_2_1=[b"0 broken\n"])
    keeper = LogKeeper(cast(KubeClient, client), kept)
    await keeper.keep("vision", "run", [RUNS, OVER], size_bytes=1000, grace_seconds=5)
    assert await read(kept, RUNS) == b"0 hello\n1 step\n"
    assert await read(kept, OVER) == b"0 broken\n"
    client.ending.set()
    await asyncio.gather(*keeper._listening)
    assert await read(kept, RUNS) == b"0 hello\n1 step\n2 bye\n"
    await keeper.close()


@pytest.mark.parametrize("size_bytes", [16, 17, 20, 34, 35, 1000])
async def test_only_the_end_is_kept_in_whole_lines(tmp_path: Path, size_bytes: int) -> None:
    kept = await kept_in(tmp_path)
    text = b"".join(b"%d line\n" % number for number in range(5))
    keeper = LogKeeper(cast(KubeClient, Logs(bert_2_1=[text[:10], text[10:12], text[12:]])), kept)
    await keeper.keep("vision", "run", [OVER], size_bytes=size_bytes, grace_seconds=0)
    end = await read(kept, OVER)
    before = text.removesuffix(end)
    assert before + end == text
    assert before.endswith(b"\n") or not before
    assert size_bytes - 2 * len(b"0 line\n") < len(end) <= size_bytes or end == text


async def test_what_cannot_be_read_hinders_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Pod that the API server cannot ask for, and a node that never answers."""
    monkeypatch.setattr(logs, "READ_SECONDS", 0.05)
    kept = await kept_in(tmp_path)
    client = Logs(bert_2_0=Unavailable("its node is away"), bert_2_1=None)
    keeper = LogKeeper(cast(KubeClient, client), kept)
    await keeper.keep("vision", "run", [OVER, RUNS], size_bytes=1000, grace_seconds=0)
    await asyncio.gather(*keeper._listening)
    assert await kept.of_run("vision", "run") == []
    await keeper.close()


async def test_a_store_that_takes_nothing_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However many members there are; nobody else would hear of it before he misses a log."""
    kept = await kept_in(tmp_path)

    async def refuse(name: MemberLogName, content: bytes) -> None:
        raise StorageFull("the store file:///x is full")

    monkeypatch.setattr(kept, "keep", refuse)
    keeper = LogKeeper(cast(KubeClient, Logs(bert_2_0=[b"0 hello\n"], bert_2_1=[b"0 broken\n"])), kept)
    members = [OVER, replace(RUNS, state=MemberState.FAILED)]
    await keeper.keep("vision", "run", members, size_bytes=1000, grace_seconds=0)
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "the logs of 2 members could not be stored" in told and "is full" in told
    await keeper.close()


async def test_kept_logs_tell_how_many_attempts_there_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of another run's; and nothing where the store does not answer."""
    kept = await kept_in(tmp_path)
    keeper = LogKeeper(cast(KubeClient, Logs()), kept)
    for uid, attempt in (("u1", 1), ("u1", 4), ("u2", 9)):
        await kept.keep(MemberLogName("vision", uid, attempt, 0), b"x")
    assert await keeper.last_attempt("vision", "u1") == 4
    assert await keeper.last_attempt("vision", "u3") == 0

    async def refuse(namespace: str, run_uid: str) -> list[Any]:
        raise Unavailable("no store")

    monkeypatch.setattr(kept, "of_run", refuse)
    assert await keeper.last_attempt("vision", "u1") == 0


@pytest.mark.parametrize(("of_sweep", "left"), [(False, [(30, 1)]), (True, [(2, 5), (30, 1)])])
async def test_old_attempts_are_let_go_but_not_a_sweeps(
    tmp_path: Path, of_sweep: bool, left: list[tuple[int, int]]
) -> None:
    """There the second attempt may be the last one of a member that has ended, and the thirtieth that of another."""
    kept = await kept_in(tmp_path)
    await kept.keep(MemberLogName("vision", "run", 2, 5), b"0 long ago\n")
    keeper = LogKeeper(cast(KubeClient, Logs(bert_30_1=[b"0 broken\n"])), kept)
    now = Member(1, 30, "bert-30-1", "uid", MemberState.FAILED)
    actions = [DeleteMember("bert-30-1", "uid", 0)]
    await keeper.before("vision", "run", actions, [now], Rules(attempts=10), of_sweep=of_sweep)
    assert [(each.attempt, each.rank) for each in await kept.of_run("vision", "run")] == left
