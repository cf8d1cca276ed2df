"""`kaji secret` and `kaji volumes`: values come from stdin, files or a prompt, and are never printed."""

from __future__ import annotations

import base64
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.fake_web_api import TOKEN, FakeWebApi, invoke, problem, served

VALUE = "s3cr3t-value"


def sent_values(api: FakeWebApi) -> dict[str, str]:
    """Return the values of the last request, decoded."""
    body: dict[str, Any] = api.calls_to("POST", "/v1/secrets")[-1].body
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


@pytest.fixture
def api() -> FakeWebApi:
    secret = {"name": "wandb", "namespace": "vision", "type": "Opaque", "keys": ["key"], "keyCount": 1}
    secret |= {"createdAt": "2026-11-21T10:00:00Z", "usedBy": ["bert"]}
    foreign = secret | {"name": "tls", "type": "kubernetes.io/tls", "keys": None, "keyCount": 2, "usedBy": []}
    return FakeWebApi(
        answers={
            "POST /v1/secrets": (201, secret),
            "GET /v1/secrets": {"namespace": "vision", "items": [foreign, secret]},
            "DELETE /v1/secrets/wandb": (202, None),
        }
    )


def test_a_value_is_read_from_stdin(api: FakeWebApi) -> None:
    """Without its last line end, which `echo` adds; the value is not printed."""
    result = invoke(api, "secret", "create", "wandb", "key", stdin=f"{VALUE}\n")
    assert (result.exit_code, result.stdout) == (0, "wandb\n")
    assert VALUE not in result.output
    assert sent_values(api) == {"key": VALUE}
    assert api.calls_to("POST")[0].body["namespace"] == "vision"
    invoke(api, "secret", "create", "-N", "nlp", "--replace", "wandb", "key", stdin="two\nlines\n\n")
    assert sent_values(api) == {"key": "two\nlines\n"}
    assert (api.calls[-1].query, api.calls[-1].body["namespace"]) == ({"replace": ["true"]}, "nlp")


def test_values_are_read_from_files(api: FakeWebApi, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("certificate\n")
    (tmp_path / ".env").write_text("# comment\n\nA=1=2\n B=x \n")
    args = ["--from-file", str(tmp_path / "ca.crt"), "--from-file", f"other={tmp_path / 'ca.crt'}"]
    result = invoke(
        api, "secret", "create", "s", *args, "--env-file", str(tmp_path / ".env"), "--from-file", "in=-", stdin="i"
    )
    assert result.exit_code == 0, result.output
    assert sent_values(api) == {"ca.crt": "certificate\n", "other": "certificate\n", "A": "1=2", "B": "x", "in": "i"}


def test_a_value_on_the_command_line_is_refused(api: FakeWebApi, tmp_path: Path) -> None:
    """The refusal does not repeat it. Unreadable lines and files are reported at the same time."""
    (tmp_path / ".env").write_text(f"{VALUE}\n")
    args = [f"key={VALUE}", "--env-file", str(tmp_path / ".env"), "--from-file", "nope"]
    result = invoke(api, "secret", "create", "s", *args)
    assert (result.exit_code, api.calls) == (2, [])
    assert VALUE not in result.output
    assert "the value of key stands on the command line" in result.stderr
    assert ".env:1: the line is no NAME=value" in result.stderr
    assert "nope can't be read" in result.stderr


@pytest.mark.parametrize("args", [[], ["a", "b"], ["a", "--from-file", "a=-"]])
def test_a_secret_without_keys_or_with_two_keys_from_stdin_is_refused(api: FakeWebApi, args: list[str]) -> None:
    assert invoke(api, "secret", "create", "s", *args, stdin="x").exit_code == 2
    assert api.calls == []


def test_at_a_terminal_values_are_asked_for_without_echo(api: FakeWebApi) -> None:
    with served(api) as url:
        own, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", "from kajitori.cli import main; main()", "secret", "create", "wandb", "A", "B"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "KAJI_SERVER": url, "KAJI_TOKEN": TOKEN},
            start_new_session=True,
        )
        os.close(theirs)
        shown = ""

        def wait_for(words: str) -> None:
            nonlocal shown
            until = time.monotonic() + 60
            while words not in shown:
                assert select.select([own], [], [], max(0, until - time.monotonic()))[0], shown
                shown += os.read(own, 4096).decode()

        wait_for("A:")
        os.write(own, f"{VALUE}\n".encode())
        wait_for("B:")
        os.write(own, b"other\n")
        wait_for("use it: kaji run --secret wandb")
        assert process.wait(60) == 0
        os.close(own)
    assert sent_values(api) == {"A": VALUE, "B": "other"}
    assert VALUE not in shown


def test_secret_ls_shows_keys_but_no_values(api: FakeWebApi) -> None:
    """If the keys are unknown, it shows their number."""
    lines = invoke(api, "secret", "ls").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["NAME", "KEYS", "TYPE", "AGE", "USED", "BY"],
        ["tls", "2", "kubernetes.io/tls", "2", "hours"],
        ["wandb", "key", "Opaque", "2", "hours", "bert"],
    ]
    assert api.calls[0].query == {"namespace": ["vision"]}
    assert invoke(api, "secret", "ls", "-q").stdout == "tls\nwandb\n"


def test_secret_rm_continues_after_a_secret_in_use(api: FakeWebApi) -> None:
    api.answers["DELETE /v1/secrets/tls"] = problem(409, "WrongState", "the secret 'tls' is used by bert")
    result = invoke(api, "secret", "rm", "tls", "wandb")
    assert (result.exit_code, result.stdout) == (2, "wandb\n")
    assert "is used by bert" in result.stderr
    invoke(api, "secret", "rm", "-f", "wandb")
    assert api.calls[-1].query == {"namespace": ["vision"], "force": ["true"]}


def test_volumes_are_listed_and_checkpoints_can_be_deleted() -> None:
    """A note on stderr says what is not listed."""
    items: list[dict[str, Any]] = [
        {
            "name": "imagenet",
            "kind": "claim",
            "source": "data",
            "readOnly": True,
            "state": "Bound",
            "sizeBytes": 2 << 40,
        },
        {"name": "lost", "kind": "claim", "source": "nowhere", "state": "Missing", "sizeBytes": None},
        {"name": "bert-checkpoint", "kind": "checkpoint", "source": "of the run bert", "usedBy": ["bert"]},
    ]
    listed = {"namespace": "vision", "items": [{"usedBy": []} | item for item in items], "note": "so it is"}
    api = FakeWebApi(answers={"GET /v1/volumes": listed, "DELETE /v1/volumes/bert-checkpoint": (202, None)})
    result = invoke(api, "volumes")
    assert [" ".join(line.split()) for line in result.stdout.splitlines()] == [
        "NAME KIND SOURCE MODE SIZE USED BY",
        "imagenet claim data read-only 2Ti",
        "lost claim nowhere (Missing)",
        "bert-checkpoint checkpoint of the run bert bert",
    ]
    assert result.stderr == "note: so it is\n"
    assert invoke(api, "volumes", "-o", "name").stdout == "imagenet\nlost\nbert-checkpoint\n"
    assert invoke(api, "volumes", "rm", "bert-checkpoint").stdout == "bert-checkpoint\n"
    assert api.calls[-1].query == {"namespace": ["vision"]}
