"""The command as a whole: help, wrong usage, internal errors, start-up."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.unit.cli.fake_web_api import NOW, TOKEN, FakeWebApi, invoke, view

from kajitori import __version__
from kajitori.cli.app import SECTIONS, VERBS, kaji

HEAVY = ("rich", "httpx2", "pydantic", "fastapi", "numpy", "yaml", "msgspec", "websockets", "asyncio", "kajitori.api")


_FORKED = """
import os, sys
from kajitori.cli.app import kaji
wrong = []
for args in {pages!r}:
    pid = os.fork()
    if pid == 0:
        sys.stdout = open(os.devnull, "w")
        try:
            kaji.main(args, prog_name="kaji")
        except SystemExit as stop:
            found = [name for name in {heavy!r} if name in sys.modules]
            os.write(2, f"{{args}}: {{found}}".encode() * bool(found))
            os._exit(1 if found or stop.code else 0)
        os._exit(2)
    if os.waitpid(pid, 0)[1]:
        wrong.append(args)
sys.exit(f"{{wrong}}" if wrong else 0)
"""
"""A program that shows each help page in a process that has imported no other page: each is a fork of one that has
imported none."""


def test_help_loads_nothing_heavy() -> None:
    program = _FORKED.format(pages=[["--help"], [], *([verb, "--help"] for verb in VERBS)], heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_everyday_verbs_do_not_import_pydantic() -> None:
    """`kaji ps`, `logs`, `wait` and similar verbs would take a third longer to start."""
    needed = (
        *("client.exitcodes", "cli.printing.output", "cli.words.runs"),
        *("client.lookup", "client.web_api", "client.streams", "client.target"),
        *("cli.follow.follow", "cli.follow.log_printing", "cli.follow.progress"),
    )
    program = (
        f"import sys\nfrom importlib import import_module\nfor name in {needed!r}:\n"
        "    import_module(f'kajitori.{name}')\n"
        "found = [name for name in ('pydantic', 'numpy', 'msgspec', 'fastapi') if name in sys.modules]\n"
        "assert not found, found"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_verb_whose_library_is_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install kajitori` installs the command line alone; `kaji controller` names the extra that it needs."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.delitem(sys.modules, "kajitori.entrypoints.process", raising=False)
    monkeypatch.delitem(sys.modules, "kajitori.entrypoints.controller", raising=False)
    result = invoke(FakeWebApi(), "controller")
    assert result.exit_code == 125
    assert "`kaji controller` needs the library uvloop" in result.stderr
    assert "pip install 'kajitori[server]'" in result.stderr


def test_the_main_page_lists_every_verb_by_section() -> None:
    page = invoke(FakeWebApi(), "--help").stdout
    for title, verbs in SECTIONS.items():
        assert f"{title}:" in page
        for verb, text in verbs.items():
            assert any(line.split() == [verb, *text.split()] for line in page.splitlines()), verb


def _commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    with click.Context(kaji) as ctx:
        for verb in VERBS:
            command = kaji.get_command(ctx, verb)
            assert command is not None
            found.append((verb, command))
            if isinstance(command, click.Group):
                found += [(f"{verb} {name}", inner) for name, inner in command.commands.items()]
    return found


def test_every_verb_has_a_short_help_and_an_example() -> None:
    """The text on the main page is the command's first sentence; every page ends with an example."""
    for name, command in _commands():
        text = (command.help or "").split("\n\n")[0].replace("\n", " ")
        if name in VERBS:
            assert text == VERBS[name], name
        assert command.epilog, name
        assert f"kaji {name.split()[0]}" in command.epilog, name
        page = CliRunner().invoke(kaji, [*name.split(), "--help"]).stdout
        assert len(page.splitlines()) < 90, name


def test_every_option_has_a_help_text_or_shows_its_default() -> None:
    for name, command in _commands():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.help or parameter.show_default, f"{name} {parameter.opts}"


def test_an_unknown_verb_exits_with_2_and_names_the_nearest() -> None:
    result = invoke(FakeWebApi(), "logz", "bert")
    assert result.exit_code == 2
    assert result.stderr == "kaji: there is no verb 'logz'. Did you mean logs or login?\n      see kaji --help\n"
    assert invoke(FakeWebApi(), "frobnicate").exit_code == 2


def test_a_range_where_one_number_is_wanted_is_called_no_whole_number() -> None:
    done = invoke(FakeWebApi([]), "metrics", "--rank", "0-1", "bert")
    assert (done.exit_code, "'0-1' is not a whole number" in done.stderr) == (2, True)


def test_a_verb_that_needs_another_word_shows_its_help() -> None:
    """As it is, and not as an error that names its own help; the exit code is that of wrong usage."""
    done = CliRunner().invoke(kaji, ["audit"])
    assert done.exit_code == 2
    assert done.stderr.startswith("Usage: kaji audit [OPTIONS] COMMAND")
    assert "see kaji audit --help" not in done.stderr


def test_the_option_for_json_is_named_to_who_guesses_another() -> None:
    result = invoke(FakeWebApi(), "queue", "--json")
    assert result.stderr == "kaji: no such option '--json'.\n      kaji queue -o json\n"


def test_an_internal_error_is_one_line_and_a_report(tmp_path: Path) -> None:
    """The traceback is in a private file of the user, without the token."""

    def wrong(_: Any) -> Any:
        raise RuntimeError(f"so wrong {TOKEN}")

    api = FakeWebApi(answers={"GET /v1/gpus": wrong})
    result = invoke(api, "gpus", state_dir=tmp_path / "state")
    assert result.exit_code == 125
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("kaji: this is a bug in kaji (RuntimeError); the report is in ")
    report = Path(line.split(" is in ")[1])
    assert report.parent == tmp_path / "state"
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text()
    assert "so wrong ***" in text
    assert "Traceback" in text
    assert TOKEN not in text


@pytest.mark.parametrize(
    ("version", "hint"),
    [
        (
            {"version": "9.1.0"},
            f"      kaji has version {__version__} and the server 9.1.0: use kaji of the server's version\n",
        ),
        ({"version": __version__}, ""),
        ((503, {"title": "away"}), ""),
    ],
)
def test_an_internal_error_names_a_server_of_another_version(tmp_path: Path, version: Any, hint: str) -> None:
    """It may be the cause: an answer lacks what this client expects."""
    api = FakeWebApi(answers={"GET /v1/gpus": {}, "GET /v1/version": version})
    result = invoke(api, "gpus", state_dir=tmp_path)
    first, _, rest = result.stderr.partition("\n")
    assert (result.exit_code, "this is a bug in kaji (KeyError)" in first, rest) == (125, True, hint)


@pytest.mark.parametrize("words", ["ps -a -o wide", "describe bert", "inspect bert", "explain bert", "history"])
def test_words_of_a_newer_server_are_shown_as_they_are(words: str) -> None:
    """A phase and a reason that this client does not know, and further fields, are no error."""
    run = view(
        "bert", "Hibernating", status={"reason": "SnowFell", "message": "wait for spring", "snow": [1]}, added={}
    )
    explained = {"phase": "Hibernating", "reason": "SnowFell", "message": "wait for spring", "snow": []}
    answers = {
        "GET /v1/runs/vision/bert/explain": explained,
        "GET /v1/history": {"items": [{"namespace": "vision", "run": run, "removedAt": None, "snow": 1}]},
    }
    result = invoke(FakeWebApi([run], answers), *words.split())
    assert (result.exit_code, "Hibernating" in result.stdout) == (0, True), result.stderr


def test_no_colour_without_a_terminal_or_with_no_color() -> None:
    api = FakeWebApi([view("bert")])
    assert "\x1b" not in invoke(api, "ps").stdout
    assert "\x1b" not in invoke(api, "describe", "bert", environment={"NO_COLOR": "1"}).stdout


def test_the_clients_version_needs_no_server() -> None:
    """`kaji version` also says that no server answers, and exits with 125."""
    assert invoke(FakeWebApi(), "--version").stdout.startswith("kaji ")
    assert invoke(FakeWebApi(), "version", "--client").exit_code == 0
    result = invoke(FakeWebApi(answers={"GET /v1/version": (503, {"title": "away"})}), "version")
    assert result.exit_code == 125
    assert result.stdout.startswith("Client ")


def test_policy_check_needs_no_server(tmp_path: Path) -> None:
    """All faults of the file are reported at once with their lines, and no server is asked."""
    file = tmp_path / "policy.yaml"
    file.write_text("defaults:\n  cpu: many\n  memry: 1Gi\n")
    api = FakeWebApi()
    result = invoke(api, "policy", "check", str(file))
    assert result.exit_code == 2
    assert "(line 2)" in result.stderr
    assert "(line 3)" in result.stderr
    assert "did you mean memory?" in result.stderr
    file.write_text("defaults: {cpu: 2}\n")
    assert invoke(api, "policy", "check", str(file)).stdout == f"{file} is a policy without faults.\n"
    assert invoke(api, "policy", "check", "-", stdin="defaults: {cpu: 2}").exit_code == 0
    missing = invoke(api, "policy", "check", str(tmp_path / "no"))
    assert (missing.exit_code, api.calls) == (2, [])


def test_ages_are_relative_to_the_injected_clock() -> None:
    run = view("bert", createdAt=NOW.isoformat())
    assert "Less than a second" in invoke(FakeWebApi([run]), "ps", "-o", "wide").stdout
