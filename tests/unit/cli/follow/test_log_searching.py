"""`kaji logs` with --grep and --until."""

from __future__ import annotations

from tests.unit.cli.fake_web_api import FakeWebApi, invoke, ndjson, view

BERT = "/v1/runs/vision/bert"


def line(number: int, rank: int = 0) -> dict[str, object]:
    return {"rank": rank, "attempt": 1, "time": f"2026-11-21T10:00:0{number}Z", "line": f"loss {number}", "cursor": "x"}


def state(rank: int = 0, **more: object) -> dict[str, object]:
    return {"rank": rank, "attempt": 1, "matches": 1, "searched": 9, "done": True} | more


def server(*answers: list[dict[str, object]]) -> FakeWebApi:
    queue = [ndjson(answer) for answer in answers]
    return FakeWebApi(runs=[view("bert")], queues={f"GET {BERT}/logs/search": queue})


def test_a_search_goes_on_where_the_server_stopped() -> None:
    """One answer searches a part of a long log."""
    api = server([line(1), state(next="0.1.abc.1")], [line(2), state()])
    result = invoke(api, "logs", "--grep", "loss", "-i", "-t", "bert")
    assert result.stdout == "2026-11-21T10:00:01Z loss 1\n2026-11-21T10:00:02Z loss 2\n", result.output
    assert [call.query.get("after") for call in api.calls_to("GET", "/search")] == [None, ["0.1.abc.1"]]


def test_the_last_lines_found_are_shown() -> None:
    result = invoke(server([line(1), line(2), line(3), state()]), "logs", "--until", "10m", "-n", "2", "bert")
    assert result.stdout == "loss 2\nloss 3\n", result.output


def test_a_search_may_be_by_an_expression() -> None:
    api = server([line(1), state()])
    assert invoke(api, "logs", "-E", "--grep", "^loss", "bert").stdout == "loss 1\n"
    assert [call.query["regex"] for call in api.calls_to("GET", "/search")] == [["true"]]
    result = invoke(FakeWebApi(), "logs", "-E", "bert")
    assert (result.exit_code, "--regex needs --grep" in result.stderr) == (2, True)


def test_a_search_does_not_follow() -> None:
    """The message names a command that does."""
    result = invoke(FakeWebApi(), "logs", "-f", "--grep", "loss", "bert")
    assert result.exit_code == 2
    assert "kaji logs -f bert | grep TEXT" in result.stderr
