"""The store in memory: revisions, compare-and-swap, snapshots, watches, compaction."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.embedded.store import ADDED, DELETED, MODIFIED, Compacted, KeyTaken, Record, Stale, Store
from kajitori.embedded.store import store as store_module
from kajitori.embedded.store.watcher import QUEUE_LIMIT

PODS = "/pods"


def obj(name: str, **labels: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}}


def create(store: Store, name: str, namespace: str = "a", **labels: str) -> Record:
    return store.create(PODS, namespace, name, obj(name, **labels))


def keys(records: list[Record]) -> list[str]:
    return [record.key for record in records]


def test_every_change_has_its_own_revision() -> None:
    """One global counter; each record has its revision."""
    store = Store()
    first = create(store, "x")
    second = store.create("/nodes", "", "n", obj("n"))
    changed = store.update(first, obj("x", a="b"))
    assert first.revision < second.revision < changed.revision == store.revision
    assert changed.object["metadata"]["resourceVersion"] == str(changed.revision)
    assert list(changed.object)[:3] == ["kind", "apiVersion", "metadata"]


def test_a_key_can_be_used_once() -> None:
    """A second object under a key is refused; another namespace is another key."""
    store = Store()
    create(store, "x")
    with pytest.raises(KeyTaken):
        create(store, "x")
    create(store, "x", "b")
    assert keys(store.records(PODS)) == ["a/x", "b/x"]


def test_a_stale_record_changes_nothing() -> None:
    """Update and delete succeed only with the stored record."""
    store = Store()
    old = create(store, "x")
    new = store.update(old, obj("x", a="b"))
    with pytest.raises(Stale):
        store.update(old, obj("x"))
    with pytest.raises(Stale):
        store.delete(old)
    assert store.get(PODS, "a", "x") is new


def test_keys_are_in_the_order_of_etcd() -> None:
    """Namespaces and names are compared as one path: '-' sorts before '/'."""
    store = Store()
    for namespace, name in (("a", "y"), ("a-b", "x"), ("a", "x.1"), ("a", "x")):
        create(store, name, namespace)
    assert keys(store.records(PODS)) == ["a-b/x", "a/x", "a/x.1", "a/y"]
    assert keys(store.records(PODS, "a")) == ["a/x", "a/x.1", "a/y"]


def test_a_watch_begins_after_its_revision_and_ends_with_its_queue() -> None:
    """Events since the revision come first; a slow reader is ended, so that it does not fill the memory."""
    store = Store()
    create(store, "x")
    revision = store.revision
    record = create(store, "y")
    watcher = store.watch(PODS, "", revision)
    gone = store.delete(record)
    events = watcher.take()
    assert [(event.type, event.record.key) for event in events] == [(ADDED, "a/y"), (DELETED, "a/y")]
    assert events[1].record.object["metadata"]["resourceVersion"] == str(gone.revision)
    record = create(store, "z")
    for _ in range(QUEUE_LIMIT + 1):
        record = store.update(record, obj("z"))
    assert watcher.closed
    store.unwatch(watcher)


async def test_a_watcher_is_woken_only_by_events_that_it_selects() -> None:
    """Events of other namespaces, names and selections do not wake the watcher."""
    store = Store()
    wanted = store.watch(PODS, "a", store.revision, lambda event: event.record.labels.get("l") == "1")
    named = store.watch(PODS, "a", store.revision, name="n")
    create(store, "x", "b", l="1")
    create(store, "x", "a")
    assert wanted.take() == named.take() == []
    waiting = asyncio.create_task(wanted.wait())
    await asyncio.sleep(0)
    create(store, "n", "a", l="1")
    await waiting
    assert keys([event.record for event in wanted.take()]) == keys([event.record for event in named.take()]) == ["a/n"]


def test_compacted_revisions_cannot_be_watched_or_listed() -> None:
    """The error says so, rather than leaving a gap; the current state is still served."""
    store = Store()
    record = create(store, "x")
    old = store.revision
    store.update(record, obj("x", a="b"))
    store.compact()
    with pytest.raises(Compacted):
        store.watch(PODS, "", old)
    with pytest.raises(Compacted):
        store.snapshot(PODS, "", old)
    assert keys(store.snapshot(PODS, "", store.revision)) == ["a/x"]
    store.watch(PODS, "", store.revision)


def test_old_history_is_compacted_automatically() -> None:
    """With no retention only the current state is kept."""
    store = Store(history_seconds=-1.0)
    create(store, "x")
    old = store.revision
    create(store, "y")
    with pytest.raises(Compacted):
        store.watch(PODS, "", old - 1)


def test_decoded_objects_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoded object takes five times the memory of its JSON. History and rarely read objects do without."""
    store = Store()
    records = [create(store, name) for name in "xyz"]
    decoded = [record.object for record in records]
    monkeypatch.setattr(store_module, "FORMS_SECONDS", 0.0)
    store.update(records[0], obj("x", a="b"))
    store.delete(records[1])
    kept = [record.object is before for record, before in zip(records, decoded, strict=True)]
    assert kept == [False, False, True]
    monkeypatch.setattr(store_module, "OBJECTS_SECONDS", 0.0)
    create(store, "later")
    assert records[2].object is not decoded[2] and records[2].object == decoded[2]


def test_encoded_forms_of_an_event_are_shared_while_it_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watchers that take an event at once encode it once; history keeps no second copy of each object."""
    store = Store()
    watcher = store.watch(PODS, "", store.revision)
    create(store, "x")
    (event,) = watcher.take()
    event.share_encoded("json", b"{}")
    create(store, "y")
    assert event.encoded("json") == b"{}"
    monkeypatch.setattr(store_module, "FORMS_SECONDS", 0.0)
    create(store, "z")
    event.share_encoded("json", b"{}")  # a watcher that was slow
    assert event.encoded("json") is None


changes = st.lists(
    st.tuples(st.sampled_from(("create", "update", "delete")), st.sampled_from("ab"), st.sampled_from("xyz")),
    max_size=40,
)


@given(changes, st.data())
def test_any_revision_can_be_listed_and_watched_from(
    operations: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    """A snapshot at any revision is what was stored then; replaying events from it gives the current state."""
    store = Store()
    states: dict[int, dict[str, bytes]] = {store.revision: {}}
    for operation, namespace, name in operations:
        record = store.get(PODS, namespace, name)
        if operation == "create" and record is None:
            create(store, name, namespace)
        elif operation == "update" and record is not None:
            store.update(record, obj(name, n=str(store.revision)))
        elif operation == "delete" and record is not None:
            store.delete(record)
        states[store.revision] = {one.key: one.value for one in store.records(PODS)}
    revision = data.draw(st.sampled_from(sorted(states)))
    assert {one.key: one.value for one in store.snapshot(PODS, "", revision)} == states[revision]
    namespace = data.draw(st.sampled_from("ab"))
    expected = {key: value for key, value in states[revision].items() if key.startswith(f"{namespace}/")}
    assert {one.key: one.value for one in store.snapshot(PODS, namespace, revision)} == expected
    replayed = dict(states[revision])
    for event in store.watch(PODS, "", revision).take():
        assert (event.type is ADDED) == (event.record.key not in replayed)
        if event.type is DELETED:
            del replayed[event.record.key]
        else:
            assert event.type in (ADDED, MODIFIED)
            replayed[event.record.key] = event.record.value
    assert replayed == {one.key: one.value for one in store.records(PODS)}


async def test_all_watchers_are_ended() -> None:
    """Those of a resource that is no longer served, and all when the store is closed."""
    store = Store()
    store.group_by(PODS, lambda record: record.labels.get("node", ""))
    now = store.revision
    pods = [store.watch(PODS, "", now), store.watch(PODS, "a", now, name="x"), store.watch(PODS, "", now, group="n1")]
    other = store.watch("/nodes", "", now)
    store.end_watches(PODS)
    assert [watch.closed for watch in (*pods, other)] == [True, True, True, False]
    late = [store.watch(PODS, "", now, group="n1"), other]
    await store.close()
    assert [watch.closed for watch in late] == [True, True]


def test_watchers_of_a_group_see_objects_enter_change_and_leave() -> None:
    """No events of other groups, and none twice."""
    store = Store()
    store.group_by(PODS, lambda record: record.labels.get("node", ""))
    first = store.watch(PODS, "", store.revision, group="n1")
    second = store.watch(PODS, "", store.revision, group="n2")
    record = create(store, "x")
    record = store.update(record, obj("x", node="n1"))
    record = store.update(record, obj("x", node="n1", more="1"))
    record = store.update(record, obj("x", node="n2"))
    store.delete(record)
    assert [event.type for event in first.take()] == [MODIFIED, MODIFIED, MODIFIED]
    assert [event.type for event in second.take()] == [MODIFIED, DELETED]
    store.unwatch(first)
    create(store, "y", node="n1")
    assert first.take() == []
