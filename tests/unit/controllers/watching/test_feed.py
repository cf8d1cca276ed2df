"""The feed of telemetry: each interval of a running run reaches the watchers once, in the order of time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import msgspec
import pytest

from kajitori.blobs.stores.blobs import Blobs
from kajitori.blobs.stores.opening import open_blobs
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RunObject
from kajitori.controllers.watching import feed as feeds
from kajitori.controllers.watching.feed import Feed, Round
from kajitori.core.formats.times import format_time, time_at
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import MemberCounts
from kajitori.core.telemetry.bands import Band, Place
from kajitori.core.telemetry.levels import Interval
from kajitori.errors import Unavailable
from kajitori.history import telemetry
from kajitori.history.store import History
from kajitori.kube.metadata import ObjectMeta

NOON = 2_000_000_040 - 2_000_000_040 % 60


class Shown:
    """Stands for a mirror: the runs that are put in."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], RunObject] = {}

    def show(self, uid: str, phase: Phase = Phase.RUNNING, *, started: int = NOON - 7200, members: int = 1) -> None:
        counts = MemberCounts(total=members)
        status = RunStatus(phase=phase, started_at=format_time(time_at(started)), members=counts)
        meta = ObjectMeta(name=uid, namespace="team", uid=uid)
        self.runs["team", uid] = RunObject(metadata=meta, status=status)


class Noted:
    """A watcher that notes what it is given."""

    def __init__(self) -> None:
        self.starts: dict[str, list[int]] = {}
        self.until = 0

    def save_state(self) -> bytes:
        return msgspec.msgpack.encode(self.starts)

    def restore_state(self, state: bytes) -> None:
        self.starts = msgspec.msgpack.decode(state, type=dict[str, list[int]]) if state else {}

    async def watch(self, seen: Round) -> None:
        self.until = seen.until
        self.starts = {uid: known for uid, known in self.starts.items() if uid in seen.runs}
        for uid, intervals in seen.fresh.items():
            self.starts.setdefault(uid, []).extend((each.start - NOON) // 60 for each in intervals)


class Broken:
    """A watcher that fails."""

    async def watch(self, seen: Round) -> None:
        raise Unavailable("the API server does not answer")

    def save_state(self) -> bytes:
        return b""

    def restore_state(self, state: bytes) -> None:
        assert not state


class Setting:
    """A feed with its history, mirror and clock."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.mirror = Shown()
        self.noted = Noted()
        self.seconds = float(NOON)
        self.feed = self.another(self.noted)

    def another(self, noted: Noted, blobs: Blobs | None = None) -> Feed:
        return Feed(
            self.history,
            cast(Mirror, self.mirror),
            [Broken(), noted],
            lambda: datetime.fromtimestamp(self.seconds, UTC),
            blobs,
        )

    async def store(self, *numbers: int, uid: str = "a") -> None:
        """Store minutes of a run, counted from noon."""
        band = Band(1, 1.0, 1.0, 1.0, 1.0, 1.0, Place(0), Place(0))
        rows = [Interval(uid, 1, 60, NOON + 60 * number, 1, {"cpu.used": band}) for number in numbers]
        await self.history.record_telemetry(rows)

    async def look_at(self, number: int) -> None:
        """Look when this minute has just settled."""
        self.seconds = NOON + 60 * (number + 1) + feeds.SETTLE_SECONDS
        await self.feed.look()


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    history = History(f"sqlite://{tmp_path}/history.db")
    yield Setting(history)
    await history.close()


async def test_each_minute_is_handed_out_once_and_in_order(setting: Setting) -> None:
    setting.mirror.show("a")
    await setting.store(0, 1, 2)
    await setting.look_at(1)
    assert setting.noted.starts == {"a": [0, 1]}, "the third minute has not settled"
    assert setting.noted.until == NOON + 120
    await setting.feed.look()
    await setting.store(3)
    await setting.look_at(4)
    assert setting.noted.starts == {"a": [0, 1, 2, 3]}
    assert setting.noted.until == NOON + 240, "of the minute after it nothing is stored"


async def test_minutes_that_servers_store_late_are_handed_out_then(setting: Setting) -> None:
    setting.mirror.show("a")
    await setting.store(0)
    await setting.look_at(0)
    await setting.look_at(9)
    assert setting.noted.until == NOON + 60
    await setting.store(1, 2, 3, 4, 5)
    await setting.look_at(9)
    assert setting.noted.starts == {"a": [0, 1, 2, 3, 4, 5]}


async def test_only_running_runs_are_read_and_others_are_forgotten(setting: Setting) -> None:
    setting.mirror.show("a")
    setting.mirror.show("queued", Phase.QUEUED)
    await setting.store(0)
    await setting.store(0, uid="queued")
    await setting.look_at(0)
    assert setting.noted.starts == {"a": [0]}
    setting.mirror.show("a", Phase.RESTARTING)
    await setting.store(1)
    await setting.look_at(1)
    assert setting.noted.starts == {}


async def test_a_run_that_comes_back_is_read_from_its_past(setting: Setting) -> None:
    setting.mirror.show("a", Phase.RESTARTING)
    await setting.store(0, 1)
    await setting.look_at(1)
    setting.mirror.show("a")
    await setting.store(2)
    await setting.look_at(2)
    assert setting.noted.starts == {"a": [0, 1, 2]}


async def test_a_run_that_has_just_started_needs_no_look_at_its_past(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting.mirror.show("a")
    await setting.store(0)
    await setting.look_at(0)
    monkeypatch.setattr(History, "telemetry", None)  # a call fails
    setting.mirror.show("new", started=NOON + 70)
    await setting.store(1, 2)
    await setting.store(2, uid="new")
    await setting.look_at(2)
    assert setting.noted.starts == {"a": [0, 1, 2], "new": [2]}


async def test_a_new_leader_gets_the_last_day_and_continues(setting: Setting) -> None:
    setting.mirror.show("a")
    await setting.store(-1500, -100, 0)
    await setting.look_at(0)
    again = Noted()
    setting.feed = setting.another(again)
    await setting.look_at(0)
    assert again.starts == setting.noted.starts == {"a": [-100, 0]}
    await setting.store(1)
    await setting.look_at(1)
    assert again.starts == {"a": [-100, 0, 1]}


async def test_a_new_leader_continues_where_the_last_one_was(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads the minutes since then, and the past of runs alone that the last one had not read."""
    blobs = await open_blobs((tmp_path / "blobs").as_uri(), field="--blobs")
    setting.feed = setting.another(setting.noted, blobs)
    setting.mirror.show("a")
    await setting.store(0, 1)
    await setting.look_at(1)
    for minute in range(2, 5):
        setting.mirror.show("over", started=NOON + 60 * minute)
        await setting.store(minute)
        await setting.look_at(minute)
    setting.mirror.show("over", Phase.SUCCEEDED)
    setting.mirror.show("other")
    await setting.store(0, 5, uid="other")
    await setting.store(5, 6)
    asked: list[str] = []
    read = History.telemetry

    async def noted_read(self: History, uid: str, since: int, until: int) -> list[Interval]:
        asked.append(uid)
        return await read(self, uid, since, until)

    monkeypatch.setattr(History, "telemetry", noted_read)
    again = Noted()
    setting.feed = setting.another(again, blobs)
    await setting.look_at(6)
    assert again.starts == {"a": [0, 1, 2, 3, 4, 5, 6], "other": [0, 5]}
    assert asked == ["other"]


@pytest.mark.parametrize("trouble", ["old", "version", "damaged"])
async def test_states_that_cannot_be_used_are_not(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """Then the last day is read."""
    blobs = await open_blobs((tmp_path / "blobs").as_uri(), field="--blobs")
    setting.feed = setting.another(setting.noted, blobs)
    setting.mirror.show("a")
    await setting.store(0)
    await setting.look_at(0)
    await setting.feed._save_states(NOON + 60)
    later = 1
    if trouble == "old":
        later = 70
    elif trouble == "version":
        monkeypatch.setattr(feeds, "STATES_VERSION", feeds.STATES_VERSION + 1)
    else:
        await blobs.put(feeds.STATES_KEY, b"\x28\xb5\x2f\xfd not this")
    await setting.store(later)
    again = Noted()
    setting.feed = setting.another(again, blobs)
    await setting.look_at(later)
    assert again.starts == {"a": [0, later]}


async def test_runs_with_many_members_are_read_first(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "READ_SECONDS", 0.0)
    for uid, members in (("small", 1), ("large", 512), ("middle", 64)):
        setting.mirror.show(uid, members=members)
        await setting.store(0, uid=uid)
    for known in (["large"], ["large", "middle"], ["large", "middle", "small"]):
        await setting.look_at(0)
        assert list(setting.noted.starts) == known


async def test_the_past_of_many_runs_is_read_in_several_rounds(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "READ_SECONDS", 0.0)
    for uid in ("a", "b"):
        setting.mirror.show(uid)
        await setting.store(0, uid=uid)
    await setting.look_at(0)
    assert len(setting.noted.starts) == 1, "the time of a round is over after one run"
    await setting.look_at(0)
    assert setting.noted.starts == {"a": [0], "b": [0]}


async def test_much_of_the_past_is_handed_out_in_pieces(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """So memory is bounded. One round has the past of several runs if there is time."""
    monkeypatch.setattr(feeds, "INTERVALS_AT_ONCE", 2)
    for uid in ("a", "b", "c"):
        setting.mirror.show(uid)
        await setting.store(0, 1, uid=uid)
    handed: list[int] = []
    watch = Noted.watch

    async def counted(self: Noted, seen: Round) -> None:
        handed.append(sum(map(len, seen.fresh.values())))
        await watch(self, seen)

    monkeypatch.setattr(Noted, "watch", counted)
    await setting.look_at(1)
    assert [number for number in handed if number] == [2, 2, 2]
    assert setting.noted.starts == {"a": [0, 1], "b": [0, 1], "c": [0, 1]}


async def test_it_looks_when_a_minute_has_settled(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A database that does not answer is tried again, and logged once."""
    setting.mirror.show("a")
    await setting.store(0, 1)
    setting.seconds = NOON + 60 + feeds.SETTLE_SECONDS + 20.0
    slept: list[float] = []
    newest = History.newest_minute

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 3:
            raise asyncio.CancelledError
        setting.seconds += seconds

    async def failing(self: History, until: int) -> int | None:
        if len(slept) in (1, 2):
            raise Unavailable("the database does not answer")
        return await newest(self, until)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(History, "newest_minute", failing)
    with pytest.raises(asyncio.CancelledError):
        await setting.feed.follow()
    assert slept == [41.0, 60.0, 60.0, 60.0]
    assert setting.noted.starts == {"a": [0, 1]}
    assert caplog.text.count("the database does not answer") == 1


async def test_after_hours_without_bands_the_past_is_read_anew(setting: Setting) -> None:
    setting.mirror.show("a")
    await setting.store(0)
    await setting.look_at(0)
    await setting.store(120, 121)
    await setting.look_at(121)
    assert setting.noted.starts == {"a": [0, 120, 121]}


async def test_without_any_bands_nothing_is_handed_out(setting: Setting) -> None:
    setting.mirror.show("a")
    await setting.look_at(0)
    assert setting.noted.until == 0


async def test_a_minute_that_could_not_be_read_is_read_later(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    setting.mirror.show("a")
    await setting.store(0)
    await setting.look_at(0)
    await setting.store(1)
    with monkeypatch.context() as patched:
        patched.setattr(telemetry, "minute_of_runs", refuse)
        with pytest.raises(Unavailable):
            await setting.look_at(1)
    await setting.look_at(1)
    assert setting.noted.starts == {"a": [0, 1]}


def refuse(*_: object) -> AsyncIterator[list[Interval]]:
    """Stand for a database that does not answer."""
    raise Unavailable("the database does not answer")
