"""`kaji secret`: secrets for runs."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import (
    complete_file,
    complete_secret,
    done_option,
    namespace_option,
    output_option,
    server_options,
)

if TYPE_CHECKING:
    from kajitori.errors import Fault


@click.group(epilog="\b\nExample:\n  kaji secret create wandb WANDB_API_KEY    # asks for its value")
def command() -> None:
    """Make, list and delete secrets for runs.

    A run uses one with `kaji run --secret NAME`. Values are never shown, and never written on a command line.
    """


@command.command(
    epilog="\b\nExamples:\n  kaji secret create wandb WANDB_API_KEY\n  pass show wandb | kaji secret create wandb key\n"
    "  kaji secret create registry --from-file ca.crt --env-file .env"
)
@click.argument("name")
@click.argument("keys", metavar="[KEY...]", nargs=-1)
@click.option(
    "--from-file",
    "files",
    multiple=True,
    metavar="[KEY=]FILE",
    shell_complete=complete_file,
    help="A file's content; - is stdin.",
)
@click.option(
    "--env-file",
    "env_files",
    multiple=True,
    metavar="FILE",
    shell_complete=complete_file,
    help="NAME=value, one a line.",
)
@click.option("--replace", is_flag=True, help="Replace an existing secret of this name.")
@namespace_option("Namespace of the runs that use it.")
@done_option
@server_options
@click.pass_obj
def create(
    cli: Cli,
    name: str,
    keys: tuple[str, ...],
    files: tuple[str, ...],
    env_files: tuple[str, ...],
    replace: bool,
    namespace: str | None,
) -> None:
    """Make a secret.

    The value of each KEY is asked for at the terminal, or read from stdin for a single one, without its last line end.
    Prints the name.
    """
    from kajitori.cli.many import Done
    from kajitori.cli.problems import fields_named
    from kajitori.cli.terminal import say

    values = _values(keys, files, env_files)
    with fields_named({"name": "NAME", "data": "KEY"}), cli.api() as api:
        body = {"name": name, "data": {key: base64.b64encode(value).decode() for key, value in values.items()}}
        if where := namespace or api.target.namespace:
            body["namespace"] = where
        api.post("/v1/secrets", body, {"replace": replace})
    report = Done()
    report.add({"name": name})
    report.finish()
    say(f"use it: kaji run --secret {name} …")


def _values(keys: tuple[str, ...], files: tuple[str, ...], env_files: tuple[str, ...]) -> dict[str, bytes]:
    """Return the given values by key. Raises InvalidInput and UsageError, which never contain a value."""
    from kajitori.errors import Fault

    given = _GivenValues()
    for word in files:
        given.add_file(word)
    for path in env_files:
        given.add_env_file(path)
    for key in keys:
        if "=" in key:
            message = f"the value of {key.partition('=')[0]} stands on the command line, where others can read it"
            hint = "name the key alone; its value is asked for, or read from stdin"
            given.faults.append(Fault("KEY", message, hint=hint))
    given.raise_faults()
    for key, value in _read(keys).items():
        given.add("KEY", key, value)
    given.raise_faults()
    if not given.values:
        raise click.UsageError("name a KEY, --from-file or --env-file: a secret holds at least one value")
    return given.values


class _GivenValues:
    """Values of a secret by key, and the faults of the options that gave them."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.faults: list[Fault] = []

    def raise_faults(self) -> None:
        """Raise InvalidInput with all faults, if there are any."""
        from kajitori.errors import InvalidInput

        if self.faults:
            raise InvalidInput(self.faults)

    def add(self, source: str, key: str, value: bytes) -> None:
        """Add a value; `source` is the option that gave it."""
        if key in self.values:
            self._add_fault(source, f"the key {key} is given twice", "give it once")
        self.values[key] = value

    def add_file(self, word: str) -> None:
        """Add the content of a file that is given as `KEY=PATH` or `PATH`."""
        key, equals, path = word.partition("=")
        path = path if equals else word
        try:
            content = sys.stdin.buffer.read() if path == "-" else Path(path).expanduser().read_bytes()
        except OSError as error:
            self._add_fault("--from-file", f"{path} can't be read: {error.strerror}", "check the path", path)
        else:
            self.add("--from-file", key if equals else Path(path).name, content)

    def add_env_file(self, path: str) -> None:
        """Add the values in a file with lines `NAME=value`."""
        try:
            lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
            self._add_fault("--env-file", f"{path} can't be read: {why}", "check the path", path)
            return
        for number, line in enumerate(lines, start=1):
            key, equals, text = line.strip().partition("=")
            if equals and key:
                self.add("--env-file", key, text.encode())
            elif key and not key.startswith("#"):
                self._add_fault(f"--env-file {path}:{number}", "the line is no NAME=value", "write NAME=value")

    def _add_fault(self, source: str, message: str, hint: str, value: str = "") -> None:
        from kajitori.errors import Fault

        self.faults.append(Fault(source, message, value, hint))


def _read(keys: tuple[str, ...]) -> dict[str, bytes]:
    """Return the values that are typed or piped in."""
    if not keys:
        return {}
    if sys.stdin.isatty():
        return {key: click.prompt(key, hide_input=True, err=True).encode() for key in keys}
    if len(keys) > 1:
        raise click.UsageError("stdin holds the value of one KEY; use --env-file for several")
    return {keys[0]: sys.stdin.buffer.read().removesuffix(b"\n")}


@command.command("ls", epilog="\b\nExample:\n  kaji secret ls")
@click.option("-q", "--quiet", is_flag=True, help="Print names only.")
@namespace_option("Namespace to look in.")
@output_option("json", "yaml", "name")
@server_options
@click.pass_obj
def list_secrets(cli: Cli, quiet: bool, namespace: str | None, output: str | None) -> None:
    """List secrets, without their values.

    KEYS are names for secrets that `kaji` made, else a number. USED BY names runs that have not ended.
    """
    from kajitori.cli.printing.output import Column, print_document, print_table
    from kajitori.cli.terminal import echo
    from kajitori.cli.words.runs import age

    with cli.api() as api:
        answer = api.get("/v1/secrets", {"namespace": namespace or api.target.namespace})
    if output in ("json", "yaml"):
        print_document(answer, output)
    elif quiet or output == "name":
        for secret in answer["items"]:
            echo(secret["name"])
    else:
        columns = [Column("NAME"), Column("KEYS", flexible=True), Column("TYPE"), Column("AGE"), Column("USED BY")]
        print_table(cli, columns, [_row(secret, age(secret["createdAt"], cli.now())) for secret in answer["items"]])


def _row(secret: dict[str, Any], age: str) -> tuple[str, ...]:
    keys = ", ".join(secret["keys"]) if secret["keys"] is not None else str(secret["keyCount"])
    return secret["name"], keys, secret["type"], age, ", ".join(secret["usedBy"])


@command.command(epilog="\b\nExample:\n  kaji secret rm wandb")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_secret)
@click.option(
    "-f", "--force", is_flag=True, help="Delete it although a run uses it; the run's next attempt will not start then."
)
@namespace_option("Namespace to look in.")
@done_option
@server_options
@click.pass_obj
def rm(cli: Cli, names: tuple[str, ...], force: bool, namespace: str | None) -> int:
    """Delete secrets.

    Prints the name of each.
    """
    from kajitori.cli.many import delete_named

    with cli.api() as api:
        params = {"namespace": namespace or api.target.namespace, "force": force}
        return delete_named(api, "/v1/secrets", names, params)
