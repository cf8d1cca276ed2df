"""The command line of `kaji run` or `kaji notebook` that asks for a run, made from its spec."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_DEFAULTS = {"type": "batch", "replicas": 1, "launcher": "none", "qos": "guaranteed"}
_OPTIONS = {
    "type": "--type",
    "array": "--array",
    "stopAt": "--stop-at",
    "launcher": "--launcher",
    "workingDir": "-w",
    "restarts": "--restarts",
    "priority": "--priority",
    "timeLimit": "--time-limit",
    "stuckAfter": "--stuck-after",
    "onStuck": "--on-stuck",
    "grace": "--grace",
    "tensorboard": "--tensorboard",
    "user": "-u",
}
"""Options that take the value of their field unchanged."""
_RESOURCES = {"gpu": "--gpus", "gpuType": "--gpu-type"}
_SIZES = {"memory": "-m", "shm": "--shm-size"}
_FLAGS = {"stdin": "-i", "tty": "-t", "privileged": "--privileged", "removeAfter": "--rm"}
_HEALTH = {
    "command": ("--health-cmd", None),
    "interval": ("--health-interval", "30s"),
    "timeout": ("--health-timeout", "30s"),
    "retries": ("--health-retries", 3),
    "startPeriod": ("--health-start-period", "0s"),
    "startInterval": ("--health-start-interval", "5s"),
}
"""Options of a health check, each with the default of its field."""
NOT_ASKED = ("stopped", "parked", "keepIdleUntil", "resumes", "stopGrace")
"""Fields that are set later in a run's life, so they are no part of the request."""
_OF_NOTEBOOKS = {"type", "image", "resources", "env", "volumes", "checkpoint", "timeLimit", "priority"}
"""Fields for which `kaji notebook` has options."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line, and what it does not say."""

    words: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Fields of the spec that no option can express, such as `qos`. A file can: `kaji run -f FILE`."""

    @property
    def text(self) -> str:
        """The words with quotes, for a shell. A comment names what is left out."""
        return shlex.join(self.words) + (f"  # without {', '.join(self.left_out)}" if self.left_out else "")


def command_line(
    spec: Mapping[str, Any], *, name: str = "", namespace: str = "", notebook_image: str = ""
) -> CommandLine:
    """Return the command line that asks for the same run as a spec's document, which may be valid or not. With an empty
    name or namespace it has no such option. `notebook_image`: the image of notebooks that name none, if it is known."""
    return _Writer(spec, name, namespace, notebook_image).write()


class _Writer:
    """Takes the fields out of a document as it writes options for them; no option can express what remains."""

    def __init__(self, spec: Mapping[str, Any], name: str, namespace: str, notebook_image: str) -> None:
        given = ((key, value) for key, value in spec.items() if key not in NOT_ASKED)
        self.rest = {key: value for key, value in given if not _is_left_out(key, value)}
        self.is_notebook = self.rest.get("type") == "notebook" and _is_plain_notebook(self.rest)
        self.notebook_image = notebook_image
        if self.is_notebook:
            del self.rest["type"]
            self.head = ["kaji", "notebook", *filter(None, [name])]
            self.add("--namespace", namespace)
        else:
            self.head = ["kaji", "run"]
            self.add("--namespace", namespace)
            self.add("--name", name)

    def write(self) -> CommandLine:
        self.members()
        self.resources(self.rest.pop("resources", {}))
        for key, option in _OPTIONS.items():
            self.add(option, self.rest.pop(key, None))
        self.pairs("-e", "env")
        self.files()
        self.network()
        self.health()
        self.pairs("-l", "labels")
        self.pairs("--node-selector", "nodeSelector")
        self.add_all("--toleration", self.taken("tolerations", _toleration_option))
        self.add_all("--after", self.taken("after", _after_option))
        self.add_all("-p", map(str, self.rest.pop("ports", ())))
        self.notify()
        self.head += [flag for key, flag in _FLAGS.items() if self.rest.pop(key, None) is not None]
        tail = self.program()
        return CommandLine((*self.head, *tail), tuple(self.rest))

    def add(self, option: str, value: object) -> None:
        """Write an option, unless its value is None or empty. A value that looks like an option follows a `=`."""
        text = "" if value is None else str(value)
        if text.startswith("-") and option.startswith("--"):
            self.head.append(f"{option}={text}")
        elif text:
            self.head += [option, text]

    def add_all(self, option: str, values: Iterable[str]) -> None:
        for value in values:
            self.add(option, value)

    def pairs(self, option: str, key: str) -> None:
        self.add_all(option, [f"{name}={value}" for name, value in self.rest.pop(key, {}).items()])

    def taken(self, key: str, written: Callable[[Mapping[str, Any]], str | None]) -> list[str]:
        """Return the items of a list as values of an option. Items that no option can express stay in the document."""
        items = self.rest.pop(key, ())
        texts = [written(item) for item in items]
        if None in texts:
            self.rest[key] = [item for item, text in zip(items, texts, strict=True) if text is None]
        return [text for text in texts if text is not None]

    def members(self) -> None:
        fewest, most = self.rest.pop("minReplicas", None), self.rest.pop("replicas", None)
        if fewest is not None:
            self.add("-n", f"{fewest}-{most or 1}")
        else:
            self.add("-n", most)

    def resources(self, resources: dict[str, Any]) -> None:
        rest = {key: value for key, value in resources.items() if value}
        if rest.pop("wholeNode", False):
            self.head.append("--whole-node")
        for key, option in _RESOURCES.items():
            self.add(option, rest.pop(key, None))
        self.add("--cpus", _cpus_option(rest.pop("cpu", None)))
        for key, option in _SIZES.items():
            self.add(option, _docker_size(rest.pop(key, None)))
        self.rest |= {f"resources.{key}": value for key, value in rest.items()}

    def files(self) -> None:
        self.add_all("-v", self.taken("volumes", _volume_option))
        self.add_all("--secret", self.taken("secrets", _secret_option))
        if code := self.rest.pop("code", None):
            self.add("--code", ":".join(filter(None, (code.get("digest"), code.get("path")))))
        if checkpoint := self.rest.pop("checkpoint", None):
            self.add("--checkpoint", ":".join(filter(None, (checkpoint.get("path"), checkpoint.get("size")))))
            self.add("--checkpoint-every", checkpoint.get("every"))

    def network(self) -> None:
        if self.rest.pop("hostNetwork", False):
            self.head.append("--network=host")
        networks = self.rest.get("networks", ())
        if len(networks) == 1 and not networks[0].get("internal"):
            self.add("--network", networks[0].get("name"))
            self.add_all("--network-alias", networks[0].get("aliases", ()))
            del self.rest["networks"]
        access = self.rest.pop("network", None) or {}
        for key, option in (("from", "--allow-from"), ("to", "--allow-to")):
            if access.get(key) is not None:
                self.add(option, ",".join(access[key]) or "none")

    def health(self) -> None:
        check = self.rest.get("health")
        if not isinstance(check, Mapping) or not isinstance(check.get("command"), str):
            return  # the option has a text for a shell, and no list
        del self.rest["health"]
        for key, (option, default) in _HEALTH.items():
            self.add(option, check.get(key) if check.get(key) != default else None)

    def notify(self) -> None:
        wanted = self.rest.pop("notify", None)
        if wanted is None:
            return
        channels, kinds = wanted.get("channels") or [], wanted.get("kinds")
        if (kinds == [] and channels) or (kinds is None and not channels):
            self.rest["notify"] = wanted
        else:
            self.add("--notify", ",".join([*channels, *(kinds or [])]) or "none")

    def program(self) -> list[str]:
        if self.is_notebook:
            image = str(self.rest.pop("image", ""))
            self.add("--image", image if image != self.notebook_image else "")
            return []
        command, args = self.rest.pop("command", []), self.rest.pop("args", [])
        if command and command[0]:
            self.add("--entrypoint", command[0])
            args = [*command[1:], *args]  # one list for the container
        elif command:
            self.rest["command"] = command
        if args[:1] == ["--"]:
            args = ["--", *args]  # the first one is dropped
        return [str(self.rest.pop("image", "")), *args]


def _is_plain_notebook(spec: Mapping[str, Any]) -> bool:
    """Whether `kaji notebook` has an option for each field. Other notebooks are started by `kaji run --type`."""
    resources, checkpoint = spec.get("resources") or {}, spec.get("checkpoint") or {}
    return spec.keys() <= _OF_NOTEBOOKS and not resources.get("wholeNode") and not checkpoint.get("every")


def _is_left_out(key: str, value: object) -> bool:
    return value is None or value is False or value == _DEFAULTS.get(key) or (value in ({}, []) and key != "notify")


def _volume_option(use: Mapping[str, Any]) -> str | None:
    source, path = use.get("hostPath") or use.get("name"), use.get("path")
    if not source or not path or ":" in source or ":" in path or "," in path:
        return None
    return f"{source}:{path}{':ro' if use.get('readOnly') else ''}"


def _secret_option(use: Mapping[str, Any]) -> str:
    name = use.get("name", "")
    return (
        f"{use['env']}={name}/{use.get('key')}" if use.get("env") else ":".join(filter(None, (name, use.get("path"))))
    )


def _toleration_option(wanted: Mapping[str, Any]) -> str | None:
    key, value, effect = (wanted.get(name) or "" for name in ("key", "value", "effect"))
    if not key:
        return None
    text = key if wanted.get("operator") == "Exists" else f"{key}={value}"
    return f"{text}:{effect}" if effect else text


def _after_option(other: Mapping[str, Any]) -> str | None:
    name, condition = other.get("run"), other.get("condition") or "succeeded"
    if not name:
        return None
    return str(name) if condition == "succeeded" else f"{name}:{condition}"


def _cpus_option(amount: object) -> str | None:
    """Return an amount of processor time in cores, as Docker has it: `0.1` for `100m`."""
    text = None if amount is None else str(amount)
    thousandths = re.fullmatch(r"([0-9]{1,15})m", text or "")
    return str(int(thousandths[1]) / 1000) if thousandths else text


def _docker_size(text: str | None) -> str | None:
    """Return a size in Docker's units, which are binary: `64g` for `64Gi`."""
    if text is None:
        return None
    binary = re.fullmatch(r"([0-9]+)([KMGTPE])i", text)
    return f"{binary[1]}{binary[2].lower()}" if binary else text
