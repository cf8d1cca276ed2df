"""The log of a process: text for people, or JSON with one document a line."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.harness.commands import kaji

from kajitori.entrypoints import logs
from kajitori.errors import Fault, InvalidInput, Unavailable


@dataclass(frozen=True)
class Options:
    log_level: str = "warning"
    log_format: str = "json"


@pytest.fixture
def begin() -> Iterator[Callable[[Options], None]]:
    """Begin logging as in a new process without handlers; restore the handlers afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def begin_afresh(options: Options) -> None:
        root.handlers[:] = []
        logs.begin_logging(options)

    yield begin_afresh
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


Begin = Callable[[Options], None]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_every_line_of_the_log_is_a_json_document(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    """It has time, level, logger, message and extra fields; a traceback is on the same line."""
    begin(Options())
    logging.getLogger("kajitori.controllers.run_controller").warning(
        "two\nlines of %s", "x", extra={"run": "vision/bert"}
    )
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("aiohttp").exception("it broke")
    first, second = lines(capsys)
    assert (first["level"], first["logger"]) == ("warning", "kajitori.controllers.run_controller")
    assert (first["message"], first["run"]) == ("two\nlines of x", "vision/bert")
    assert first["time"].endswith("Z") and "T" in first["time"]
    assert "ValueError: no" in second["exception"]


def test_messages_for_users_are_json_at_any_level(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    begin(Options(log_level="error"))
    logs.say("Kajitori's Web API: http://127.0.0.1:1")
    (record,) = lines(capsys)
    assert (record["level"], record["message"]) == ("info", "Kajitori's Web API: http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("level", "written"), [("debug", ["ours", "theirs"]), ("info", ["ours"]), ("error", []), ("warning", [])]
)
def test_libraries_log_information_only_at_level_debug(
    begin: Begin, capsys: pytest.CaptureFixture[str], level: str, written: list[str]
) -> None:
    begin(Options(log_level=level))
    logging.getLogger("kajitori.history").info("ours")
    logging.getLogger("alembic.runtime.migration").info("theirs")
    assert [line["message"] for line in lines(capsys)] == written


def test_messages_for_users_are_plain_lines_in_text_format(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    begin(Options(log_format="text"))
    logs.say("one", "two")
    assert capsys.readouterr().err == "one\ntwo\n"


def test_a_fatal_error_is_logged_with_its_hint_and_exit_code(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    begin(Options())
    assert logs.log_end(Unavailable("the port is in use", hint="choose another")) == 125
    assert logs.log_end(InvalidInput([Fault("--a", "is wrong", hint="mend it")])) == 2
    first, second = lines(capsys)
    assert (first["code"], first["hint"], first["exit_code"]) == ("Unavailable", "choose another", 125)
    assert second["faults"] == ["--a: is wrong. mend it"]


@pytest.mark.parametrize("verb", ["up", "server", "controller", "relay", "node", "agent", "sim"])
def test_every_long_running_process_has_both_formats(verb: str) -> None:
    command = import_module(f"kajitori.cli.verbs.platform.{verb}").command
    (option,) = [parameter for parameter in command.params if "--log-format" in parameter.opts]
    assert isinstance(option.type, click.Choice) and tuple(option.type.choices) == ("text", "json")
    assert option.default == "text"


def test_a_controller_without_an_api_server_ends_with_json_on_stderr(tmp_path: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    document = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(yaml.safe_dump(document | {"clusters": [cluster], "contexts": [context], "users": [user]}))
    (tmp_path / "policy.yaml").write_text("start: {pause: 1s}\n")
    policy = str(tmp_path / "policy.yaml")
    done = kaji(
        "controller", "--kubeconfig", str(kubeconfig), "--policy", policy, "--log-format", "json", env=dict(os.environ)
    )
    assert done.returncode == 125
    last = [json.loads(line) for line in done.stderr.splitlines()][-1]
    assert last["level"] == "error" and "127.0.0.1:1" in last["message"]
