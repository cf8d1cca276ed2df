"""From the options of `kaji run` to the body of `POST /v1/runs`.

A value that can't be read is sent unchanged when the server is asked for further faults. Without it, the server would
report a missing field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kajitori.client.submit.ask_mounts import ask_for_code, ask_for_mounts
from kajitori.client.submit.ask_network import ask_for_network
from kajitori.client.submit.ask_resources import ask_for_resources
from kajitori.client.submit.borrowed_options import BORROWED
from kajitori.client.submit.filling import SpecFilling
from kajitori.client.submit.manifest import Manifest, read_manifest
from kajitori.client.submit.run_options import RunWords
from kajitori.core.naming.names import TAINT_EFFECTS
from kajitori.core.spec.notify import KINDS
from kajitori.core.spec.reading.draft import read_draft
from kajitori.core.spec.run import after_of, container_words, name_fault
from kajitori.errors import Fault, InvalidInput

REMOVED_DETACHED = "10s"
"""After the end of a run with -d and --rm: `kaji wait` and `kaji logs -f` have been told of the end by then."""
REMOVED_FOLLOWED = "10m"
"""The same without -d: the command that follows the run deletes it, and the cluster does so if that command is gone."""

_ARCHITECTURE = "kubernetes.io/arch"
_LEAVE_ONE_OUT = "leave one of them out"


@dataclass(frozen=True)
class RunRequest:
    """The parts of a request `POST /v1/runs`, and the option that each part of the spec came from."""

    spec: dict[str, Any]
    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """The option or file that wrote a field, by the field's path in the spec."""
    file: str | None = None
    notes: Sequence[str] = ()
    """Notes about options that are accepted, but have no effect or another meaning here."""
    faults: Sequence[Fault] = ()
    """Faults that are found without the server."""
    hints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Hints that name options, for faults of the spec, by path in the spec and code of the fault."""
    complained: frozenset[str] = frozenset()
    """Paths of fields with values that `faults` reports already."""
    whole: bool = True
    """False if the file could not be read, so that a missing field is no fault."""

    def body(self) -> dict[str, Any]:
        """Return the JSON to send."""
        document: dict[str, Any] = {"spec": self.spec}
        if self.name:
            document["name"] = self.name
        if self.namespace:
            document["namespace"] = self.namespace
        if self.labels:
            document["labels"] = self.labels
        return document

    def in_users_words(self, error: InvalidInput) -> InvalidInput:
        """Return the server's error with options in place of fields, and with the faults that were found here."""
        found = self.renamed(error.faults)
        if not self.faults:
            return type(error)(found, hint=error.hint)
        known = {(fault.field, fault.message) for fault in self.faults}
        more = [fault for fault in found if (fault.field, fault.message) not in known]
        return InvalidInput([*self.faults, *more], hint=error.hint)

    def renamed(self, faults: Iterable[Fault]) -> list[Fault]:
        """Return `faults` with options in place of fields, without faults of fields that were reported here."""
        unknown = (fault for fault in faults if not self._is_known(fault.field))
        found = (replace(fault, hint=self.hints.get((fault.field, fault.code), fault.hint)) for fault in unknown)
        return [_rename_field(fault, self.sources, self.file) for fault in found]

    def _is_known(self, field: str) -> bool:
        return any(field == path or field.startswith((f"{path}.", f"{path}[")) for path in self.complained)


def build_request(
    words: RunWords,
    *,
    environment: Mapping[str, str],
    folder: Path,
    read_text: Callable[[str], str],
    pack: Callable[[Path], str],
    template: Mapping[str, Any] | None = None,
) -> RunRequest:
    """Return the request that the options, and the file or the template ask for; options take precedence.

    Its `faults` name options. Relative paths are below `folder`; `read_text` reads a named file (`-` is stdin); `pack`
    packs a folder of code and returns its digest; `template` is the spec of the template that the options name.
    """
    builder = _Builder(words, environment, folder, read_text, pack)
    if template is not None:
        builder.spec.document = deepcopy(dict(template))
    request = builder.build()
    draft = read_draft(request.spec)
    own = draft.faults
    if not request.whole:  # the unreadable file may hold what is missing here
        own = tuple(fault for fault in own if draft.lacks(fault.field) and (words.image or fault.field != "spec.image"))
    return replace(request, faults=(*builder.spec.faults, *request.renamed(own)))


class _Builder:
    """Reads the file, then lets the options fill in the spec."""

    def __init__(
        self,
        words: RunWords,
        environment: Mapping[str, str],
        folder: Path,
        read_text: Callable[[str], str],
        pack: Callable[[Path], str],
    ) -> None:
        self.words = words
        self.environment = environment
        self.folder = folder
        self.read_text = read_text
        self.pack = pack
        self.spec = SpecFilling()
        self.whole = True

    def build(self) -> RunRequest:
        words = self.words
        name, namespace, labels = words.name, words.namespace, {}
        if words.file is not None:
            manifest = self._read_file(words.file)
            self.spec.document = deepcopy(manifest.spec)
            name, namespace, labels = name or manifest.name, namespace or manifest.namespace, dict(manifest.labels)
            if words.template is not None:
                self.spec.complain("--template", "excludes --file", words.template, _LEAVE_ONE_OUT)
        self._refuse_what_is_not_there()
        self._write_program()
        ask_for_network(self.spec, words)
        ask_for_resources(self.spec, words, whole=self.whole)
        self._write_environment()
        ask_for_mounts(self.spec, words, self.folder, self.environment)
        ask_for_code(self.spec, words, self.folder, self.environment, self.pack)
        self._write_life()
        self._write_placement()
        for word in words.label:
            key, _, value = word.partition("=")
            labels[key] = value
            self.spec.mapping("labels")[key] = value
            self.spec.sources[f"spec.labels.{key}"] = self.spec.sources[f"spec.labels[{key!r}]"] = f"--label {word}"
        source = "--name" if words.name else "metadata.name"
        self.spec.sources |= {"name": source, **({"namespace": "--namespace"} if words.namespace else {})}
        fault = name_fault(name, source) if name is not None else None
        if fault is not None:
            self.spec.faults.append(fault)
            name = None
        return RunRequest(
            self.spec.document,
            name,
            namespace,
            labels,
            self.spec.sources,
            words.file or (words.template and f"--template {words.template}"),
            notes=tuple(self.spec.notes),
            hints=self.spec.hints,
            complained=frozenset(self.spec.complained),
            whole=self.whole,
        )

    def _read_file(self, file: str) -> Manifest:
        try:
            manifest = read_manifest(self.read_text(file), file)
        except InvalidInput as error:
            self.spec.faults += error.faults
        except (OSError, UnicodeDecodeError) as error:
            self.spec.faults.append(_unreadable_file("--file", file, error))
        else:
            self.spec.faults += manifest.faults
            return manifest
        self.whole = False
        return Manifest({})

    def _refuse_what_is_not_there(self) -> None:
        words = self.words
        for name, value in words.borrowed.items():
            option = BORROWED[name]
            if option.is_accepted:
                self.spec.notes.append(f"note: {name}: {option.why}")
            else:
                hint = f"say {option.instead}" if option.instead.startswith("-") else option.instead
                self.spec.complain(name, option.why, value, hint)

    def _write_program(self) -> None:
        words = self.words
        self.spec.put("image", words.image, "IMAGE")
        if words.image is None and words.file is None and "image" not in self.spec.document:
            self.spec.complained.add("spec.image")
            self.spec.complain("IMAGE", "is required", hint="name one: kaji run python:3.11 python train.py")
        self.spec.put("workingDir", words.workdir, "--workdir")
        self.spec.put("tensorboard", words.tensorboard, "--tensorboard")
        self.spec.put("user", words.user, "--user")
        typed = words.command[1:] if words.command[:1] == ("--",) else words.command  # as kubectl's users write it
        command, args = container_words(words.entrypoint, typed)
        if words.entrypoint is not None:
            self.spec.document.pop("args", None)
            self.spec.put("command", command, "--entrypoint")
            self.spec.put("args", args, "COMMAND")
        elif args:
            self.spec.put("args", args, "COMMAND")
        if words.interactive:
            self.spec.put("stdin", True, "-i")
        if words.tty:
            self.spec.put("tty", True, "-t")
        if words.privileged:
            self.spec.put("privileged", True, "--privileged")

    def _write_environment(self) -> None:
        env: dict[str, tuple[str, str]] = {}
        for file in self.words.env_file:
            try:
                text = self.read_text(file)
            except (OSError, UnicodeDecodeError) as error:
                self.spec.faults.append(_unreadable_file("--env-file", file, error))
                continue
            for number, line in enumerate(text.splitlines(), start=1):
                if line.strip() and not line.lstrip().startswith("#"):
                    self._add_variable(env, line.lstrip(), f"--env-file {file}:{number}")
        for word in self.words.env:
            self._add_variable(env, word, "--env")
        for name, (value, source) in env.items():
            self.spec.mapping("env")[name] = value
            for path in (f"spec.env.{name}", f"spec.env[{name!r}]"):
                self.spec.sources[path] = f"{source} {name}" if source == "--env" else source

    def _add_variable(self, env: dict[str, tuple[str, str]], word: str, source: str) -> None:
        """Add `NAME=value`. A name alone takes the value of this shell's variable, if the shell has that variable."""
        name, equals, value = word.partition("=")
        if not name or re.search(r"\s", name):
            self.spec.complain(source, f"{name + equals!r:.80} does not name a variable", hint="write NAME=value")
        elif equals:
            env[name] = value, source
        elif name in self.environment:
            env[name] = self.environment[name], source

    def _write_life(self) -> None:
        words = self.words
        self.spec.put("type", words.type, "--type")
        self.spec.put("launcher", words.launcher, "--launcher")
        for word in words.after:
            others = self.spec.items("after")
            self.spec.sources[f"spec.after[{len(others)}]"] = f"--after {word}"
            others.append(after_of(word))
        self._write_restarts()
        self._write_health()
        self.spec.put("priority", words.priority, "--priority")
        self.spec.put("timeLimit", words.time_limit, "--time-limit")
        if words.notify is not None:
            self.spec.put("notify", notify_of(words.notify), "--notify")
        self.spec.put("stuckAfter", words.stuck_after, "--stuck-after")
        self.spec.put("onStuck", words.on_stuck, "--on-stuck")
        self.spec.put("grace", words.grace, "--grace")
        self._stop_timeout()
        if words.remove:
            self.spec.put("removeAfter", REMOVED_DETACHED if words.detach else REMOVED_FOLLOWED, "--rm")

    def _write_restarts(self) -> None:
        """Write the number of restarts from `--restarts N`, or from docker's `--restart` if it names a number."""
        words, count = self.words, None
        if words.restart == "no":
            count = "0"
        elif words.restart is not None and words.restart.startswith("on-failure:"):
            count = words.restart.removeprefix("on-failure:")
        elif words.restart is not None:
            hint = "say how often after a failure: --restarts 3"
            if words.restart in ("always", "unless-stopped"):
                hint = "say --type service, whose members are kept running; or --restarts 3"
            self.spec.complain("--restart", "restarting is Kajitori's: a gang restarts as a whole", words.restart, hint)
        if words.restarts is not None and count not in (None, words.restarts):
            message = f"{words.restart!r:.80}, but --restarts {words.restarts}"
            self.spec.complain("--restart", message, words.restart or "", _LEAVE_ONE_OUT)
        elif words.restarts is not None or count is None:
            self.spec.put_number("restarts", words.restarts, "--restarts")
        else:
            self.spec.put_number("restarts", count, "--restart")

    def _write_health(self) -> None:
        """Write the health check, or leave out that of the file, the template or the image."""
        words = self.words
        options = {
            "command": ("--health-cmd", words.health_cmd),
            "interval": ("--health-interval", words.health_interval),
            "timeout": ("--health-timeout", words.health_timeout),
            "retries": ("--health-retries", words.health_retries),
            "startPeriod": ("--health-start-period", words.health_start_period),
            "startInterval": ("--health-start-interval", words.health_start_interval),
        }
        given = {field: value for field, (_, value) in options.items() if value is not None}
        if words.no_healthcheck:
            self.spec.document["health"] = None  # not that of the image either
            if given:
                excluded = ", ".join(options[field][0] for field in given)
                self.spec.complain("--no-healthcheck", f"excludes {excluded}", hint=_LEAVE_ONE_OUT)
        elif given:
            health = self.spec.mapping("health")
            for field, value in given.items():
                health[field] = int(value) if field == "retries" and value.isdecimal() else value
            sources = {f"spec.health.{field}": option for field, (option, _) in options.items() if field in given}
            self.spec.sources |= {"spec.health": "--health-cmd", "spec.health.command": "--health-cmd"} | sources

    def _stop_timeout(self) -> None:
        """docker's name of the grace, in seconds."""
        text = self.words.stop_timeout
        if text is None:
            return
        if not text.isascii() or not text.isdigit():
            self.spec.complain("--stop-timeout", f"{text!r:.80} is not a number of seconds", text, "--grace 60s")
        elif self.words.grace is not None:
            self.spec.complain("--stop-timeout", f"{text}, but --grace {self.words.grace}", text, _LEAVE_ONE_OUT)
        else:
            self.spec.put("grace", f"{text}s", "--stop-timeout")

    def _write_platform(self) -> None:
        """`linux/arm64`: nodes of that architecture."""
        text = self.words.platform
        if text is None:
            return
        system, _, architecture = text.partition("/")
        if system != "linux" or not re.fullmatch(r"[a-z0-9]+", architecture, re.ASCII):
            hint = "linux/amd64 or linux/arm64"
            self.spec.complain("--platform", f"{text!r:.80} is no platform of a node", text, hint)
            return
        self.spec.mapping("nodeSelector")[_ARCHITECTURE] = architecture
        for path in (f"spec.nodeSelector.{_ARCHITECTURE}", f"spec.nodeSelector[{_ARCHITECTURE!r}]"):
            self.spec.sources[path] = f"--platform {text}"

    def _write_placement(self) -> None:
        self._write_platform()
        for word in self.words.node_selector:
            key, equals, value = word.partition("=")
            if not equals:
                self.spec.complain("--node-selector", f"{word!r:.80} names no value", word, "write LABEL=VALUE")
                continue
            self.spec.mapping("nodeSelector")[key] = value
            for path in (f"spec.nodeSelector.{key}", f"spec.nodeSelector[{key!r}]"):
                self.spec.sources[path] = f"--node-selector {word}"
        for word in self.words.toleration:
            tolerations = self.spec.items("tolerations")
            self.spec.sources[f"spec.tolerations[{len(tolerations)}]"] = f"--toleration {word}"
            rest, _, effect = word.partition(":")
            key, equals, value = rest.partition("=")
            if effect and effect not in TAINT_EFFECTS:
                self.spec.leave_unread("tolerations", word)
                self.spec.complain(
                    "--toleration", f"{effect!r:.80} is no effect of a taint", word, ", ".join(TAINT_EFFECTS)
                )
                continue
            toleration = {"key": key, "operator": "Equal" if equals else "Exists"}
            if equals:
                toleration["value"] = value
            if effect:
                toleration["effect"] = effect
            tolerations.append(toleration)


def _unreadable_file(option: str, file: str, error: Exception) -> Fault:
    why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
    return Fault(option, f"{file} can't be read: {why}", file, "check the path")


def _rename_field(fault: Fault, sources: Mapping[str, str], file: str | None) -> Fault:
    path = fault.field
    while path:
        if path in sources:
            return replace(fault, field=sources[path])
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    if file is not None and fault.field.startswith("spec"):
        return replace(fault, field=f"{file}: {fault.field}")
    return fault


def notify_of(text: str) -> dict[str, Any]:
    """Return the spec's `notify` for words that are kinds of messages or names of channels, or `none`."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["none"]:
        return {"kinds": []}
    kinds = [word for word in words if word in KINDS]
    channels = [word for word in words if word not in KINDS]
    return {**({"channels": channels} if channels else {}), **({"kinds": kinds} if kinds else {})}
