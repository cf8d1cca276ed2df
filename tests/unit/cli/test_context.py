"""`kaji context`: which of several servers commands use."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.helpers.output_schemas import check_output
from tests.unit.client.test_target import cluster

from kajitori.cli.app import kaji
from kajitori.cli.context import COMPLETING, Cli
from kajitori.client.target import START_PATIENCE_SECONDS, StillStarting


def run(runtime: Path, *args: str, **environment: str) -> Result:
    cli = Cli(environment=environment, runtime_dir=runtime)
    return CliRunner().invoke(kaji, ["context", *args], obj=cli, prog_name="kaji")


def test_one_of_two_clusters_is_chosen_shown_and_cleared(tmp_path: Path) -> None:
    """`ls` lists both, `use` chooses one, and `show` says which is used and why."""
    runtime = tmp_path / "run"
    for name in ("lab", "mine"):
        cluster(tmp_path / name, runtime)
    unclear = run(runtime, "show")
    assert (unclear.exit_code, "2 clusters run here: lab" in unclear.stderr) == (2, True)
    assert run(runtime, "use", "lab").stdout == "lab\n"
    listed = run(runtime, "ls").stdout.splitlines()
    assert [line.split()[:2] for line in listed] == [
        ["NAME", "SERVER"],
        ["lab", "*"],
        ["mine", "http://127.0.0.1/mine"],
    ]
    assert run(runtime, "ls", "-q").stdout == "lab\nmine\n"
    shown: dict[str, Any] = json.loads(run(runtime, "show", "-o", "json").stdout)
    assert shown == {
        "name": "lab",
        "current": True,
        "because": "kaji context use",
        "server": "http://127.0.0.1/lab",
        "namespace": "me",
        "data": str(tmp_path / "lab"),
    }
    assert run(runtime, "show", "-o", "name").stdout == "lab\n"
    check_output(json.loads(run(runtime, "use", "lab", "-o", "json").stdout), "verbs/context use", complete=True)
    assert run(runtime, "use", "--none").exit_code == 0
    assert run(runtime, "show").exit_code == 2


def test_a_choice_that_the_environment_overrides_is_reported(tmp_path: Path) -> None:
    """Environment variables take precedence, as with docker."""
    runtime = tmp_path / "run"
    cluster(tmp_path / "lab", runtime)
    environment = {"KAJI_SERVER": "https://kaji.example.org", "KAJI_TOKEN": "x"}
    assert "$KAJI_SERVER is set, and counts before" in run(runtime, "use", "lab", **environment).stderr
    assert "Server   https://kaji.example.org" in run(runtime, "show", **environment).stdout
    assert [line.split()[0] for line in run(runtime, "ls", **environment).stdout.splitlines()] == [
        "NAME",
        "environment",
        "lab",
    ]


def test_use_takes_one_name(tmp_path: Path) -> None:
    cluster(tmp_path / "lab", tmp_path / "run")
    assert run(tmp_path / "run", "use").exit_code == 2
    assert run(tmp_path / "run", "use", "lab", "--none").exit_code == 2
    missing = run(tmp_path / "run", "use", "nope")
    assert (missing.exit_code, "known: lab" in missing.stderr) == (2, True)


def test_a_command_waits_for_a_cluster_that_is_still_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so once, and gives up after a minute. A shell that completes a word never waits."""
    data, links = tmp_path / "data", tmp_path / "clusters"
    data.mkdir()
    links.mkdir()
    (links / "data").symlink_to(data / "kaji.json")
    (data / "kaji.lock").write_text(str(os.getpid()))
    naps = list[float]()

    def sleep_until_up(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            document = {"url": "http://127.0.0.1:1", "token": "t", "pid": os.getpid(), "namespace": "me"}
            (data / "kaji.json").write_text(json.dumps(document))

    waiting = Cli(environment={}, runtime_dir=tmp_path, sleep=sleep_until_up)
    assert waiting.find_target().url == "http://127.0.0.1:1"
    assert len(naps) == 3
    assert capsys.readouterr().err == f"the cluster in {data} is still starting; waiting for it\n"
    (data / "kaji.json").unlink()
    for environment, most in (({}, START_PATIENCE_SECONDS), ({COMPLETING: "bash"}, 0)):
        naps.clear()
        with pytest.raises(StillStarting):
            Cli(environment=environment, runtime_dir=tmp_path, sleep=naps.append).find_target()
        assert sum(naps) == pytest.approx(most)
