"""How verbs find the run that a word names, and what they print if the server refuses."""

from __future__ import annotations

from tests.unit.cli.fake_web_api import (
    FakeWebApi,
    invoke,
    problem,
    view,
)

BERT, GPT, GPT2 = view("bert"), view("gpt-small", "Succeeded"), view("gpt-large", "Stopped")
OTHER = view("bert", namespace="nlp", uid="other")


def test_a_unique_prefix_is_enough_to_name_a_run() -> None:
    api = FakeWebApi([BERT, GPT, GPT2])
    result = invoke(api, "stop", "b", "gpt-s")
    assert (result.exit_code, result.stdout) == (0, "bert\ngpt-small\n")
    assert [call.path for call in api.calls_to("POST")] == [
        "/v1/runs/vision/bert/stop",
        "/v1/runs/vision/gpt-small/stop",
    ]


def test_an_exact_name_takes_precedence_over_longer_ones() -> None:
    api = FakeWebApi([view("gpt"), view("gpt-2")])
    assert invoke(api, "stop", "gpt").stdout == "gpt\n"


def test_an_ambiguous_prefix_lists_the_candidates() -> None:
    """Nothing is done, not even to the runs that were named exactly."""
    api = FakeWebApi([BERT, GPT, GPT2])
    result = invoke(api, "stop", "bert", "gpt")
    assert result.exit_code == 2
    assert "several runs have names that begin with 'gpt': gpt-large, gpt-small" in result.stderr
    assert api.calls_to("POST") == []


def test_a_run_of_the_users_namespace_takes_precedence() -> None:
    """One with the same name elsewhere is named with its namespace."""
    api = FakeWebApi([OTHER, BERT])
    invoke(api, "stop", "bert")
    invoke(api, "stop", "nlp/bert")
    invoke(api, "stop", "-N", "nlp", "bert")
    posts = [call.path for call in api.calls_to("POST")]
    assert posts == ["/v1/runs/vision/bert/stop", "/v1/runs/nlp/bert/stop", "/v1/runs/nlp/bert/stop"]


def test_a_name_in_two_other_namespaces_is_ambiguous() -> None:
    """The candidates are listed with their namespaces."""
    result = invoke(FakeWebApi([OTHER, BERT]), "stop", "bert", namespace="mine")
    assert result.exit_code == 2
    assert "nlp/bert, vision/bert" in result.stderr


def test_an_unknown_run_does_not_keep_others_from_being_stopped() -> None:
    """The exit code is 2."""
    api = FakeWebApi([BERT])
    result = invoke(api, "stop", "nope", "bert")
    assert (result.exit_code, result.stdout) == (2, "bert\n")
    assert "there is no run 'nope'" in result.stderr


def test_a_forbidden_request_exits_with_2_and_the_servers_message() -> None:
    api = FakeWebApi(
        [BERT], answers={"POST /v1/runs/vision/bert/stop": problem(403, "Forbidden", "bob may not stop it")}
    )
    result = invoke(api, "stop", "bert")
    assert (result.exit_code, result.stderr) == (2, "kaji: bob may not stop it\n")


def test_expired_credentials_exit_with_125_and_are_reported_once() -> None:
    """For any number of runs."""
    api = FakeWebApi(answers={"GET /v1/runs": problem(401, "Unauthenticated", "the token has expired", hint="log in")})
    result = invoke(api, "stop", "a", "b")
    hint = "the token in $KAJI_TOKEN is wrong or has expired: put a new one there, or kaji login http://kaji.test"
    assert (result.exit_code, result.stderr) == (125, f"kaji: the token has expired\n      {hint}\n")
