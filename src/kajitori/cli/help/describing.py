"""`--help -o json`: a description of the commands for programs, taken from click's own objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import cleandoc
from typing import Any

import click

from kajitori.cli.help.contract import CONTRACTS, SCHEMAS, Contract, schema_address
from kajitori.errors import KajitoriError

EXIT_CODES = {
    "0": "done",
    "2": "wrong usage or refused input; nothing was done",
    "125": "the platform failed or does not answer; trying again may help",
    "130": "interrupted by Ctrl-C",
    "other": "kaji run, attach and start -a: the exit code of the run",
}


def asks_for_description(command: click.Command, words: Sequence[str]) -> list[str] | None:
    """Return the command that `--help -o json` asks about, as its words without `kaji`; None if nothing asks so."""
    if "--help" not in words:
        return None
    path: list[str] = []
    parent: click.Context | None = None
    while True:
        ctx = click.Context(command, info_name=path[-1] if path else "kaji", parent=parent, **command.context_settings)
        parser = command.make_parser(ctx)
        if not any(parameter.name == "output" for parameter in command.params):
            click.Option(["-o", "--output"]).add_to_parser(parser, ctx)
        try:
            found, rest, _ = parser.parse_args(list(words))
        except click.UsageError:
            return None
        asked = command.get_help_option(ctx)
        if asked is not None and found.get(asked.name or ""):
            return path if found.get("output") == "json" else None
        if not isinstance(command, click.Group) or not rest:
            return None
        inner = command.get_command(ctx, rest[0])
        if inner is None:
            return None
        path, parent, command, words = [*path, rest[0]], ctx, inner, rest[1:]


def description(root: click.Group, path: Sequence[str], sections: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return the command below `root` with this path, and all below it. Without a path also what holds for all."""
    command: click.Command = root
    ctx = click.Context(root, info_name="kaji")
    for word in path:
        assert isinstance(command, click.Group)
        inner = command.get_command(ctx, word)
        assert inner is not None
        command, ctx = inner, click.Context(inner, info_name=word, parent=ctx)
    found = _describe_command(command, ctx, list(path))
    if not path:
        found |= {"sections": {title: list(verbs) for title, verbs in sections.items()}}
        found |= {"exitCodes": EXIT_CODES, "errors": f"{SCHEMAS}#/$defs/Error", "schemas": SCHEMAS}
    return found


def _describe_command(command: click.Command, ctx: click.Context, path: list[str]) -> dict[str, Any]:
    arguments = [_describe_argument(each, ctx) for each in command.params if isinstance(each, click.Argument)]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    usage = command.get_usage(ctx).removeprefix("Usage:")
    found: dict[str, Any] = {
        "command": " ".join(["kaji", *path]),
        "summary": command.get_short_help_str(200),
        "help": cleandoc(command.help or "").replace("\b\n", ""),
        "examples": _examples(command.epilog or ""),
        "usage": " ".join(usage.split()),
        "arguments": arguments,
        "options": [_describe_option(each, ctx) for each in options],
    }
    if (contract := CONTRACTS.get(" ".join(path))) is not None:
        found |= _describe_contract(contract, command, " ".join(path))
    if isinstance(command, click.Group):
        found["commands"] = [_describe_verbs(command, ctx, [*path, name]) for name in command.list_commands(ctx)]
    return found


def _examples(epilog: str) -> list[str]:
    """Return the commands of an epilog; a line that ends with a backslash goes on in the next one."""
    lines = (line.strip() for line in epilog.replace("\\\n", " ").splitlines() if line.startswith("  "))
    return [" ".join(line.split("  # ")[0].split()) for line in lines]


def _describe_verbs(group: click.Group, ctx: click.Context, path: list[str]) -> dict[str, Any]:
    try:
        command = group.get_command(ctx, path[-1])
    except KajitoriError as error:  # a library that this installation lacks
        return {"command": " ".join(["kaji", *path]), "unavailable": error.message, "hint": error.hint}
    assert command is not None
    return _describe_command(command, click.Context(command, info_name=path[-1], parent=ctx), path)


def _describe_contract(contract: Contract, command: click.Command, verb: str) -> dict[str, Any]:
    if not contract.shape:
        return {"changes": contract.changes, "json": False, "whyNoJson": contract.without}
    return {"changes": contract.changes, "json": True, "schema": schema_address(verb)}


def _describe_argument(parameter: click.Argument, ctx: click.Context) -> dict[str, Any]:
    return {"name": parameter.name, "metavar": parameter.make_metavar(ctx), **_describe_values(parameter, ctx)}


def _describe_option(parameter: click.Option, ctx: click.Context) -> dict[str, Any]:
    names = [*parameter.opts, *parameter.secondary_opts]
    document = {"names": names, "help": parameter.help or "", "flag": parameter.is_flag}
    document |= _describe_values(parameter, ctx)
    return document | ({"metavar": parameter.metavar} if parameter.metavar else {})


def _describe_values(parameter: click.Parameter, ctx: click.Context) -> dict[str, Any]:
    kind = parameter.type
    document: dict[str, Any] = {"type": kind.name, "required": parameter.required}
    document["repeatable"] = parameter.multiple or parameter.nargs == -1
    if isinstance(kind, click.Choice):
        document["choices"] = [str(choice) for choice in kind.choices]
    if isinstance(kind, click.IntRange | click.FloatRange):
        document |= {word: value for word, value in (("min", kind.min), ("max", kind.max)) if value is not None}
    default = parameter.to_info_dict().get("default")
    if isinstance(default, str | int | float) and default is not False:
        document["default"] = default
    if parameter.envvar:
        document["environment"] = [parameter.envvar] if isinstance(parameter.envvar, str) else list(parameter.envvar)
    return document
