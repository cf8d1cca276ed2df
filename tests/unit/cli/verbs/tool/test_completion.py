"""Completion: what can be at the cursor; tested in real shells if they are installed."""

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
from kajitori.cli.context import COMPLETING
from kajitori.cli.help.completing import SCRIPTS, offered, read_bash
from kajitori.core.naming.run_names import branches

KAJI = Path(sys.executable).parent / "kaji"
NAMES = ["bert", "bert-2", "gpt"]
PATIENCE_SECONDS = 60


def run_names(call: Call) -> dict[str, Any]:
    beginning = call.query.get("beginning", [""])[0]
    names, beginnings = branches([name for name in NAMES if name.startswith(beginning)], 60)
    return {"names": names, "beginnings": beginnings}


def fake_api() -> FakeWebApi:
    images = [view(name, spec={"image": image}) for name, image in (("a", "registry/bert:3"), ("b", "python:3.12"))]
    answers = {
        "GET /v1/run-names": run_names,
        "GET /v1/policy": {"policy": {"volumes": {"imagenet": {}, "models": {}}}},
        "GET /v1/runs": {"items": images},
        "GET /v1/secrets": {"items": [{"name": "wandb"}, {"name": "registry"}]},
        "GET /v1/volumes": {"items": [{"name": "x", "kind": "claim"}, {"name": "a-checkpoint", "kind": "checkpoint"}]},
    }
    return FakeWebApi(answers=answers)


def offers(*words: str, api: FakeWebApi | None = None) -> list[str]:
    """Return the completions of the last word; `file` and `dir` stand for files and folders, `…` marks the beginning of
    a word."""
    found = offered(kaji, cli_of(api or fake_api()), words[:-1], words[-1])
    return [
        item.type if item.type in ("file", "dir") else f"{item.value}…" if item.type == "part" else item.value
        for item in found
    ]


def test_verbs_come_with_their_help_and_without_loading_them() -> None:
    found = offered(kaji, cli_of(fake_api()), [], "")
    assert {item.value: item.help for item in found if item.value in VERBS} == VERBS
    assert offers("wh") == ["what-if", "why", "whoami"]


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
def test_completions_fit_the_place_of_the_word(words: list[str], found: list[str]) -> None:
    """Files are offered where files belong; nothing of kaji's is offered after the image, since those words are the
    program's."""
    assert [completion for completion in offers(*words) if completion != "--help"] == found


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
def test_only_runs_that_fit_the_verb_are_offered(words: list[str], query: dict[str, list[str]]) -> None:
    """`stop` offers no ended runs, `start` no running ones."""
    api = fake_api()
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
            "plain\t--priority\tRuns of higher priority start first.\n",
        ),
        ("bash", ["4", "21", "kaji run --priority=n", "kaji", "run", "--priority", "=", "n"], "plain\tnormal\t\n"),
        ("bash", ["2", "9", "kaji run ", "kaji", "run", ""], "plain\tregistry/bert:3\t\nplain\tpython:3.12\t\n"),
        ("zsh", ["run", "-f", ""], "file\n"),
    ],
)
def test_completions_are_printed_for_the_shells_script(shell: str, words: list[str], answered: str) -> None:
    """Each line has a kind, a value and a help text."""
    environment = {COMPLETING: shell}
    result = CliRunner().invoke(kaji, words, obj=cli_of(fake_api()), env=environment, prog_name="kaji")
    assert (result.exit_code, result.stdout) == (0, answered)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell: str) -> None:
    result = invoke(FakeWebApi(), "completion", shell)
    assert (result.exit_code, result.stdout) == (0, SCRIPTS[shell])
    assert f"{COMPLETING}={shell}" in result.stdout


def test_without_a_server_no_names_are_offered_and_no_error_is_shown() -> None:
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
def test_words_that_bash_splits_are_joined_again(
    words: list[str], line: str, expected: tuple[list[str], str, int]
) -> None:
    """bash splits at = and :, and replaces only the part after the last of these."""
    assert read_bash([str(len(words) - 1), str(len(line)), line, *words]) == expected


def test_words_after_the_cursor_are_ignored_in_bash() -> None:
    line = "kaji logs ber --tail 5"
    assert read_bash(["2", "13", line, *line.split()]) == (["logs"], "ber", 0)
    assert read_bash(["2", "11", line, *line.split()]) == (["logs"], "b", 0)


def common_prefix(names: list[str]) -> str:
    """Return the longest common prefix."""
    shortest = min(names, key=len, default="")
    lengths = range(len(shortest), -1, -1)
    return next(shortest[:length] for length in lengths if all(name.startswith(shortest[:length]) for name in names))


NAME = st.text("ab-", min_size=1, max_size=6)


@given(st.sets(NAME, max_size=60), st.integers(1, 10))
def test_many_names_are_grouped_by_common_prefixes(names: set[str], limit: int) -> None:
    """Every name is offered, or one of its prefixes; all choices together have the same common prefix as all names."""
    whole, beginnings = branches(names, limit)
    assert (set(whole) <= names and not set(whole) & set(beginnings)) or set(whole) & set(beginnings) <= names
    for name in names - set(whole):
        assert any(name.startswith(beginning) for beginning in beginnings)
    for beginning in beginnings:
        meant = [name for name in names - set(whole) if name.startswith(beginning)]
        assert len(meant) > 1
    assert common_prefix([*whole, *beginnings]) == common_prefix([*names])
    if len(names) <= limit:
        assert (set(whole), beginnings) == (names, [])
    assert len(whole) + len(beginnings) <= max(limit, 4)


# ------------------------------------------------------------------------------------------------ real shells

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
PROMPTS = {"bash": "PS1='> '; bind 'set bell-style none'", "zsh": "PS1='> '; unsetopt beep", "fish": ""}


class Terminal:
    """A shell at a terminal with kaji's completion."""

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
        self.wait_for("ready\r?\n")

    def type(self, text: str) -> None:
        os.write(self._control, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Wait until the output since the last call contains the pattern."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not (found := re.search(pattern, self._seen)):
            ready, _, _ = select.select([self._control], [], [], max(0, until - time.monotonic()))
            assert ready, f"never came: {pattern}; instead: {self._seen!r}"
            self._seen += os.read(self._control, 65536).decode(errors="replace").replace("\x07", "")
        shown = self._seen[: found.end()]
        self._seen = self._seen[found.end() :]
        return shown

    def complete(self, line: str, pattern: str) -> None:
        """Type the line and a tab, wait for the completion, and clear the line."""
        self.type(f"{line}\t")
        self.wait_for(pattern)
        self.type("\x15")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._control)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with served(fake_api()) as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home folder with a few files to complete."""
    (tmp_path / "work").mkdir()
    for name in ("run.yaml", "train.py", "vars.env"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture(params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, folder: Path, server: str) -> Iterator[Terminal]:
    shell: str = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    (folder / "script").write_text(SCRIPTS[shell])
    opened = Terminal(shell, folder, server)
    yield opened
    opened.close()


def test_a_shell_completes_files_folders_options_and_names(terminal: Terminal) -> None:
    """It also completes the program's own arguments."""
    terminal.complete("kaji describe g", r"pt ")
    terminal.complete("kaji run -f ru", r"n\.yaml ")
    terminal.complete("kaji run --file=ru", r"n\.yaml ")
    terminal.complete("kaji run --env-file va", r"rs\.env ")
    terminal.complete("kaji run --code wo", r"rk/")
    terminal.complete("kaji run -v wo", r"rk/")
    terminal.complete("kaji run -v ima", r"genet:")
    terminal.complete("kaji run --prio", r"rity ")
    terminal.complete("kaji run --priority=n", r"ormal ")
    terminal.complete("kaji run registry/be", r"rt:3 ")
    terminal.complete("kaji run python:3.1", r"2 ")
    terminal.complete("kaji run python:3.12 python tr", r"ain\.py ")
    terminal.complete("kaji run -n 2 python:3.12 python --data=tr", r"ain\.py")
    terminal.complete("kaji completi", r"on ")


def test_a_shell_completes_only_the_common_prefix(terminal: Terminal) -> None:
    """Two runs begin with bert: no space follows, and the next tab shows both."""
    terminal.type("kaji describe b\t")
    terminal.wait_for("ert")
    terminal.type("\t\t")
    shown = terminal.wait_for(r"bert-2\s")
    assert "bert " not in shown.split("\n")[0]
    terminal.type("\x15")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed: apt-get install fish")
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
        ("kaji wh", ["what-if", "why", "whoami"]),
    ],
)
def test_fish_offers_the_same_completions(folder: Path, server: str, line: str, found: list[str]) -> None:
    """`complete -C` prints what fish would offer."""
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
    assert [offer.partition("\t")[0] for offer in done.stdout.splitlines()] == found
