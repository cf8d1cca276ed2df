"""The options of `kaji run` as keyword arguments."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from kajitori.client.submit.run_options import RunWords

if TYPE_CHECKING:
    from kajitori.errors import InvalidInput

Number = int | float | str


class Named(Protocol):
    """A run that the client returned."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...


class RunOptions(TypedDict, total=False):
    """The options of `kaji run`; a hyphen is an underscore, and options that may be repeated have plural names."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    env: Mapping[str, str]
    volumes: Sequence[str]
    """`imagenet:/data:ro`, as after `kaji run -v`."""
    secrets: Sequence[str]
    ports: Sequence[int | str]
    workdir: str
    entrypoint: str
    user: str
    gpus: Number
    """`8`, `"all"` or `"h100:8"`."""
    gpu_type: str
    cpus: Number
    memory: str
    """`"64g"`."""
    shm_size: str
    whole_node: bool
    replicas: int | str
    array: str
    """`"0-99%8"`: a sweep of 100 members, 8 at once."""
    stop_at: str
    launcher: str
    after: str | Named | Sequence[str | Named]
    """`["prepare", "db:healthy", "fetch:ended"]`: runs that have to succeed, to be healthy, or to end, before this one
    starts. A run that the client returned stands for its name."""
    type: str
    code: str | os.PathLike[str]
    """A folder that all members start in."""
    checkpoint: str
    checkpoint_every: str
    tensorboard: str
    restarts: int
    health_cmd: str
    """`"pg_isready"`: the command that checks whether a member is healthy. A shell runs it there at regular times."""
    health_interval: str
    health_timeout: str
    health_retries: int
    health_start_period: str
    health_start_interval: str
    no_healthcheck: bool
    """Leave out the health check of the template or file."""
    time_limit: str
    grace: str
    priority: str
    notify: str
    stuck_after: str
    on_stuck: str
    network: str
    network_aliases: Sequence[str]
    allow_from: Sequence[str]
    allow_to: Sequence[str]
    node_selector: Mapping[str, str]
    tolerations: Sequence[str]
    privileged: bool
    template: str
    file: str | os.PathLike[str]
    remove: bool
    """Delete the run once it has ended."""


_PLURALS = {
    "labels": "label",
    "volumes": "volume",
    "secrets": "secret",
    "ports": "publish",
    "tolerations": "toleration",
    "network_aliases": "network_alias",
}
_KEYWORD_OF = {f"--{option}": keyword for keyword, option in _PLURALS.items()} | {"--rm": "remove"}
_KNOWN = {field.name for field in fields(RunWords)}
_FLAGS = frozenset({"whole_node", "privileged", "remove", "no_healthcheck"})
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""")
_FOR_A_SHELL = re.compile(r"[;|&<>]+|\$[A-Za-z_{]\w*")
_OPTION = re.compile(r"(--[a-z][a-z-]*)(?: ([A-Za-z0-9][^\s,;)]*))?")


def check_names(function: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError for a keyword that is no option of the function; it names the most similar one."""
    from kajitori.core.suggestions import nearest

    names = set(known)
    for wrong in sorted(set(options) - names):
        near = nearest(wrong, names)
        hint = f"; did you mean {near}?" if near else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {wrong!r}{hint}")


def words_of(
    image: str | None, command: str | Sequence[str], options: Mapping[str, Any], namespace: str = ""
) -> RunWords:
    """Return the words of `kaji run` for these arguments. `namespace` is that of runs for which none is named.

    Raises TypeError for a keyword that is no option, and InvalidInput for a command that needs a shell and for `after`
    with something that is no run of the same namespace.
    """
    check_names("run", options, RunOptions.__annotations__)
    words: dict[str, Any] = {}
    for keyword, value in options.items():
        if value is not None and keyword != "after":
            name = _PLURALS.get(keyword, keyword)
            words[name] = value if name in _FLAGS else _to_text(value)
    if (after := options.get("after")) is not None:
        words["after"] = _names_of_runs(after, options.get("namespace") or namespace)
    return RunWords(image=image, command=split_command(command), detach=True, **words)


def split_command(command: str | Sequence[str]) -> list[str]:
    """Return the words of a command. One that is a text is split at spaces outside of quotes, as Docker does.

    No shell runs it, so a text with operators or variables of a shell would not do what it says: raises InvalidInput.
    """
    from kajitori.errors import InvalidInput

    if not isinstance(command, str):
        return [str(word) for word in command]
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidInput.one("command", f"can't be split: {error}", value=command, hint="close the quotes") from error
    if found := _FOR_A_SHELL.search(_QUOTED.sub("", command)):
        hint = 'start a shell: ["sh", "-c", "…"]; or put it in quotes, or pass a list of words, if the program gets it'
        raise InvalidInput.one("command", f"{found[0]!r} is for a shell, and none runs it", value=command, hint=hint)
    return words


def _names_of_runs(runs: str | Named | Iterable[str | Named], namespace: str) -> list[str]:
    """Return the names of the runs that a run of this namespace is to wait for."""
    from kajitori.errors import Fault, InvalidInput

    several = list(runs) if isinstance(runs, Iterable) and not isinstance(runs, str) else [runs]
    faults = []
    for run in several:
        if isinstance(run, str):
            continue
        if not hasattr(run, "name"):
            message = f"{type(run).__name__} is neither a name nor a run"
            hint = 'pass names, such as "fetch:ended", and runs that the client returned'
            faults.append(Fault("after", message, repr(run)[:80], hint))
        elif namespace and run.namespace != namespace:
            message = f"{run.name} is a run of namespace {run.namespace}, and this one is of {namespace}"
            faults.append(Fault("after", message, run.name, "a run can wait for runs of its own namespace only"))
    if faults:
        raise InvalidInput(faults)
    return [run if isinstance(run, str) else run.name for run in several]


def _to_text(value: object) -> str | list[str]:
    if isinstance(value, Mapping):
        return [f"{key}={content}" for key, content in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [str(entry) for entry in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def in_keywords(error: InvalidInput) -> InvalidInput:
    """Return the error with keyword arguments in place of options, in fields and hints."""
    faults = [
        replace(fault, field="image", hint='name one, such as "python:3.11"')
        if fault.field == "IMAGE"
        else replace(fault, field=_in_keywords(fault.field), hint=_in_keywords(fault.hint))
        for fault in error.faults
    ]
    return type(error)(faults, hint=_in_keywords(error.hint))


def _in_keywords(text: str) -> str:
    """Return a text with `--gpu-type h100` as `gpu_type="h100"`; words that are no option stay."""

    def keyword(found: re.Match[str]) -> str:
        option, value = found[1], found[2]
        name = _KEYWORD_OF.get(option, option.removeprefix("--").replace("-", "_"))
        if _PLURALS.get(name, name) not in _KNOWN:
            return found[0]
        if value is None:
            return name
        return f"{name}={value if value.isdecimal() else repr(value)}"

    return _OPTION.sub(keyword, text)
