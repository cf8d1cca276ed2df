"""Whether the command line that is made from a run's spec asks for the same run, and says what it leaves out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kajitori.cli.verbs.runs.notebook import command as notebook_command
from kajitori.cli.verbs.runs.run import command as run_command
from kajitori.client.submit.request import build_request
from kajitori.client.submit.run_options import RunWords
from kajitori.core.spec.command_line import CommandLine, command_line
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import to_document

SPECS: list[dict[str, Any]] = [
    {"image": "python:3.11"},
    {"image": "x", "args": ["python", "-c", "print('a b')", "--flag"]},
    {"image": "x", "command": ["bash"], "args": ["-c", "echo $HOME"]},
    {
        "image": "x",
        "replicas": 4,
        "launcher": "torchrun",
        "resources": {"gpu": 8, "gpuType": "h100", "cpu": "7500m", "memory": "64Gi", "shm": "1Gi"},
        "env": {"A": "1 2", "B": ""},
        "volumes": [{"name": "a", "path": "/a", "readOnly": True}, {"hostPath": "/b", "path": "/c"}],
        "secrets": [{"name": "s"}, {"name": "s", "path": "/s"}, {"name": "s", "key": "k", "env": "K"}],
        "checkpoint": {"path": "/ckpt", "size": "100Gi", "every": "10m"},
        "ports": [80, 8888],
        "nodeSelector": {"zone": "a"},
        "priority": "low",
        "timeLimit": "8h",
        "grace": "1m",
        "restarts": 2,
        "stuckAfter": "20m",
        "onStuck": "restart",
        "workingDir": "/w",
        "user": "1000:1000",
    },
    {"image": "x", "code": {"digest": f"sha256:{'0a' * 32}", "path": "/work"}},
    {"image": "x", "type": "service", "resources": {"wholeNode": True, "gpuType": "h100"}, "hostNetwork": True},
    {"image": "x", "replicas": 8, "minReplicas": 2, "privileged": True, "notify": {"kinds": []}},
    {"image": "x", "stdin": True, "tty": True},
    {"image": "x", "type": "service", "health": {"command": "curl -f localhost | grep 'a b'"}},
    {
        "image": "x",
        "health": {
            "command": "--x",
            "interval": "10s",
            "timeout": "1m",
            "retries": 5,
            "startPeriod": "2m",
            "startInterval": "1s",
        },
    },
    {
        "image": "x",
        "tolerations": [{"key": "k", "operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute"}],
    },
    {"image": "x", "labels": {"a": "b"}, "notify": {"channels": ["slack"], "kinds": ["failed"]}},
    {"image": "x", "command": ["-c"], "args": ["--", "-x"]},
    {"image": "x", "args": ["--", "-x"]},
    {"image": "x", "type": "notebook", "labels": {"a": "b"}},
    {"image": "x", "type": "notebook", "checkpoint": {"path": "/n", "every": "10m"}},
    {"image": "x", "network": {"from": [], "to": ["internal", "10.9.0.0/16"]}},
]


@pytest.mark.parametrize("spec", SPECS)
def test_the_command_line_of_a_run_asks_for_the_same(spec: dict[str, Any]) -> None:
    """`kaji run` makes the same spec of it, also if the document names the defaults."""
    shown = to_document(parse_spec(spec), with_defaults=True)
    line = command_line(shown, name="bert", namespace="vision")
    assert not line.left_out and line.words[:6] == ("kaji", "run", "--namespace", "vision", "--name", "bert")
    assert parsed(line) == to_document(parse_spec(spec))


NOTEBOOKS: list[dict[str, Any]] = [
    {"type": "notebook", "image": "x"},
    {
        "type": "notebook",
        "image": "x",
        "resources": {"gpu": 2, "gpuType": "h100", "cpu": 8, "memory": "64Gi", "shm": "1Gi"},
        "env": {"A": "1 2"},
        "volumes": [{"name": "a", "path": "/a", "readOnly": True}],
        "checkpoint": {"path": "/n", "size": "100Gi"},
        "timeLimit": "8h",
        "priority": "high",
    },
]


@pytest.mark.parametrize("spec", NOTEBOOKS)
def test_a_notebook_is_asked_for_by_its_own_verb(spec: dict[str, Any]) -> None:
    """`kaji notebook` makes the same spec of the command line that is written for it."""
    line = command_line(to_document(parse_spec(spec), with_defaults=True), name="n", namespace="vision")
    assert not line.left_out and line.words[:5] == ("kaji", "notebook", "n", "--namespace", "vision")
    assert parsed(line, notebook_command, type="notebook") == to_document(parse_spec(spec))


def test_the_usual_image_of_notebooks_is_not_named() -> None:
    line = command_line({"type": "notebook", "image": "usual"}, notebook_image="usual")
    assert line.text == "kaji notebook"


def parsed(line: CommandLine, verb: click.Command = run_command, **implied: Any) -> dict[str, Any]:
    """Return the document that a verb makes of a command line. `implied`: what the verb itself adds to its options."""
    words = shlex.split(line.text, comments=bool(line.left_out))
    with CliRunner().isolation():
        context = verb.make_context(words[1], words[2:])
    options = {key: value for key, value in context.params.items() if key in RunWords.__dataclass_fields__} | implied
    request = build_request(
        RunWords(**options), environment={}, folder=Path("/"), read_text=lambda _: "", pack=lambda _: ""
    )
    assert not request.faults
    return to_document(parse_spec(request.spec))


@given(
    words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=4),
    value=st.text(st.characters(codec="utf-8", exclude_characters="\0")),
)
def test_any_text_survives_the_shell(words: list[str], value: str) -> None:
    """Quotes, line ends, words that look like options."""
    document = to_document(parse_spec({"image": "x", "args": words, "env": {"A": value}}))
    assert parsed(command_line(document)) == document


@pytest.mark.parametrize(
    ("part", "left_out"),
    [
        ({"qos": "burstable", "resources": {"cpu": 2, "cpuRequest": 1}}, ("qos", "resources.cpuRequest")),
        ({"notify": {"channels": ["a"], "kinds": []}}, ("notify",)),
        ({"volumes": [{"hostPath": "/a:b", "path": "/c"}, {"name": "d", "path": "/d"}]}, ("volumes",)),
        ({"tolerations": [{"operator": "Exists"}]}, ("tolerations",)),
        ({"health": {"command": ["/probe", "-v"]}}, ("health",)),
    ],
)
def test_what_no_option_expresses_is_named(part: dict[str, Any], left_out: tuple[str, ...]) -> None:
    """In a comment at the end; the rest of the line is valid."""
    line = command_line(to_document(parse_spec({"image": "x", **part})))
    assert line.left_out == left_out
    assert line.text.endswith(f"x  # without {', '.join(left_out)}")
    assert parsed(line)["image"] == "x"


@pytest.mark.parametrize("spec", [{}, {"image": "x", "replicas": -3, "volumes": [{}], "resources": {"cpu": "lots"}}])
def test_an_invalid_spec_has_a_command_line_too(spec: dict[str, Any]) -> None:
    """A run that kubectl made is shown as it is."""
    assert command_line(spec).words[:2] == ("kaji", "run")


def test_answers_about_idle_gpus_are_no_part_of_what_was_asked() -> None:
    asked = command_line({"image": "x"})
    assert command_line({"image": "x", "keepIdleUntil": "2026-11-29T00:00:00Z", "parked": True}) == asked
