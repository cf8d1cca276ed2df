"""`kaji notify` and `--notify`: URLs are typed or piped in, never shown, and a test tells whether a channel works."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.helpers.output_schemas import check_output
from tests.unit.cli.fake_web_api import FakeWebApi, invoke

from kajitori.client.submit.request import notify_of

URL = "slack://T1/B2/s3cr3t-token"
SLACK: dict[str, Any] = {"name": "slack", "scheme": "slack", "kinds": ["failed", "ended"], "key": ""}
TEST = "/v1/channels/slack/test"


def state(word: str, error: str = "") -> dict[str, str]:
    return {"id": "t1", "state": word, "error": error}


def api_with(*outcomes: dict[str, str]) -> FakeWebApi:
    """Return a server on which the test of the channel slack has these states, one after the other."""
    answers = {"POST /v1/channels": (201, SLACK), f"POST {TEST}": (201, state("waiting"))}
    return FakeWebApi(answers=answers, queues={f"GET {TEST}": list(outcomes)})


def test_a_channel_is_added_and_tested() -> None:
    api = api_with(state("waiting"), state("delivered"))
    done = invoke(api, "notify", "add", "slack", "--on", "failed,ended", stdin=f"{URL}\n")
    assert (done.exit_code, done.stdout) == (0, "slack\n"), done.output
    for words in (("add", "slack"), ("test", "slack")):
        told = invoke(api_with(state("delivered")), "notify", *words, "-o", "json", stdin=f"{URL}\n")
        check_output(json.loads(told.stdout), f"verbs/notify {words[0]}", complete=True)
    assert api.calls[0].body == {"name": "slack", "url": URL, "webhook": False, "kinds": ["failed", "ended"]}
    assert api.calls[-1].query == {"id": ["t1"]}
    assert "s3cr3t" not in done.output and "slack took a test message" in done.stderr


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (state("failed", "not allowed"), "did not take a test message: not allowed\n"),
        (state("waiting", "no route"), "did not take a test message: no route; it is tried again\n"),
    ],
)
def test_a_test_that_fails_says_why(last: dict[str, str], told: str) -> None:
    done = invoke(api_with(last), "notify", "test", "slack", "--team", "vision")
    assert (done.exit_code, done.stdout) == (1, "") and told in done.stderr


def test_a_test_without_a_controller_comes_to_an_end() -> None:
    done = invoke(api_with(*[state("waiting")] * 200), "notify", "test", "slack")
    assert done.exit_code == 1 and "no controller has sent the test" in done.stderr


def test_a_url_on_the_command_line_is_refused() -> None:
    api = api_with()
    done = invoke(api, "notify", "add", URL)
    assert (done.exit_code, api.calls) == (2, []) and "s3cr3t" not in done.output


def test_the_key_of_a_webhook_is_printed_once() -> None:
    api = api_with()
    api.answers["POST /v1/channels"] = (201, {**SLACK, "key": "whsec_abc"})
    done = invoke(api, "notify", "add", "slack", "--webhook", "--no-test", stdin="https://ci.example.org/hook")
    assert done.exit_code == 0 and "whsec_abc" in done.stderr and len(api.calls) == 1


def test_channels_are_listed_with_what_went_wrong() -> None:
    items = [
        {"name": "mail", "scheme": "mailtos", "kinds": ["failed"], "sentAt": "", "waiting": 2, "error": "no route"},
        {"name": "slack", "scheme": "slack", "kinds": ["failed"], "sentAt": "2026-11-21T11:59:00Z", "waiting": 0},
    ]
    items[1]["error"] = ""
    api = FakeWebApi(answers={"GET /v1/channels": {"recipient": "ada", "isTeam": False, "items": items}})
    lines = invoke(api, "notify", "ls").stdout.splitlines()
    assert "2 waiting; no route" in lines[1] and lines[2].split()[-1] == "ok"
    assert invoke(api, "notify", "ls", "-o", "name").stdout == "mail\nslack\n"


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        ("none", {"kinds": []}),
        ("slack", {"channels": ["slack"]}),
        ("failed,ended", {"kinds": ["failed", "ended"]}),
        ("slack, mail,failed", {"channels": ["slack", "mail"], "kinds": ["failed"]}),
    ],
)
def test_words_of_a_run_are_channels_or_kinds(words: str, spec: dict[str, Any]) -> None:
    assert notify_of(words) == spec
