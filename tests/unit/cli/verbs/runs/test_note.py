"""`kaji note`: what it shows, and what it sends."""

from __future__ import annotations

from tests.unit.cli.fake_web_api import FakeWebApi, invoke, view

NOTE = {"text": "lr too high\nsee https://wiki/bert", "by": "ana", "at": "2026-11-21T11:30:00.250000Z"}


def test_a_note_is_shown_with_its_writer() -> None:
    done = invoke(FakeWebApi(runs=[view("bert", note=NOTE)]), "note", "bert")
    assert (done.exit_code, done.stdout) == (0, f"{NOTE['text']}\n")
    assert done.stderr == "Written by ana at 2026-11-21T11:30:00Z\n"
    described = invoke(FakeWebApi(runs=[view("bert", note=NOTE)]), "describe", "bert")
    assert "lr too high see https://wiki/bert (ana)" in described.stdout
    done = invoke(FakeWebApi(runs=[view("bert")]), "note", "bert")
    assert (done.stdout, done.stderr) == ("", "bert has no note. To write one: kaji note bert TEXT\n")


def test_a_note_replaces_the_one_that_was_read() -> None:
    api = FakeWebApi(runs=[view("bert", note=NOTE)], answers={"POST /v1/runs/vision/bert/note": view("bert")})
    assert invoke(api, "note", "bert", "").exit_code == 0
    (call,) = api.calls_to("POST", "/note")
    assert call.body == {"text": "", "insteadOf": NOTE["at"]}


def test_the_note_of_a_removed_run_cannot_be_changed() -> None:
    removed = view("bert", "Failed", removedAt="2026-11-21T11:40:00Z", note=NOTE)
    history = {"GET /v1/history": {"items": [removed]}, "GET /v1/history/vision/uid-bert": removed}
    done = invoke(FakeWebApi(answers=history), "note", "bert", "better")
    assert (done.exit_code, "bert was removed" in done.stderr) == (2, True)
    assert invoke(FakeWebApi(answers=history), "note", "bert").stdout.startswith("lr too high")
