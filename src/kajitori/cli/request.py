"""From the words of `kaji run` to what the Web API takes.

A word that can't be read is sent as it is when a server is asked what else is wrong: it then knows that something was
meant there, and finds no fault in its absence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kajitori.cli.manifest import Manifest, read_manifest
from kajitori.core.draft import read_draft
from kajitori.core.quantity import QuantityError, format_memory, parse_docker_memory_bytes
from kajitori.core.run import container_words, name_fault
from kajitori.errors import Fault, InvalidInput, KajitoriError

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, kw_only=True)
class RunWords:
    """What stood on the command line of `kaji run`, as it was written."""

    image: str | None = None
    command: Sequence[str] = ()
    file: str | None = None
    name: str | None = None
    namespace: str | None = None
    type: str | None = None
    replicas: str | None = None
    array: str | None = None
    stop_at: str | None = None
    launcher: str | None = None
    gpus: str | None = None
    gpu_type: str | None = None
    cpus: str | None = None
    memory: str | None = None
    shm_size: str | None = None
    whole_node: bool = False
    env: Sequence[str] = ()
    env_file: Sequence[str] = ()
    secret: Sequence[str] = ()
    volume: Sequence[str] = ()
    code: str | None = None
    checkpoint: str | None = None
    checkpoint_every: str | None = None
    workdir: str | None = None
    entrypoint: str | None = None
    user: str | None = None
    publish: Sequence[str] = ()
    label: Sequence[str] = ()
    restarts: str | None = None
    priority: str | None = None
    time_limit: str | None = None
    grace: str | None = None
    node_selector: Sequence[str] = ()
    toleration: Sequence[str] = ()
    privileged: bool = False
    network: str | None = None
    allow_from: Sequence[str] = ()
    allow_to: Sequence[str] = ()
    restart: str | None = None
    interactive: bool = False
    tty: bool = False
    detach: bool = False
    remove: bool = False


@dataclass(frozen=True)
class RunRequest:
    """What `POST /v1/runs` takes, and which option each part of the spec came from."""

    spec: dict[str, Any]
    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """Path in the spec to the option or file it was written in."""
    file: str | None = None
    faults: Sequence[Fault] = ()
    """What is wrong with it as far as that can be seen without a server."""
    complained: frozenset[str] = frozenset()
    """Paths in the spec of words that `faults` names already."""
    whole: bool = True
    """False where the file could not be read: nobody knows then what else is asked for."""

    def body(self) -> dict[str, Any]:
        """The JSON to send."""
        document: dict[str, Any] = {"spec": self.spec}
        if self.name:
            document["name"] = self.name
        if self.namespace:
            document["namespace"] = self.namespace
        if self.labels:
            document["labels"] = self.labels
        return document

    def in_users_words(self, error: InvalidInput) -> InvalidInput:
        """What a server refused, naming options where it named fields, together with the faults that are known here."""
        found = self.renamed(error.faults)
        if not self.faults:
            return type(error)(found, hint=error.hint)
        known = {(fault.field, fault.message) for fault in self.faults}
        more = [fault for fault in found if (fault.field, fault.message) not in known]
        return InvalidInput([*self.faults, *more], hint=error.hint)

    def renamed(self, faults: Iterable[Fault]) -> list[Fault]:
        """The same faults in the words that were used, without those of words that were complained about."""
        return [_renamed(fault, self.sources, self.file) for fault in faults if not self._is_known(fault.field)]

    def _is_known(self, field: str) -> bool:
        return any(field == path or field.startswith((f"{path}.", f"{path}[")) for path in self.complained)


def build_request(
    words: RunWords,
    *,
    environment: Mapping[str, str],
    folder: Path,
    read_text: Callable[[str], str],
    pack: Callable[[Path], str],
) -> RunRequest:
    """The request that the words ask for; options overrule the file. Its `faults` say what is wrong, in the words that
    were used.

    `folder` is what relative paths are relative to; `read_text` reads a named file (`-` is stdin); `pack` answers the
    digest of a folder of code.
    """
    builder = _Builder(words, environment, folder, read_text, pack)
    request = builder.build()
    draft = read_draft(request.spec)
    own = draft.faults
    if not request.whole:  # the file may say what is missing here, and what goes together with what is there
        own = tuple(fault for fault in own if draft.lacks(fault.field) and (words.image or fault.field != "spec.image"))
    return replace(request, faults=(*builder.faults, *request.renamed(own)))


class _Builder:
    """Fills in a spec, remembers where each part came from, and collects faults."""

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
        self.faults: list[Fault] = []
        self.sources: dict[str, str] = {}
        self.complained: set[str] = set()
        self.whole = True
        self.spec: dict[str, Any] = {}

    def build(self) -> RunRequest:
        words = self.words
        name, namespace, labels = words.name, words.namespace, {}
        if words.file is not None:
            manifest = self._read_file(words.file)
            self.spec = deepcopy(manifest.spec)
            name, namespace, labels = name or manifest.name, namespace or manifest.namespace, dict(manifest.labels)
        self._refuse_what_is_not_there()
        self._program()
        self._resources()
        self._environment()
        self._mounts()
        self._code()
        self._life()
        self._placement()
        for word in words.label:
            key, _, value = word.partition("=")
            labels[key] = value
            self._mapping("labels")[key] = value
            self.sources[f"spec.labels.{key}"] = self.sources[f"spec.labels[{key!r}]"] = f"--label {word}"
        source = "--name" if words.name else "metadata.name"
        self.sources |= {"name": source, **({"namespace": "--namespace"} if words.namespace else {})}
        fault = name_fault(name, source) if name is not None else None
        if fault is not None:
            self.faults.append(fault)
            name = None
        return RunRequest(
            self.spec,
            name,
            namespace,
            labels,
            self.sources,
            words.file,
            complained=frozenset(self.complained),
            whole=self.whole,
        )

    def _read_file(self, file: str) -> Manifest:
        try:
            manifest = read_manifest(self.read_text(file), file)
        except InvalidInput as error:
            self.faults += error.faults
        except (OSError, UnicodeDecodeError) as error:
            self.faults.append(_unreadable("--file", file, error))
        else:
            self.faults += manifest.faults
            return manifest
        self.whole = False
        return Manifest({})

    def _refuse_what_is_not_there(self) -> None:
        words = self.words
        if words.interactive or words.tty:
            flags = "-it" if words.interactive and words.tty else "-i" if words.interactive else "-t"
            hint = "start it with -d, then: kaji exec -it RUN bash"
            self._fault(flags, "a run has no terminal of its own yet", hint=hint)
        if words.restart is not None:
            count = words.restart.partition(":")[2]
            hint = f"say how often after a failure: --restarts {count if count.isdigit() else 3}"
            if words.restart == "no":
                hint = "say --restarts 0"
            elif words.restart in ("always", "unless-stopped"):
                hint = "say --type service, whose members are kept running; or --restarts 3"
            self._fault("--restart", "restarting is Kajitori's: a gang restarts as a whole", words.restart, hint)
        if words.detach and words.remove:
            hint = "leave one of them out; delete it later with: kaji rm RUN"
            self._fault("--rm", "nobody is there to delete the run after its end when -d is given", hint=hint)
        if words.network not in (None, "host", "none", "bridge", "default"):
            hint = "members of a run always reach each other; --network host shares the node's network, "
            hint += "--allow-to and --allow-from say whom else it may reach and who may reach it"
            self._fault("--network", f"there is no network {words.network!r:.80}", words.network or "", hint)

    def _program(self) -> None:
        words = self.words
        self._set("image", words.image, "IMAGE")
        if words.image is None and words.file is None:
            self.complained.add("spec.image")
            self._fault("IMAGE", "is required", hint="such as: kaji run python:3.11 python train.py")
        self._set("workingDir", words.workdir, "--workdir")
        self._set("user", words.user, "--user")
        typed = words.command[1:] if words.command[:1] == ("--",) else words.command  # as kubectl's users write it
        command, args = container_words(words.entrypoint, typed)
        if words.entrypoint is not None:
            self.spec.pop("args", None)
            self._set("command", command, "--entrypoint")
            self._set("args", args, "COMMAND")
        elif args:
            self._set("args", args, "COMMAND")
        if words.privileged:
            self._set("privileged", True, "--privileged")
        if words.network == "host":
            self._set("hostNetwork", True, "--network host")
        self._reach()
        for word in words.publish:
            self._port(word)

    def _reach(self) -> None:
        """Classes and ranges, with commas between them; `none` alone is an empty list."""
        words = self.words
        given = (("from", words.allow_from, "--allow-from"), ("to", words.allow_to, "--allow-to"))
        for name, said, option in given:
            places = [place for word in said for place in word.split(",") if place]
            none = ["none"] in (places, [words.network])
            if words.network == "none" and said:
                hint = "leave one of them out"
                self._fault(option, f"{','.join(said)!r:.80}, but --network none allows nobody", said[0], hint)
            elif said or none:
                self._mapping("network")[name] = [] if none else places
                source = f"{option} {','.join(said)}" if said else "--network none"
                self.sources |= {"spec.network": source, f"spec.network.{name}": source}

    def _port(self, word: str) -> None:
        text, _, protocol = word.partition("/")
        if protocol not in ("", "tcp"):
            self._left("ports", word)
            self._fault("--publish", f"{word!r:.80}: only TCP is there", word, "leave the protocol out")
            return
        host, _, inside = text.rpartition(":")
        if not inside.isascii() or not inside.isdigit():
            hint = "name the port the program listens on: -p 8888"
            self._left("ports", word)
            self._fault("--publish", f"{word!r:.80} is not a port", word, hint)
        elif host and host != inside:
            self._left("ports", word)
            hint = f"name the port the program listens on: -p {inside}"
            self._fault("--publish", f"{word!r:.80}: ports are not mapped to others", word, hint)
        else:
            ports = self._list("ports")
            if int(inside) not in ports:
                self.sources[f"spec.ports[{len(ports)}]"] = "--publish"
                ports.append(int(inside))

    def _resources(self) -> None:
        words = self.words
        self._members(words.replicas)
        if words.array is not None and words.replicas is None:
            self.spec.pop("replicas", None)  # of the file
            self.spec.pop("minReplicas", None)
        self._set("array", words.array, "--array")
        self._set("stopAt", words.stop_at, "--stop-at")
        self._gpus(words.gpus)
        self._resource("gpuType", words.gpu_type, "--gpu-type")
        self._resource("cpu", words.cpus, "--cpus")
        self._size("memory", words.memory, "--memory")
        self._size("shm", words.shm_size, "--shm-size")
        if words.whole_node:
            self._resource("wholeNode", True, "--whole-node")

    def _members(self, text: str | None) -> None:
        """A number, or the fewest and the most: `8-32`."""
        if text is None:
            return
        self.spec.pop("minReplicas", None)  # of the file
        both = re.fullmatch(r"([0-9]{1,15})-([0-9]{1,15})", text, re.ASCII)
        if both is None:
            self._number("replicas", text, "--replicas", hint="write a number, such as 3, or a range, such as 8-32")
            return
        fewest, most = int(both[1]), int(both[2])
        self._set("minReplicas", fewest, "--replicas")
        self._set("replicas", most, "--replicas")
        if fewest > most:
            self.complained |= {"spec.replicas", "spec.minReplicas"}
            message = f"{text!r:.80}: a range goes upwards, from the fewest members to the most"
            self._fault("--replicas", message, text, f"write {most}-{fewest}" if most else "write 1-3, say")
        elif fewest < 1:
            self.complained |= {"spec.replicas", "spec.minReplicas"}
            hint = f"write 1-{most}" if most > 1 else "write a number, such as 3, or a range, such as 8-32"
            self._fault("--replicas", f"{text!r:.80}: a gang has at least one member", text, hint)

    def _gpus(self, text: str | None) -> None:
        if text is None:
            return
        wanted = text.strip("\"'").removeprefix("count=")
        resources = self._mapping("resources")
        if wanted == "all" and (self.words.gpu_type is not None or resources.get("gpuType") or not self.whole):
            resources.pop("gpu", None)
            self._resource("wholeNode", True, "--gpus all")
            return
        if wanted.isascii() and wanted.isdigit():
            self._resource("gpu", int(wanted), "--gpus")
            return
        message, hint = f"{text!r:.80} is not a number of GPUs", "say how many each member gets: --gpus 8"
        if wanted == "all":
            message = "all GPUs of a node, but nodes differ"
            hint = "say of which nodes: --gpus all --gpu-type TYPE; or how many: --gpus 8"
        elif "device=" in wanted:
            message, hint = f"{text!r:.80}: which GPUs it gets is the cluster's choice", "say how many: --gpus 2"
        self._resource("gpu", text, "--gpus")
        self.complained.add("spec.resources.gpu")
        self._fault("--gpus", message, text, hint)

    def _environment(self) -> None:
        env: dict[str, tuple[str, str]] = {}
        for file in self.words.env_file:
            try:
                text = self.read_text(file)
            except (OSError, UnicodeDecodeError) as error:
                self.faults.append(_unreadable("--env-file", file, error))
                continue
            for number, line in enumerate(text.splitlines(), start=1):
                if line.strip() and not line.lstrip().startswith("#"):
                    self._variable(env, line.lstrip(), f"--env-file {file}:{number}")
        for word in self.words.env:
            self._variable(env, word, "--env")
        for name, (value, source) in env.items():
            self._mapping("env")[name] = value
            for path in (f"spec.env.{name}", f"spec.env[{name!r}]"):
                self.sources[path] = f"{source} {name}" if source == "--env" else source

    def _variable(self, env: dict[str, tuple[str, str]], word: str, source: str) -> None:
        """One `NAME=value`; a name alone stands for this shell's own variable, and for nothing where there is none."""
        name, equals, value = word.partition("=")
        if not name or re.search(r"\s", name):
            self._fault(source, f"{name + equals!r:.80} does not name a variable", hint="write NAME=value")
        elif equals:
            env[name] = value, source
        elif name in self.environment:
            env[name] = self.environment[name], source

    def _mounts(self) -> None:
        for word in self.words.volume:
            self._volume(word)
        for word in self.words.secret:
            secrets = self._list("secrets")
            self.sources[f"spec.secrets[{len(secrets)}]"] = f"--secret {word}"
            variable, equals, rest = word.partition("=")
            name, slash, key = rest.partition("/")
            if equals and slash:
                secrets.append({"name": name, "key": key, "env": variable})
            elif equals:
                self._left("secrets", word)
                self._fault("--secret", f"{word!r:.80} names no key", word, "write VARIABLE=SECRET/KEY")
            else:
                name, colon, path = word.partition(":")
                secrets.append({"name": name, "path": path} if colon else {"name": name})
        if self.words.checkpoint is not None:
            path, colon, size = self.words.checkpoint.partition(":")
            self._set("checkpoint", {"path": path, **({"size": size} if colon else {})}, "--checkpoint")
        if self.words.checkpoint_every is not None:
            checkpoint = self._mapping("checkpoint")
            checkpoint["every"] = self.words.checkpoint_every
            self.sources["spec.checkpoint.every"] = "--checkpoint-every"
            if "path" not in checkpoint:  # nor in the file
                self.sources["spec.checkpoint.path"] = "--checkpoint"

    def _code(self) -> None:
        """A folder of this machine, as `DIR[:PATH]`, in a file relative to where that lies; or one that an earlier run
        brought, by its digest."""
        word, source, folder = self.words.code, f"--code {self.words.code}", self.folder
        if word is None and isinstance(self.spec.get("code"), str):
            file = self.words.file or "-"
            word, source = self.spec["code"], f"{file}: spec.code"
            folder = self.folder if file == "-" else self.folder / Path(file).expanduser().parent
        if word is None:
            return
        place, colon, path = word.rpartition(":")
        if not colon or not path.startswith("/"):
            place, path = word, ""
        self.sources["spec.code"] = source
        if not place:
            field = source if self.words.code is None else "--code"
            self.complained.add("spec.code")
            self.spec["code"] = word
            self._fault(field, "says no folder", word, "name one; . is the one you are in")
            return
        if place.startswith("sha256:"):
            self.spec["code"] = {"digest": place} | ({"path": path} if path else {})
            return
        try:
            digest = self.pack(Path(_absolute(place, folder, self.environment)))
        except KajitoriError as error:
            self.complained.add("spec.code")
            self.spec["code"] = word
            faults = error.faults if isinstance(error, InvalidInput) else [Fault("", error.message, word, error.hint)]
            for fault in faults:
                self.faults.append(replace(fault, field=": ".join(filter(None, (source, fault.field)))))
            return
        self.spec["code"] = {"digest": digest} | ({"path": path} if path else {})

    def _volume(self, word: str) -> None:
        source, colon, rest = word.partition(":")
        path, _, mode = rest.partition(":")
        if not colon or not source or not path:
            hint = "write SOURCE:PATH, such as -v imagenet:/data:ro or -v $PWD:$PWD"
            self._left("volumes", word)
            self._fault("--volume", f"{word!r:.80} does not say what is mounted where", word, hint)
            return
        options = set(filter(None, mode.split(",")))
        unknown = options - {"ro", "rw", "z", "Z"}
        if unknown:
            self._left("volumes", word)
            self._fault("--volume", f"{word!r:.80}: {', '.join(sorted(unknown))} is no option here", word, "ro or rw")
            return
        volumes = self._list("volumes")
        self.sources[f"spec.volumes[{len(volumes)}]"] = f"--volume {word}"
        use: dict[str, Any] = {"path": path}
        if source.startswith(("/", ".", "~")):
            use["hostPath"] = _absolute(source, self.folder, self.environment)
        else:
            use["name"] = source
        if "ro" in options:
            use["readOnly"] = True
        volumes.append(use)

    def _life(self) -> None:
        words = self.words
        self._set("type", words.type, "--type")
        self._set("launcher", words.launcher, "--launcher")
        self._number("restarts", words.restarts, "--restarts")
        self._set("priority", words.priority, "--priority")
        self._set("timeLimit", words.time_limit, "--time-limit")
        self._set("grace", words.grace, "--grace")

    def _placement(self) -> None:
        for word in self.words.node_selector:
            key, equals, value = word.partition("=")
            if not equals:
                self._fault("--node-selector", f"{word!r:.80} names no value", word, "write LABEL=VALUE")
                continue
            self._mapping("nodeSelector")[key] = value
            for path in (f"spec.nodeSelector.{key}", f"spec.nodeSelector[{key!r}]"):
                self.sources[path] = f"--node-selector {word}"
        for word in self.words.toleration:
            tolerations = self._list("tolerations")
            self.sources[f"spec.tolerations[{len(tolerations)}]"] = f"--toleration {word}"
            rest, _, effect = word.partition(":")
            key, equals, value = rest.partition("=")
            if effect and effect not in _TAINT_EFFECTS:
                self._left("tolerations", word)
                self._fault("--toleration", f"{effect!r:.80} is no effect of a taint", word, ", ".join(_TAINT_EFFECTS))
                continue
            toleration = {"key": key, "operator": "Equal" if equals else "Exists"}
            if equals:
                toleration["value"] = value
            if effect:
                toleration["effect"] = effect
            tolerations.append(toleration)

    def _set(self, path: str, value: Any, source: str) -> None:
        if value is not None:
            self.spec[path] = value
            self.sources[f"spec.{path}"] = source

    def _resource(self, key: str, value: Any, source: str) -> None:
        if value is not None:
            self._mapping("resources")[key] = value
            self.sources[f"spec.resources.{key}"] = source

    def _number(self, path: str, text: str | None, source: str, *, hint: str = "write a number, such as 3") -> None:
        if text is None:
            return
        if re.fullmatch(r"[+-]?[0-9]{1,15}", text, re.ASCII):
            self._set(path, int(text), source)
        else:
            self._set(path, text, source)
            self.complained.add(f"spec.{path}")
            self._fault(source, f"{text!r:.80} is not a whole number", text, hint)

    def _size(self, key: str, text: str | None, source: str) -> None:
        """Docker's units are binary in any case; what is sent says so unmistakably."""
        if text is None:
            return
        try:
            self._resource(key, format_memory(parse_docker_memory_bytes(text)), source)
        except QuantityError as error:
            self._resource(key, text, source)
            self.complained.add(f"spec.resources.{key}")
            self._fault(source, error.message, text, error.hint)

    def _mapping(self, key: str) -> dict[str, Any]:
        """A mapping of the spec; what the file wrote in its place is left for the check to name."""
        found = self.spec.setdefault(key, {})
        return found if isinstance(found, dict) else {}

    def _list(self, key: str) -> list[Any]:
        found = self.spec.setdefault(key, [])
        return found if isinstance(found, list) else []

    def _left(self, key: str, word: str) -> None:
        """Leaves a word that can't be read in its place in a list; its fault is named here."""
        items = self._list(key)
        self.complained.add(f"spec.{key}[{len(items)}]")
        items.append(word)

    def _fault(self, where: str, message: str, value: str = "", hint: str = "") -> None:
        self.faults.append(Fault(where, message, value, hint))


def _absolute(source: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The folder's absolute path, without following links: the node may have others."""
    if source == "~" or source.startswith("~/"):
        source = environment.get("HOME", "~") + source[1:]
    import os.path

    return os.path.normpath(folder / source)


def _unreadable(option: str, file: str, error: Exception) -> Fault:
    why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
    return Fault(option, f"{file} can't be read: {why}", file, "check the path")


def _renamed(fault: Fault, sources: Mapping[str, str], file: str | None) -> Fault:
    path = fault.field
    while path:
        if path in sources:
            return replace(fault, field=sources[path], hint=_option_words(fault.hint))
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    if file is not None and fault.field.startswith("spec"):
        return replace(fault, field=f"{file}: {fault.field}")
    return fault


_HINT_WORDS = {
    "resources.gpu, or wholeNode": "--gpus, or --whole-node",
    "add resources.gpu": "add --gpus",
}


def _option_words(hint: str) -> str:
    for field_words, option_words in _HINT_WORDS.items():
        hint = hint.replace(field_words, option_words)
    return hint
