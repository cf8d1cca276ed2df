"""The HTTP client: retries, and the errors that answers become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import TOKEN, URL, FakeWebApi, cli_of, invoke, problem

from kajitori.client.connection import Lost, NotReached, Response
from kajitori.client.target import Target
from kajitori.client.web_api import Api, error_of
from kajitori.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    InvalidInput,
    KajitoriError,
    NotFound,
    Refused,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unsupported,
    WrongState,
)


def raising(error: Exception) -> Any:
    def answer(_: Any) -> Any:
        raise error

    return answer


def test_a_get_is_retried() -> None:
    """While a server is busy or unavailable, a GET waits for as long as the server says, and tries again."""
    busy = 429, {"title": "busy", "headers": {"Retry-After": "3"}}
    lost, refused = raising(Lost("lost")), raising(NotReached("refused"))
    api = FakeWebApi(queues={"GET /v1/version": [busy, lost, refused, {"version": "1"}]})
    with cli_of(api).api() as client:
        assert client.get("/v1/version") == {"version": "1"}
    assert len(api.naps) == 3
    assert api.naps[0] > 2


def test_a_get_gives_up_after_some_retries() -> None:
    """The last answer counts."""
    api = FakeWebApi(answers={"GET /v1/version": problem(503, "Unavailable", "no API server", hint="wait")})
    with cli_of(api).api() as client, pytest.raises(Unavailable, match="no API server"):
        client.get("/v1/version")
    assert len(api.calls) == 4


def test_a_post_is_retried_only_if_nothing_was_done() -> None:
    """A POST that was not sent, or was answered with 429, is retried; a POST without an answer is not."""
    busy, refused = (429, {"title": "busy"}), raising(NotReached("refused"))
    api = FakeWebApi(queues={"POST /v1/runs": [busy, refused, {"name": "x"}]})
    with cli_of(api).api() as client:
        assert client.post("/v1/runs", {}) == {"name": "x"}
    for lost in (raising(Lost("lost")), raising(Lost("slow"))):
        api = FakeWebApi(answers={"POST /v1/runs": lost})
        with cli_of(api).api() as client, pytest.raises(Unavailable) as caught:
            client.post("/v1/runs", {})
        assert "not known" in caught.value.hint
        assert len(api.calls) == 1
    api = FakeWebApi(answers={"POST /v1/runs": problem(503, "Unavailable", "later")})
    with cli_of(api).api() as client, pytest.raises(Unavailable):
        client.post("/v1/runs", {})
    assert len(api.calls) == 1


def test_a_refused_connection_to_this_machine_is_not_retried() -> None:
    """The error names the command that starts the local cluster."""
    api = FakeWebApi(answers={"GET /v1/version": raising(NotReached("refused"))})
    naps: list[float] = []
    client = Api(Target("http://127.0.0.1:9", TOKEN), transport=api, sleep=naps.append)
    with client, pytest.raises(Unavailable) as caught:
        client.get("/v1/version")
    assert "kaji up" in caught.value.hint
    assert naps == []


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        (Target("https://kaji.example.org", TOKEN), "the token in $KAJI_TOKEN is wrong or has expired"),
        (Target(URL, TOKEN, data=Path("/data")), "start it again: kaji up --data /data"),
    ],
)
def test_a_refused_token_is_told_with_where_it_is_from(target: Target, hint: str) -> None:
    api = FakeWebApi(answers={"GET /v1/version": problem(401, "Unauthenticated", "not accepted", hint="log in")})
    with Api(target, transport=api) as client, pytest.raises(Unauthenticated) as caught:
        client.get("/v1/version")
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "Unauthenticated", Unauthenticated),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "WrongState", WrongState),
        (409, "Conflict", Conflict),
        (413, "TooLarge", TooLarge),
        (422, "Invalid", InvalidInput),
        (422, "Refused", Refused),
        (500, "Internal", Unavailable),
        (501, "Unsupported", Unsupported),
        (503, "Unavailable", Unavailable),
    ],
)
def test_problem_documents_become_errors(status: int, code: str, kind: type[KajitoriError]) -> None:
    """Each becomes the error type with the same meaning, with message and hint."""
    document = {"title": "t", "status": status, "code": code, "detail": "words", "hint": "way out"}
    response = Response.of(status, document)
    error = error_of(response)
    assert type(error) is kind
    assert "words" in error.message
    assert "way out" in error.hint or "way out" in error.message


@pytest.mark.parametrize("content", [b"<html>Bad gateway</html>", b"[]", b'{"a": 1}', b""])
def test_an_answer_of_another_server_is_recognised(content: bytes) -> None:
    """A proxy's page is not shown; the error says that no Kajitori server answered."""
    response = Response.of(502, content)
    error = error_of(response)
    assert isinstance(error, Unavailable)
    assert "not as a Kajitori server" in error.message
    page = FakeWebApi(answers={"GET /v1/version": [b"<html>"]})
    with cli_of(page).api() as client, pytest.raises(Unavailable, match="not as a Kajitori server"):
        client.get("/v1/version")


@pytest.mark.parametrize("answer", [(302, None), (302, {"a": 1}), (200, []), [b""], [b'"ok"'], [b"<html>"]])
def test_an_answer_of_a_proxy_before_the_server_is_recognised(answer: Any) -> None:
    """A redirect to the proxy's page for signing in ended `kaji ps` with a bug report and `kaji logs` with exit code
    0."""
    proxy = FakeWebApi(answers={"GET /v1/version": answer, "POST /v1/runs": answer, "GET /log": (302, None)})
    with cli_of(proxy).api() as client:
        for call in (
            lambda: client.get("/v1/version"),
            lambda: client.post("/v1/runs", {}),
            lambda: list(client.chunks("/log")),
        ):
            with pytest.raises(Unavailable, match="not as a Kajitori server"):
                call()


def test_a_server_of_another_kind_is_recognised(tmp_path: Path) -> None:
    """Its answers are JSON, and have other fields: each command was a bug of kaji."""
    other = FakeWebApi(answers={key: {"status": "ok"} for key in ("GET /v1/runs", "GET /v1/gpus", "GET /v1/version")})
    for words in (("ps",), ("logs", "bert"), ("stop", "bert")):
        told = invoke(other, *words)
        assert (told.exit_code, "not as a Kajitori server" in told.stderr) == (125, True), told.stderr
    assert "is no Kajitori server" in invoke(other, "gpus", state_dir=tmp_path).stderr


def test_debug_prints_calls_without_secrets() -> None:
    """--debug, before or after the verb, shows requests and answers, but never the token."""
    for args in (["--debug", "version"], ["version", "--debug"]):
        result = invoke(FakeWebApi(answers={"GET /v1/version": {"version": "1"}}), *args)
        assert "> GET http://kaji.test/v1/version" in result.stderr
        assert "< 200 after" in result.stderr
        assert TOKEN not in result.output
