"""A watch delivers the server's state whatever fails meanwhile, and each change once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from tests.unit.kube.fake_api import FakeApi, Naps, WatchFault, client_of, eventually, fake_api

from kajitori.cluster.objects import Pod
from kajitori.kube.errors import ForbiddenError, NotFoundError, UnauthorizedError
from kajitori.kube.resources import PODS
from kajitori.kube.watch import Added, Deleted, Modified, Synced, WatchSettings, watch


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with fake_api() as api:
        yield api


class Listener:
    """Reads a watch one change at a time."""

    def __init__(self, api: FakeApi, naps: Naps | None = None, **options: Any) -> None:
        self._api = api
        self._client = client_of(api.url, naps)
        self._changes = watch(self._client, PODS, Pod, **options)

    async def __aenter__(self) -> Listener:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._changes.aclose()
        await self._client.close()

    async def next(self) -> str:
        """Return the next change, as `Added x`."""
        async with asyncio.timeout(60):
            change = await anext(self._changes)
        if isinstance(change, Synced):
            return f"Synced {change.resource_version}"
        return f"{type(change).__name__} {change.object.metadata.name}"

    async def several(self, number: int) -> list[str]:
        """Return the next changes."""
        return [await self.next() for _ in range(number)]


async def test_a_watch_begins_with_the_existing_objects(api: FakeApi) -> None:
    """They come as Added, then Synced follows, then each change."""
    api.put("x")
    api.put("y")
    async with Listener(api) as listener:
        assert await listener.several(3) == ["Added x", "Added y", "Synced 102"]
        api.put("x", nodeName="n1")
        assert await listener.next() == "Modified x"
        api.remove("y")
        api.put("z")
        assert await listener.several(2) == ["Deleted y", "Added z"]


async def test_a_change_has_the_old_and_the_new_object(api: FakeApi) -> None:
    api.put("x")
    client = client_of(api.url)
    async with client, aclosing(watch(client, PODS, Pod)) as changes:
        assert isinstance(await anext(changes), Added)
        assert isinstance(await anext(changes), Synced)
        api.put("x", nodeName="n1")
        change = await anext(changes)
        assert isinstance(change, Modified)
        assert (change.old.spec.node_name, change.object.spec.node_name) == ("", "n1")
        api.remove("x")
        change = await anext(changes)
        assert isinstance(change, Deleted)
        assert change.object.spec.node_name == "n1"


async def test_all_pages_of_the_first_list_are_delivered(api: FakeApi) -> None:
    for number in range(7):
        api.put(f"p{number}")
    async with Listener(api, page_size=3) as listener:
        assert await listener.several(8) == [*(f"Added p{n}" for n in range(7)), "Synced 107"]
    assert [query.get("continue") for _, query in api.requests[:3]] == [None, "3", "6"]


async def test_an_expired_continue_token_restarts_the_list(api: FakeApi) -> None:
    """The whole list then comes in one page. No object comes twice, and deletions in between are reported."""
    for number in range(4):
        api.put(f"p{number}")
    api.expire_continue = 1
    async with Listener(api, page_size=3) as listener:
        assert await listener.several(3) == ["Added p0", "Added p1", "Added p2"]
        api.remove("p1")
        assert await listener.several(3) == ["Added p3", "Deleted p1", "Synced 105"]


@pytest.mark.parametrize("fault", [WatchFault.END, WatchFault.BREAK, WatchFault.ERROR])
async def test_a_broken_watch_is_resumed(api: FakeApi, fault: WatchFault) -> None:
    """After a disconnect, half a line or an error there is no new list; nothing is lost or comes twice."""
    api.put("x")
    async with Listener(api) as listener:
        await listener.several(2)
        api.put("x", nodeName="n1")
        assert await listener.next() == "Modified x"
        api.fail_watches(fault)
        api.put("y")
        assert await listener.next() == "Added y"
    lists = [query.get("limit") for _, query in api.requests if "watch" not in query]
    assert lists == ["1000", "1"], "where the server stands is asked, and nothing is read again"


async def test_a_server_restored_from_a_backup_is_listed_again(api: FakeApi) -> None:
    """A watch would be silent until the server's version has caught up, and would never report lost objects."""
    api.put("kept")
    backup, version = dict(api.pods), api.version
    async with Listener(api) as listener:
        await listener.several(2)
        api.put("late")
        api.put("kept", nodeName="n1")
        assert await listener.several(2) == ["Added late", "Modified kept"]
        api.restore(backup, version)
        told = await listener.several(3)
        assert told == ["Modified kept", "Deleted late", f"Synced {version}"]
        api.put("after")
        assert await listener.next() == "Added after"


async def test_a_silent_connection_is_closed_and_resumed(api: FakeApi) -> None:
    """Neither data nor bookmarks arrived."""
    api.put("x")
    async with Listener(api, settings=WatchSettings(silence_seconds=0.1)) as listener:
        await listener.several(2)
        following = asyncio.create_task(listener.next())
        await api.until(lambda: api.open_watches > 0)
        api.fail_watches(WatchFault.STALL)
        api.put("y")
        assert await following == "Added y"


async def test_a_watch_resumes_from_the_last_bookmark(api: FakeApi) -> None:
    """Compaction of earlier history then needs no new list."""
    async with Listener(api) as listener:
        await listener.next()
        following = asyncio.create_task(listener.next())
        await api.until(lambda: api.open_watches > 0)
        api.version += 50  # only other kinds changed
        api.fail_watches(WatchFault.BOOKMARK)
        api.fail_watches(WatchFault.END)
        api.forget_history()
        await api.until(lambda: len(api.requests) >= 3)
        api.put("y")
        assert await following == "Added y"
    assert [query["resourceVersion"] for _, query in api.requests if "watch" in query] == ["100", "150"]


@pytest.mark.parametrize("fault", [WatchFault.EXPIRE, WatchFault.END])
async def test_after_410_only_differences_are_reported(api: FakeApi, fault: WatchFault) -> None:
    """After a 410, as an event or as a status, the new list is compared with the known objects."""
    for name in ("same", "changed", "gone", "replaced"):
        api.put(name)
    async with Listener(api) as listener:
        await listener.several(5)
        following = asyncio.create_task(listener.next())
        await api.until(lambda: api.open_watches > 0)
        api.fail_watches(fault)
        watchers, api._watchers = api._watchers, {}  # changes are withheld for now
        api.put("changed", nodeName="n")
        api.remove("gone")
        api.remove("replaced")
        api.put("replaced")
        api.put("new")
        api._watchers = watchers
        api.forget_history()
        told = [await following, *await listener.several(5)]
    assert sorted(told[:5]) == [
        "Added new",
        "Added replaced",
        "Deleted gone",
        "Deleted replaced",
        "Modified changed",
    ]
    assert told[5] == "Synced 109"


async def test_backoff_grows_and_respects_retry_after(api: FakeApi) -> None:
    """After 429 and 5xx."""
    naps = Naps()
    api.watch_answers.extend([500, 500, 429])
    async with Listener(api, naps) as listener:
        await listener.next()
        following = asyncio.create_task(listener.next())
        await api.until(lambda: api.open_watches > 0)
        api.put("x")
        assert await following == "Added x"
    assert naps.taken == [0.25, 0.5, 1.0 + 1.0]


async def test_the_first_list_is_retried_through_a_minute_of_errors(api: FakeApi) -> None:
    naps = Naps()
    api.put("x")
    api.list_answers.extend([500] * 26 + [429] * 4)
    async with Listener(api, naps) as listener:
        assert await listener.several(2) == ["Added x", "Synced 101"]
    assert sum(naps.taken) > 60
    assert max(naps.taken) <= 5 + 1, "and is used again soon"


@pytest.mark.parametrize(("status", "error"), [(401, UnauthorizedError), (403, ForbiddenError), (404, NotFoundError)])
async def test_a_final_refusal_before_the_first_sync_is_raised(
    api: FakeApi, status: int, error: type[Exception]
) -> None:
    api.list_answers.append(status)
    async with Listener(api) as listener:
        with pytest.raises(error):
            await listener.next()


async def test_a_refusal_after_the_first_sync_is_retried(api: FakeApi) -> None:
    """The watch survives a change of rights or a renewed token."""
    api.put("x")
    api.watch_answers.extend([403, 401])
    async with Listener(api) as listener:
        await listener.several(2)
        following = asyncio.create_task(listener.next())
        await api.until(lambda: api.open_watches > 0)
        api.put("y")
        assert await following == "Added y"


async def test_an_unreachable_server_is_retried_and_reported() -> None:
    naps = Naps()
    troubles: list[Exception | None] = []
    async with fake_api() as api:
        url = api.url
    client = client_of(url, naps)
    async with client, aclosing(watch(client, PODS, Pod, on_trouble=troubles.append)) as changes:
        waiting = asyncio.ensure_future(anext(changes))
        await eventually(lambda: len(naps.taken) >= 4, naps.poke)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert url in str(troubles[0])
    assert naps.taken[:3] == [0.25, 0.5, 1.0]
