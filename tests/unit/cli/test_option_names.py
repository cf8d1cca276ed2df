"""Options have the same name in all verbs, and errors of the Web API name options instead of its fields."""

from __future__ import annotations

import click
import pytest
from tests.unit.cli.fake_web_api import RUNS, FakeWebApi, invoke, problem

from kajitori.cli.app import VERBS, kaji


def commands() -> list[tuple[str, click.Command]]:
    """Return all verbs and their subcommands."""
    found: list[tuple[str, click.Command]] = []
    ctx = click.Context(kaji)
    for verb in VERBS:
        command = kaji.get_command(ctx, verb)
        assert command is not None
        found.append((verb, command))
        if isinstance(command, click.Group):
            found += [(f"{verb} {name}", each) for name, each in command.commands.items()]
    return found


def options_named(name: str) -> list[tuple[str, click.Option]]:
    """Return the options with this name, and their verbs."""
    return [
        (path, param)
        for path, command in commands()
        for param in command.params
        if isinstance(param, click.Option) and name in param.opts
    ]


def test_cluster_chooses_the_cluster_in_every_verb() -> None:
    """`--cluster NAME` means the same everywhere, before the verb and after it."""
    assert {path for path, option in options_named("--cluster") if option.is_flag} == set()


def test_a_rank_may_be_called_an_index_in_every_verb() -> None:
    """A member of a gang has a rank, one of a sweep has an index."""
    assert {path for path, option in options_named("--rank") if "--index" not in option.opts} == set()


@pytest.mark.parametrize(
    ("words", "request_", "field", "option"),
    [
        (["token", "create", "--for", "x", "--ttl", "soon"], "POST /v1/tokens", "ttl", "--ttl"),
        (["notify", "add", "x", "--on", "foo", "--no-test"], "POST /v1/channels", "kinds[0]", "--on"),
        (["traffic", "--class", "foo"], "GET /v1/traffic", "class", "--class"),
        (["metrics", "bert", "--since", "foo"], "GET /v1/runs/vision/bert/metrics", "since", "--since"),
        (["secret", "create", "Bad", "key"], "POST /v1/secrets", "name", "NAME"),
    ],
)
def test_errors_of_the_web_api_name_options(words: list[str], request_: str, field: str, option: str) -> None:
    """Users know options, not the fields of the Web API."""
    faults = [{"field": field, "message": "is wrong", "value": "foo"}]
    refused = problem(422, "Invalid", "wrong", faults=faults)
    result = invoke(FakeWebApi(RUNS, {request_: refused}), *words, stdin="secret")
    assert (result.exit_code, result.stderr) == (2, f"kaji: {option}: is wrong\n")


def test_an_unknown_status_is_named_before_the_server_is_asked() -> None:
    """`kaji history` takes the words of `kaji ps --filter`."""
    result = invoke(FakeWebApi(), "history", "--status", "faild", "--status", "failed")
    assert result.exit_code == 2
    assert result.stderr == "kaji: --status: there is no status 'faild'\n      did you mean Failed?\n"
