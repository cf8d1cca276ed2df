"""Outboxes: nothing is lost, order holds per channel, and a request sent again is the same request."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.messages import outbox as post
from kajitori.core.messages.outbox import Message, Outbox


def message(number: int, *channels: str) -> Message:
    return Message(
        id=f"m{number}",
        kind="failed",
        at="2026-11-23T12:00:00Z",
        namespace="vision",
        run=f"run-{number}",
        title=f"vision/run-{number} has failed",
        body="boom",
        channels=channels or ("slack",),
    )


def added(*numbers: int, to: Outbox | None = None) -> Outbox:
    return post.added(to or Outbox(), [message(number) for number in numbers])


def test_a_known_message_is_not_added_again() -> None:
    box = added(1, to=added(1))
    assert len(box.messages) == 1
    box, _ = post.begun(box, "slack", 100.0)
    box = post.delivered(box, "slack", 100.0)
    assert box.is_empty and added(1, to=box).is_empty


def test_few_messages_go_one_by_one_and_many_as_one() -> None:
    """A thousand failures are one message."""
    box, request = post.begun(added(1, 2), "slack", 100.0)
    assert request is not None and request.messages == ("m1",)
    box = post.delivered(box, "slack", 100.0)
    assert post.begun(box, "slack", 100.5)[1] is None, "requests to a channel have a pause between them"
    box = post.added(box, [message(number) for number in range(3, 1003)])
    box, request = post.begun(box, "slack", 103.0)
    assert request is not None and len(request.messages) == 1001
    kind, title, body = post.described(box, request)
    assert (kind, title) == ("digest", "1001 messages: 1001 failed")
    assert "run-2 has failed" in body and "… and 981 more" in body
    assert post.delivered(box, "slack", 103.0).is_empty


def test_a_request_is_the_same_however_often_it_is_tried() -> None:
    """Messages that come meanwhile wait for the next request."""
    box, first = post.begun(added(1), "slack", 100.0)
    box = post.refused(added(2, 3, 4, 5, 6, to=box), "slack", "away", 100.0, for_good=False)
    assert post.begun(box, "slack", 101.0)[1] is None, "it waits before it tries again"
    _, second = post.begun(box, "slack", 106.0)
    assert first is not None and second is not None and (first.id, first.messages) == (second.id, second.messages)


def test_pauses_grow_and_a_day_is_enough() -> None:
    box, now, tries = added(1), 100.0, 0
    while not box.is_empty:
        box, request = post.begun(box, "slack", now)
        assert request is not None
        box = post.refused(box, "slack", "away", now, for_good=False)
        tries, now = tries + 1, post.due_at(box, "slack") or now
    assert 90 < tries < 120 and now - 100 > post.GIVE_UP_SECONDS - post.LONGEST_PAUSE_SECONDS
    assert box.state("slack").error == "away" and box.state("slack").dropped == 1


def test_a_refusal_for_good_does_not_hold_up_the_next_message() -> None:
    box, _ = post.begun(added(1, 2), "slack", 100.0)
    box = post.refused(box, "slack", "not allowed", 100.0, for_good=True)
    _, request = post.begun(box, "slack", 103.0)
    assert request is not None and request.messages == ("m2",)


def test_a_slow_channel_does_not_hold_up_another() -> None:
    box = post.added(Outbox(), [message(1, "slack", "mail")])
    box, _ = post.begun(box, "slack", 100.0)
    box, _ = post.begun(box, "mail", 100.0)
    box = post.delivered(box, "mail", 100.0)
    assert [one.channels for one in box.messages] == [("slack",)]


def test_what_waits_for_a_removed_channel_is_dropped() -> None:
    box, _ = post.begun(post.added(Outbox(), [message(1, "slack", "mail"), message(2, "slack")]), "slack", 100.0)
    left = post.without_channels(box, {"mail": None})
    assert [one.id for one in left.messages] == ["m1"] and left.state("slack").request is None


def test_an_outbox_fits_into_a_secret() -> None:
    """If many messages wait, the oldest lose their text first. Then they are dropped, and the digest counts them."""
    many = [
        msgspec.structs.replace(message(n), body="x" * 3000, title="t" * 180) for n in range(post.MOST_MESSAGES + 50)
    ]
    box = post.added(Outbox(), many)
    assert len(box.messages) == post.MOST_MESSAGES and box.state("slack").dropped == 50
    assert len(msgspec.json.encode(box)) * 4 / 3 < 1_000_000
    box, request = post.begun(box, "slack", 100.0)
    assert request is not None
    assert "50 older messages were dropped" in post.described(box, request, box.state("slack").dropped)[2]


def test_a_message_that_is_being_sent_is_not_dropped_for_others() -> None:
    """Its request is tried again with the same content."""
    box, request = post.begun(added(0), "slack", 100.0)
    box = added(*range(1, post.MOST_MESSAGES + 20), to=box)
    assert request is not None and post.described(box, request)[1] == "vision/run-0 has failed"


@given(st.lists(st.sampled_from(["add", "send", "fail", "crash before", "crash after"]), max_size=40), st.data())
def test_kills_at_any_moment_lose_nothing_and_double_nothing_else(steps: list[str], data: st.DataObject) -> None:
    """The outbox is stored before a request is sent, and after it was taken. A kill between the two repeats exactly
    that request, with the same id and the same messages."""
    stored, now, number = Outbox(), 1000.0, 0
    received: list[tuple[str, tuple[str, ...]]] = []
    for step in [*steps, *["send"] * 60]:
        now += data.draw(st.floats(3.0, 1000.0)) if step != "send" else post.LONGEST_PAUSE_SECONDS
        if step == "add":
            stored = added(number, number + 1, to=stored)
            number += 2
            continue
        begun, request = post.begun(stored, "slack", now)
        if step == "crash before" or request is None:
            continue  # killed before the intent was stored
        stored = begun
        if step == "fail":
            stored = post.refused(stored, "slack", "away", now, for_good=False)
            continue
        received.append((request.id, request.messages))
        if step == "send":
            stored = post.delivered(stored, "slack", now)
    assert stored.is_empty
    distinct = list(dict.fromkeys(received))
    assert len({name for name, _ in distinct}) == len(distinct), "an id stands for the same messages"
    assert [one for _, messages in distinct for one in messages] == [f"m{n}" for n in range(number)]


@pytest.mark.parametrize("kind", ["failed", "test"])
def test_a_single_message_names_its_id(kind: str) -> None:
    """A receiver can recognise a repetition."""
    box = post.added(Outbox(), [msgspec.structs.replace(message(7), kind=kind)])
    box, request = post.begun(box, "slack", 100.0)
    assert request is not None
    assert post.described(box, request) == (kind, "vision/run-7 has failed", "boom\n\nmessage m7")
