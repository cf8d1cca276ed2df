"""Text from a server, a cluster or a program never controls the terminal."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.fake_web_api import FakeWebApi, invoke, ndjson, view

from kajitori.cli.terminal import json_text, plain, yaml_text

CLI = Path(__file__).parents[3] / "src" / "kajitori" / "cli"
EVIL = "\x1b]0;renamed\x07\x1b[2J\x1b[1;1Hall is well\x9b31m\u202egnp.exe\x7f\r\t"
"""Text that renames the window, clears the screen and writes elsewhere, with a C1 control character and text from right
to left."""
MAY_PRINT = {
    "terminal.py": {
        "click.echo",
        "sys.stderr.write",
        "sys.stdout.write",
        "click.style",
        "json.dumps",
        "sys.stdout.buffer",
    },
    "attached.py": {"write_as_is", "sys.stderr.buffer"},
    "copying.py": {"write_as_is"},
    "execution.py": {"sys.stdout.buffer", "sys.stderr.buffer", "os.write"},
    "log_printing.py": {"write_as_is", "click.style"},
    "output.py": {"echo_as_is", "console.print"},
    "serving.py": {"os.write"},
    "tensorboard.py": {"write_as_is"},
    "completion.py": {"echo_as_is"},
    "metrics.py": {"echo_as_is"},
    "completing.py": {"echo_as_is"},
    "export.py": {"write_as_is"},
}
"""Modules that may print text unchanged: a program's own output, bytes of SSH, tables with plain cells, plots, words
for a shell, archives and Parquet for files."""


PRINTERS = {"print", "echo_as_is", "write_as_is"}
WRITERS = {"click.echo", "click.secho", "click.style", "os.write"}
WRITERS |= {f"sys.{stream}.{name}" for stream in ("stdout", "stderr") for name in ("write", "writelines", "buffer")}


def ways_to_print(tree: ast.AST) -> list[tuple[int, str]]:
    """Return line and name of everything in a module that may write to the terminal without `kajitori.cli.terminal`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            of_console = node.attr in ("print", "print_json", "log") and name.split(".")[-2].endswith("console")
            if name in WRITERS or of_console:
                found.append((node.lineno, name))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PRINTERS:
            found.append((node.lineno, node.func.id))
        elif isinstance(node, ast.ImportFrom) and node.module == "click":
            found += [(node.lineno, f"click.{name.name}") for name in node.names if "echo" in name.name]
        if isinstance(node, ast.Call) and any(keyword.arg == "ensure_ascii" for keyword in node.keywords):
            found.append((node.lineno, ast.unparse(node.func)))
    return found


def test_every_verb_prints_through_the_terminal_module() -> None:
    """Otherwise a verb would print a server's text unescaped."""
    wrong = []
    for file in sorted(CLI.rglob("*.py")):
        allowed = MAY_PRINT.get(file.name, set())
        uses = ways_to_print(ast.parse(file.read_text(encoding="utf-8")))
        wrong += [f"{file.relative_to(CLI)}:{line}: {name}" for line, name in uses if name not in allowed]
    assert not wrong


def test_the_check_finds_every_other_way_to_print() -> None:
    code = "click.echo(x); print(x); sys.stdout.write(x); json.dumps(x, ensure_ascii=False); console.print(x)"
    assert len(ways_to_print(ast.parse(code))) == 5
    assert ways_to_print(ast.parse("from click import echo"))
    assert not ways_to_print(ast.parse("echo(x); printer.print(x); json.dumps(x)"))


HOSTILE = view("bert", status={"message": EVIL, "reason": EVIL, "attempt": {"number": 1, "nodes": EVIL}}) | {
    "owner": EVIL,
    "labels": {"team": EVIL},
    "spec": {"type": "batch", "image": EVIL, "args": [EVIL], "env": {"A": EVIL}, "replicas": 1},
}
EVENT = {"time": EVIL, "type": EVIL, "reason": EVIL, "object": EVIL, "message": EVIL, "count": 2}
PLACE = {"position": 1, "of": 1, "waitedSeconds": 1, "overdue": False, "expectedFrom": EVIL, "expectedSeconds": 5}
PLACE |= {"size": 0.5, "userShare": 0, "teamShare": 0, "score": None}
EXPLAINED = {
    "phase": EVIL,
    "reason": EVIL,
    "message": EVIL,
    "members": 1,
    "room": {EVIL: 3},
    "asks": [EVIL],
    "toFree": [],
    "blocked": [{"why": EVIL, "count": 1, "nodes": EVIL}],
    "sooner": [EVIL],
    "place": PLACE,
    "held": [{"holder": EVIL, "owner": EVIL, "nodes": EVIL}],
}
RUN = "/v1/runs/vision/bert"


def hostile_server() -> FakeWebApi:
    answers: dict[str, Any] = {f"GET {RUN}/explain": EXPLAINED, f"GET {RUN}/events": lambda _: ndjson([EVENT])}
    answers["GET /v1/events"] = {"items": [EVENT]}
    answers["GET /v1/queue"] = {"items": []}
    answers[f"GET {RUN}/members"] = {"items": [{"rank": 0, "phase": EVIL, "node": EVIL, "reason": EVIL}]}
    return FakeWebApi([HOSTILE], answers=answers)


COMMANDS = (
    ("explain", "bert"),
    ("explain", "bert", "-o", "json"),
    ("explain", "bert", "-o", "yaml"),
    ("events",),
    ("events", "bert"),
    ("events", "-f", "bert"),
    ("events", "-f", "-o", "json", "bert"),
    ("events", "-f", "-o", "yaml", "bert"),
    ("describe", "bert"),
    ("describe", "-o", "json", "bert"),
    ("ps",),
    ("ps", "-o", "wide"),
    ("ps", "-o", "yaml"),
    ("ps", "--filter", f"{EVIL}=x"),
    ("logs", EVIL),
    (EVIL,),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(map(plain, words)))
def test_no_text_of_a_server_controls_the_terminal(words: tuple[str, ...]) -> None:
    """This holds for every output format, and for errors."""
    result = invoke(hostile_server(), *words)
    assert result.output.strip()
    assert plain(result.output) == result.output


def test_json_and_yaml_escape_without_loss() -> None:
    """Printable text is unchanged; everything else is escaped, and parsers read the same value."""
    document = {"größe": EVIL, "nested": [{EVIL: "日本\n語", "emoji": "🚢"}], "none": None, "yes": True}
    for form, read in ((json_text, json.loads), (yaml_text, yaml.safe_load)):
        text = form(document)
        assert plain(text) == text
        assert read(text) == document
        for seen in ("größe", "日本", "🚢"):
            assert seen in text


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=3), max_size=4))
def test_any_text_survives_json_and_yaml(document: dict[str, Any]) -> None:
    """Escaping loses nothing and leaves nothing that controls a terminal."""
    assert json.loads(json_text(document)) == document
    assert yaml.safe_load(yaml_text(document)) == document
    assert plain(json_text(document, indent=2)) == json_text(document, indent=2)
    assert plain(yaml_text(document)) == yaml_text(document)
