"""A server's notice to all callers is printed once, on stderr."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, ndjson, view

from kajitori.cli.context import COMPLETING
from kajitori.cli.notices import Notices
from kajitori.client import streams

WORDS = "no controller has renewed its lease for 43 s; runs do not start or stop until one is back"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_notice_is_printed_once_until_it_was_withdrawn_for_a_while() -> None:
    clock, printed = Clock(), list[str]()
    notices = Notices(clock=clock)
    notices.say = printed.append
    for words in (WORDS, WORDS.replace("43", "53"), "", WORDS):
        notices.note(words)
    assert printed == [f"note: {WORDS}"]
    clock.now += 100
    notices.note(WORDS)
    assert len(printed) == 1, "it was not withdrawn in between"
    notices.note("")
    notices.note(WORDS)
    assert len(printed) == 2


@pytest.mark.parametrize("words", [("stop", "gpt"), ("run", "-d", "busybox", "true"), ("ps",), ("rm", "mnist")])
def test_every_command_prints_that_no_controller_is_at_work(words: tuple[str, ...]) -> None:
    api = FakeWebApi(runs=RUNS, notice=WORDS)
    api.answers["POST /v1/runs"] = (201, RUNS[1])
    result = invoke(api, *words)
    assert result.stderr.count(f"note: {WORDS}") == 1, result.stderr
    assert WORDS not in result.stdout


@pytest.mark.parametrize("words", [("queue",), ("explain", "bert"), ("version",)])
def test_commands_about_the_queue_have_the_notice_in_their_answer(words: tuple[str, ...]) -> None:
    """It is not repeated on stderr."""
    controller = {"leader": "c1", "ageSeconds": 43.2, "absent": True, "says": WORDS}
    api = FakeWebApi(runs=RUNS, notice=WORDS)
    api.answers["GET /v1/queue"] = {"items": [], "controller": controller}
    explained = {"phase": "Queued", "reason": "NotPlannedYet", "message": "there is room for it on g1"}
    api.answers["GET /v1/runs/vision/bert/explain"] = explained | {"controller": controller}
    api.answers["GET /v1/version"] = {"version": "1", "kubernetes": "v1", "user": "ada", "controller": controller}
    result = invoke(api, *words)
    assert WORDS in result.stdout
    assert "note:" not in result.stderr


def test_version_names_the_leader_if_one_is_at_work() -> None:
    controller = {"leader": "c1", "ageSeconds": 1.2, "absent": False, "says": ""}
    api = FakeWebApi()
    api.answers["GET /v1/version"] = {"version": "1", "kubernetes": "v1", "user": "ada", "controller": controller}
    assert "c1, renewed its lease 1 second ago" in invoke(api, "version").stdout


def test_completion_prints_no_notice() -> None:
    api = FakeWebApi(runs=RUNS, notice=WORDS)
    result = invoke(api, "ps", environment={COMPLETING: "bash"})
    assert "note:" not in result.stderr


def test_a_notice_is_printed_while_a_stream_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller dies after `kaji wait` has begun. Its stream is silent, so the command asks separately."""
    monkeypatch.setattr(streams, "FIRST_LOOK_SECONDS", 0.0)
    api, asked = FakeWebApi(runs=RUNS), threading.Event()

    def controller(_call: object) -> Any:
        api.notice = WORDS
        asked.set()
        return {"absent": True}

    def stream(_call: object) -> Any:
        def lines() -> Iterator[bytes]:
            yield b""
            assert asked.wait(60)
            yield from ndjson([view("gpt", "Succeeded")])

        return lines()

    api.answers["GET /v1/controller"] = controller
    api.answers["GET /v1/runs/vision/gpt/watch"] = stream
    result = invoke(api, "wait", "gpt")
    assert f"note: {WORDS}" in result.stderr, result.stderr
