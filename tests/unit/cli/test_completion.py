"""Completion: what may stand where the cursor is; in the shells themselves, where they are installed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.fake_web_api import Call, FakeWebApi, cli_of, invoke, served, view

from kajitori.cli.app import VERBS, kaji
from kajitori.cli.completing import SCRIPTS, offered, read_bash
from kajitori.cli.context import COMPLETING
from kajitori.core.words.run_names import branches

KAJI = Path(sys.executable).parent / "kaji"
NAMES = ["bert", "bert-2", "gpt"]
PATIENCE_SECONDS = 30


def names_that_begin(call: Call) -> dict[str, Any]:
    beginning = call.query.get("beginning", [""])[0]
    names, beginnings = branches([name for name in NAMES if name.startswith(beginning)], 60)
    return {"names": names, "beginnings": beginnings}


def fake() -> FakeWebApi:
    images = [view(name, spec={"image": image}) for name, image in (("a", "registry/bert:3"), ("b", "python:3.12"))]
    answers = {
        "GET /v1/run-names": names_that_begin,
        "GET /v1/policy": {"policy": {"volumes": {"imagenet": {}, "models": {}}}},
        "GET /v1/runs": {"items": images},
        "GET /v1/secrets": {"items": [{"name": "wandb"}, {"name": "registry"}]},
        "GET /v1/volumes": {"items": [{"name": "x", "kind": "claim"}, {"name": "a-checkpoint", "kind": "checkpoint"}]},
    }
    return FakeWebApi(answers=answers)


def offers(*words: str, api: FakeWebApi | None = None) -> list[str]:
    """What is offered for the last of the words; `file` and `dir` stand for those, `…` for the beginning of a word."""
    found = offered(kaji, cli_of(api or fake()), words[:-1], words[-1])
    return [
        item.type if item.type in ("file", "dir") else f"{item.value}…" if item.type == "part" else item.value
        for item in found
    ]


def test_verbs_come_with_their_help_and_without_loading_them() -> None:
    found = offered(kaji, cli_of(fake()), [], "")
    assert {item.value: item.help for item in found if item.value in VERBS} == VERBS
    assert offers("wh") == ["what-if"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["run", "-f", ""], ["file"]),
        (["run", "--file", "ru"], ["file"]),
        (["run", "--file=ru"], ["file"]),
        (["run", "--env-file", ""], ["file"]),
        (["run", "--code", ""], ["dir"]),
        (["run", "--code", ".:/c"], []),
        (["run", "-v", ""], ["imagenet:…", "models:…", "dir"]),
        (["run", "-v", "im"], ["imagenet:…", "dir"]),
        (["run", "-v", "imagenet:/d"], []),
        (["run", "-d", ""], ["registry/bert:3", "python:3.12"]),
        (["run", "--gpus", "8", "py"], ["python:3.12"]),
        (["what-if", "--gpus", "8", "py"], ["python:3.12"]),
        (["run", "--priority", ""], ["high", "normal", "low"]),
        (["run", "--priority=n"], ["normal"]),
        (["run", "python:3.12", ""], ["file"]),
        (["run", "-d", "-e", "A=1", "python:3.12", "python", "tr"], ["file"]),
        (["run", "python:3.12", "python", "--f"], ["file"]),
        (["run", "python:3.12", "python", "-n", "x"], ["file"]),
        (["--cluster", "x", "run", "python:3.12", "-"], ["file"]),
        (["run", "--al"], ["--allow-from", "--allow-to", "--all-ranks"]),
        (["run", "--ulim"], []),
        (["cp", "b"], ["bert:…", "bert-2:…", "file"]),
        (["cp", "bert:/da"], []),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["policy", "check", ""], ["file"]),
        (["logs", "ber"], ["bert", "bert-2"]),
        (["logs", "vision/ber"], ["vision/bert", "vision/bert-2"]),
        (["rm", "bert", "b"], ["bert-2"]),
        (["run", "--secret", "w"], ["wandb"]),
        (["secret", "rm", "wandb", ""], ["registry"]),
        (["secret", "create", "s", "--from-file", ""], ["file"]),
        (["volumes", "rm", ""], ["a-checkpoint"]),
    ],
)
def test_what_is_offered(words: list[str], found: list[str]) -> None:
    """Files where files belong, and nothing of kaji's behind the image: that is the program's."""
    assert [each for each in offers(*words) if each != "--help"] == found


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["logs"], {"started": ["true"]}),
        (["results"], {"sweep": ["true"]}),
        (["start"], {"phase": ["Succeeded", "Failed", "Stopped"]}),
        (["rm"], {"phase": ["Succeeded", "Failed", "Stopped"]}),
        (["rm", "-f"], {}),
        (["stop"], {"phase": ["Queued", "Starting", "Running", "Restarting"]}),
        (["exec", "-it"], {"phase": ["Running"]}),
        (["describe", "-N", "vision"], {"namespace": ["vision"]}),
        (["describe"], {}),
    ],
)
def test_runs_that_fit_the_verb_are_asked_for(words: list[str], query: dict[str, list[str]]) -> None:
    """Nobody stops what has ended, nor starts what runs."""
    api = fake()
    offers(*words, "b", api=api)
    (call,) = api.calls
    assert call.query == {"beginning": ["b"]} | query


@pytest.mark.parametrize(
    ("shell", "words", "answered"),
    [
        ("fish", ["logs", "gp"], "plain\tgpt\t\n"),
        ("zsh", ["run", "--priority=n"], "prefix\t--priority=\t\nplain\tnormal\t\n"),
        (
            "bash",
            ["2", "17", "kaji run --priorit=n", "kaji", "run", "--priorit", "=", "n"],
            "plain\t--priority\tWho goes first.\n",
        ),
        ("bash", ["4", "21", "kaji run --priority=n", "kaji", "run", "--priority", "=", "n"], "plain\tnormal\t\n"),
        ("bash", ["2", "9", "kaji run ", "kaji", "run", ""], "plain\tregistry/bert:3\t\nplain\tpython:3.12\t\n"),
        ("zsh", ["run", "-f", ""], "file\n"),
    ],
)
def test_the_script_of_a_shell_is_answered(shell: str, words: list[str], answered: str) -> None:
    """In lines of a kind, a value and a help."""
    environment = {COMPLETING: shell}
    result = CliRunner().invoke(kaji, words, obj=cli_of(fake()), env=environment, prog_name="kaji")
    assert (result.exit_code, result.stdout) == (0, answered)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    result = invoke(FakeWebApi(), "completion", shell)
    assert (result.exit_code, result.stdout) == (0, SCRIPTS[shell])
    assert f"{COMPLETING}={shell}" in result.stdout


def test_without_a_server_there_is_nothing_but_no_error_either() -> None:
    assert offers("logs", "b", api=FakeWebApi()) == []


@pytest.mark.parametrize(
    ("words", "line", "expected"),
    [
        (["kaji", "run", "-f", ""], "kaji run -f ", (["run", "-f"], "", 0)),
        (["kaji", "run", "--file", "=", "a.y"], "kaji run --file=a.y", (["run"], "--file=a.y", 7)),
        (["kaji", "run", "--file", "="], "kaji run --file=", (["run"], "--file=", 7)),
        (["kaji", "run", "-v", "data", ":", "/x"], "kaji run -v data:/x", (["run", "-v"], "data:/x", 5)),
        (["kaji", "run", "python", ":", "3", "py"], "kaji run python:3 py", (["run", "python:3"], "py", 0)),
        (["kaji", "run", "-e", "'A b'", ""], "kaji run -e 'A b' ", (["run", "-e", "A b"], "", 0)),
        (["kaji", "run", "'my fi"], "kaji run 'my fi", (["run"], "my fi", 0)),
    ],
)
def test_bash_words_are_put_together_again(words: list[str], line: str, expected: tuple[list[str], str, int]) -> None:
    """It breaks them at = and :, and replaces only what is behind the last of these."""
    assert read_bash([str(len(words) - 1), str(len(line)), line, *words]) == expected


def test_bash_in_the_middle_of_a_line() -> None:
    """What is behind the cursor says nothing of what is before it."""
    line = "kaji logs ber --tail 5"
    assert read_bash(["2", "13", line, *line.split()]) == (["logs"], "ber", 0)
    assert read_bash(["2", "11", line, *line.split()]) == (["logs"], "b", 0)


def in_common(names: list[str]) -> str:
    """What all of the names begin with."""
    shortest = min(names, key=len, default="")
    lengths = range(len(shortest), -1, -1)
    return next(shortest[:length] for length in lengths if all(name.startswith(shortest[:length]) for name in names))


NAME = st.text("ab-", min_size=1, max_size=6)


@given(st.sets(NAME, max_size=60), st.integers(1, 10))
def test_a_beginning_stands_for_several_names_and_goes_to_where_they_part(names: set[str], most: int) -> None:
    """Every name is there or begins so; what choices have in common is what all of their names have in common."""
    whole, beginnings = branches(names, most)
    assert (set(whole) <= names and not set(whole) & set(beginnings)) or set(whole) & set(beginnings) <= names
    for name in names - set(whole):
        assert any(name.startswith(beginning) for beginning in beginnings)
    for beginning in beginnings:
        meant = [name for name in names - set(whole) if name.startswith(beginning)]
        assert len(meant) > 1
    assert in_common([*whole, *beginnings]) == in_common([*names])
    if len(names) <= most:
        assert (set(whole), beginnings) == (names, [])
    assert len(whole) + len(beginnings) <= max(most, 4)


# ------------------------------------------------------------------------------------------------ real shells

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
PROMPTS = {"bash": "PS1='> '; bind 'set bell-style none'", "zsh": "PS1='> '; unsetopt beep", "fish": ""}


class Terminal:
    """A shell at a terminal, with kaji's completion."""

    def __init__(self, shell: str, folder: Path, url: str) -> None:
        environment = {
            "PATH": f"{KAJI.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
            "KAJI_SERVER": url,
            "KAJI_TOKEN": "t",
        }
        control, terminal = pty.openpty()
        self._process = subprocess.Popen(
            SHELLS[shell],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(terminal)
        self._control = control
        self._seen = ""
        if PROMPTS[shell]:
            self.type(f"{PROMPTS[shell]}\n")
        self.type(f"source {folder}/script\n")
        self.type("echo re''ady\n")
        self.reads("ready\r?\n")

    def type(self, text: str) -> None:
        os.write(self._control, text.encode())

    def reads(self, pattern: str) -> str:
        """Waits until what the terminal showed since the last call has the pattern."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not (found := re.search(pattern, self._seen)):
            ready, _, _ = select.select([self._control], [], [], max(0, until - time.monotonic()))
            assert ready, f"never came: {pattern}; instead: {self._seen!r}"
            self._seen += os.read(self._control, 65536).decode(errors="replace").replace("\x07", "")
        shown = self._seen[: found.end()]
        self._seen = self._seen[found.end() :]
        return shown

    def completes(self, line: str, pattern: str) -> None:
        """Types the line and a tab, waits for what comes of it, and takes the line back."""
        self.type(f"{line}\t")
        self.reads(pattern)
        self.type("\x15")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._control)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served(fake()) as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home with a few files to complete."""
    (tmp_path / "work").mkdir()
    for name in ("run.yaml", "train.py", "vars.env"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture(params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, folder: Path, server: str) -> Iterator[Terminal]:
    shell: str = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (folder / "script").write_text(SCRIPTS[shell])
    opened = Terminal(shell, folder, server)
    yield opened
    opened.close()


def test_a_shell_fills_in_what_is_typed(terminal: Terminal) -> None:
    """Files, folders, words and names, each where it belongs; the program's own arguments, too."""
    terminal.completes("kaji describe g", r"pt ")
    terminal.completes("kaji run -f ru", r"n\.yaml ")
    terminal.completes("kaji run --file=ru", r"n\.yaml ")
    terminal.completes("kaji run --env-file va", r"rs\.env ")
    terminal.completes("kaji run --code wo", r"rk/")
    terminal.completes("kaji run -v wo", r"rk/")
    terminal.completes("kaji run -v ima", r"genet:")
    terminal.completes("kaji run --prio", r"rity ")
    terminal.completes("kaji run --priority=n", r"ormal ")
    terminal.completes("kaji run registry/be", r"rt:3 ")
    terminal.completes("kaji run python:3.1", r"2 ")
    terminal.completes("kaji run python:3.12 python tr", r"ain\.py ")
    terminal.completes("kaji run -n 2 python:3.12 python --data=tr", r"ain\.py")
    terminal.completes("kaji completi", r"on ")


def test_a_common_beginning_is_filled_in_only_as_far_as_it_is_common(terminal: Terminal) -> None:
    """Two runs begin with bert: no space follows it, and the next tab shows both."""
    terminal.type("kaji describe b\t")
    terminal.reads("ert")
    terminal.type("\t\t")
    shown = terminal.reads(r"bert-2\s")
    assert "bert " not in shown.split("\n")[0]
    terminal.type("\x15")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("kaji describe b", ["bert", "bert-2"]),
        ("kaji run -f ru", ["run.yaml"]),
        ("kaji run --file=ru", ["--file=run.yaml"]),
        ("kaji run --code wo", ["work/"]),
        ("kaji run -v im", ["imagenet:"]),
        ("kaji run --priority=n", ["--priority=normal"]),
        ("kaji run reg", ["registry/bert:3"]),
        ("kaji run python:3.12 python tr", ["train.py"]),
        ("kaji wh", ["what-if"]),
    ],
)
def test_fish_offers_the_same(folder: Path, server: str, line: str, found: list[str]) -> None:
    """fish says by itself what it would offer."""
    (folder / "script").write_text(SCRIPTS["fish"])
    environment = {"PATH": f"{KAJI.parent}:{os.environ['PATH']}", "HOME": str(folder), "KAJI_SERVER": server}
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source script; complete -C '{line}'"],
        env=environment | {"KAJI_TOKEN": "t"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stderr == ""
    assert [each.partition("\t")[0] for each in done.stdout.splitlines()] == found
