"""A process's log: text for people, or JSON of which every line can be read by a program."""

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
    """Begins to log as a process does, whose root logger has no handlers yet; put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def begin_anew(options: Options) -> None:
        root.handlers[:] = []
        logs.begin_logging(options)

    yield begin_anew
    logging.captureWarnings(False)
    root.handlers[:], root.level = handlers, level


Begin = Callable[[Options], None]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_every_line_is_a_document(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    """With time, level, logger, message, what was given beside it, and a traceback on the same line."""
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


def test_what_is_said_at_the_start_is_json_at_any_level(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    begin(Options(log_level="error"))
    logs.say("Kajitori's Web API: http://127.0.0.1:1")
    (said,) = lines(capsys)
    assert (said["level"], said["message"]) == ("info", "Kajitori's Web API: http://127.0.0.1:1")


def test_what_is_said_in_text_is_the_plain_line(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    begin(Options(log_format="text"))
    logs.say("one", "two")
    assert capsys.readouterr().err == "one\ntwo\n"


def test_the_end_is_logged_with_its_way_out(begin: Begin, capsys: pytest.CaptureFixture[str]) -> None:
    begin(Options())
    assert logs.log_end(Unavailable("the port is in use", hint="choose another")) == 125
    assert logs.log_end(InvalidInput([Fault("--a", "is wrong", hint="mend it")])) == 2
    first, second = lines(capsys)
    assert (first["code"], first["hint"], first["exit_code"]) == ("Unavailable", "choose another", 125)
    assert second["faults"] == ["--a: is wrong. mend it"]


@pytest.mark.parametrize("verb", ["up", "server", "controller", "relay", "node", "agent", "sim"])
def test_every_long_running_process_has_both_formats(verb: str) -> None:
    command = import_module(f"kajitori.cli.verbs.platform.{verb}").command
    (option,) = [each for each in command.params if "--log-format" in each.opts]
    assert isinstance(option.type, click.Choice) and tuple(option.type.choices) == ("text", "json")
    assert option.default == "text"


def test_a_process_that_cannot_go_on_says_so_in_json(tmp_path: Path) -> None:
    """A controller whose API server is not there: nothing but JSON on stderr."""
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
