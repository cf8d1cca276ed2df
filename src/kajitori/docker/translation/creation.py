"""From the body of `POST /containers/create` to a request for a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kajitori.core.kubernetes import texts
from kajitori.core.spec.image_health import HEALTH_TIMES, NANOSECONDS, command_of, whole_seconds
from kajitori.core.spec.run import MAX_RESTARTS, after_of
from kajitori.docker.translation.container import BUILT_IN_NETWORKS, NETWORK, Container
from kajitori.docker.translation.options import answer_others, kept_config, kept_host_config, refuse, warn
from kajitori.docker.translation.request import Creation, run_name
from kajitori.errors import InvalidInput

CONTAINER_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+", re.ASCII)

KEPT_CREATED = "10m"
"""With --rm: time after which the cluster deletes an ended run by itself, if the bridge is not there to do it. A
container that was created and not started counts as ended."""

LABEL_PREFIX = "kaji."

_LETTERS = re.compile("(?=[A-Z])")

ALWAYS = ("always", "unless-stopped")
"""Restart policies of services."""

SPEC_OF_LABELS: Mapping[str, tuple[str, ...]] = {
    "replicas": ("replicas",),
    "min-replicas": ("minReplicas",),
    "array": ("array",),
    "launcher": ("launcher",),
    "type": ("type",),
    "qos": ("qos",),
    "priority": ("priority",),
    "time-limit": ("timeLimit",),
    "restarts": ("restarts",),
    "grace": ("grace",),
    "stuck-after": ("stuckAfter",),
    "gpu-type": ("resources", "gpuType"),
    "whole-node": ("resources", "wholeNode"),
    "checkpoint": ("checkpoint", "path"),
    "tensorboard": ("tensorboard",),
    "after": ("after",),
}
"""Field of the spec that a label `kaji.NAME` sets."""

_NUMBERS = frozenset({"replicas", "min-replicas", "restarts"})
_SWITCHES = frozenset({"whole-node"})
_RUNS = frozenset({"after"})
"""Labels with a list of other runs, separated by commas."""

LOG_DRIVERS = frozenset(
    {"awslogs", "etwlogs", "fluentd", "gcplogs", "gelf", "journald", "json-file", "local", "none", "splunk", "syslog"}
)
"""Docker's log drivers. With each of them the cluster keeps the log in its own way, and the client gets a note about
that."""


@dataclass(frozen=True)
class EmptyFolders:
    """Names of volumes of policy that are an empty folder of each member; empty texts if policy offers none."""

    on_disk: str = ""
    in_memory: str = ""

    @classmethod
    def offered(cls, volumes: Iterable[Mapping[str, Any]]) -> EmptyFolders:
        """Return those among the items of `GET /v1/volumes`."""
        empty = [one for one in volumes if one["kind"] == "emptyDir" and not one.get("readOnly")]
        on_disk = next((str(one["name"]) for one in empty if not one.get("inMemory")), "")
        return cls(on_disk, next((str(one["name"]) for one in empty if one.get("inMemory")), ""))


def read_creation(body: Mapping[str, Any], name: str, empty: EmptyFolders = EmptyFolders()) -> Creation:
    """Return the request for a container. Raises InvalidInput with everything that is refused here.

    `empty` are used for anonymous volumes and for --tmpfs.
    """
    made = Creation(name)
    host = body.get("HostConfig") or {}
    if name:
        _check_name(made, "--name")
    if not body.get("Image"):
        made.complain("Image", "a container needs an image")
    _program(made, body)
    _resources(made, body, host)
    _Mounts(made, empty).read(body, host)
    _ports(made, body, host)
    _life(made, body, host)
    _network(made, body, host, body.get("NetworkingConfig") or {})
    _labels(made, body.get("Labels") or {})
    answer_others(made, body, host)
    if made.faults:
        raise InvalidInput(made.faults)
    endpoints = (body.get("NetworkingConfig") or {}).get("EndpointsConfig") or {}
    made.notes = {
        "Name": name,
        "Config": kept_config(body) | {"Labels": body.get("Labels") or {}},
        "HostConfig": kept_host_config(host),
        "Networks": _networks(host, endpoints),
    }
    if unset := [str(word) for word in body.get("Env") or () if "=" not in str(word)]:
        made.notes["Unset"] = unset
    if options := {name: one["DriverOpts"] for name, one in endpoints.items() if (one or {}).get("DriverOpts")}:
        made.notes["DriverOpts"] = options
    return made


def renamed(container: Container, name: str) -> Creation:
    """Return the request for a container like one that was never started, with its id and another name.

    Raises InvalidInput for a name that a container can't have.
    """
    made = Creation(name, dict(container.spec), dict(container.view.get("labels") or {}))
    _check_name(made, "name")
    if made.faults:
        raise InvalidInput(made.faults)
    made.notes = {**container.notes, "Name": name, "Id": container.id}
    made.spec.pop("networks", None)
    made.spec.setdefault("health", None)  # what the image has was read at the first creation
    put_networks(made, container.networks)
    return made


def _check_name(made: Creation, option: str) -> None:
    if not CONTAINER_NAME.fullmatch(made.name):
        made.complain(
            option, "use two or more letters, digits, '_', '.' and '-'; begin with a letter or digit", value=made.name
        )


def _program(made: Creation, body: Mapping[str, Any]) -> None:
    spec = made.spec
    if body.get("Image"):
        spec["image"] = str(body["Image"])
    entrypoint, words = _word_list(body.get("Entrypoint")), _word_list(body.get("Cmd")) or []
    if entrypoint == [""]:  # `--entrypoint ""`: the first word is the program
        entrypoint, words = words[:1], words[1:]
    if entrypoint:
        spec["command"] = entrypoint
    if words:
        spec["args"] = words
    spec |= {"stdin": True} if body.get("OpenStdin") else {}
    spec |= {"tty": True} if body.get("Tty") else {}
    if body.get("WorkingDir"):
        spec["workingDir"] = body["WorkingDir"]
    if body.get("User"):
        spec["user"] = "0" if body["User"] == "root" else str(body["User"])
    environment = {}
    for word in body.get("Env") or ():
        key, equals, value = str(word).partition("=")
        if equals:
            environment[key] = value
        else:  # docker's command line sends the name alone if the variable is not set on the user's machine
            made.warnings.append(f"--env {key}: it has no value, so it is left out; one of the image's stays")
    if environment:
        spec["env"] = environment


def _word_list(words: object) -> list[str] | None:
    if words is None:
        return None
    return [words] if isinstance(words, str) else [str(word) for word in words]  # type: ignore[attr-defined]


def _resources(made: Creation, body: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    resources: dict[str, Any] = {}
    if host.get("Memory"):
        resources["memory"] = str(host["Memory"])
    if host.get("ShmSize"):
        resources["shm"] = str(host["ShmSize"])
    if host.get("NanoCpus"):
        resources["cpu"] = f"{max(1, round(host['NanoCpus'] / 10**6))}m"
    for request in host.get("DeviceRequests") or ():
        _gpus(made, resources, body, request)
    _shared_memory(made, resources, str(host.get("IpcMode") or "private"))
    if resources:
        made.spec["resources"] = resources
    if host.get("Privileged"):
        made.spec["privileged"] = True


def _shared_memory(made: Creation, resources: dict[str, Any], mode: str) -> None:
    """Give a container a large /dev/shm for `--ipc host`, which users of PyTorch write for their data loaders."""
    if mode == "host":
        text = "--ipc host: a member has a /dev/shm of its own"
        if "memory" in resources and "shm" not in resources:
            resources["shm"] = resources["memory"]
            text += ", which may take all of its memory"
        made.warnings.append(text if "shm" in resources else f"{text}; say how large: --shm-size 8g -m 16g")
    elif mode not in ("private", "shareable"):
        hint = "leave it out: processes of one container share memory anyway"
        made.complain("--ipc", "members share no memory with other containers", hint, value=mode)


def _gpus(made: Creation, resources: dict[str, Any], body: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    kinds = {kind for kinds in request.get("Capabilities") or () for kind in kinds}
    if "gpu" not in kinds:
        made.complain("--device", "only GPUs can be requested as devices", "say --gpus 8", value=request.get("Driver"))
    elif request.get("DeviceIDs"):
        devices = ",".join(request["DeviceIDs"])
        made.complain("--gpus", "which GPUs a member gets is decided by its node", "say --gpus NUMBER", value=devices)
    elif request.get("Count", 0) < 0:
        resources["wholeNode"] = True  # with a GPU type: all GPUs of the node
        if not (body.get("Labels") or {}).get(f"{LABEL_PREFIX}gpu-type"):
            hint = f"say of which nodes: --label {LABEL_PREFIX}gpu-type=TYPE; or how many: --gpus 8"
            made.complain("--gpus", "all GPUs of a node, but nodes differ", hint, value="all")
    else:
        resources["gpu"] = int(request.get("Count") or 1)


class _Mounts:
    """Reads the volumes and folders of a container."""

    def __init__(self, made: Creation, empty: EmptyFolders) -> None:
        self._made = made
        self._empty = empty
        self._volumes: list[dict[str, Any]] = []

    def read(self, body: Mapping[str, Any], host: Mapping[str, Any]) -> None:
        for bind in host.get("Binds") or ():
            self._bind(str(bind))
        for mount in host.get("Mounts") or ():
            self._mount(mount)
        for path in host.get("Tmpfs") or {}:
            self._in_memory(path, "--tmpfs")
        named = {use["path"] for use in self._volumes}
        for path in body.get("Volumes") or {}:
            if path not in named:
                self._anonymous(path, "--volume")
        if self._volumes:
            self._made.spec["volumes"] = self._volumes

    def _bind(self, bind: str) -> None:
        source, _, rest = bind.partition(":")
        path, _, mode = rest.partition(":")
        if not path:
            self._anonymous(source, "--volume")
            return
        modes = set(filter(None, mode.split(",")))
        if others := modes - {"ro", "rw", "z", "Z"}:
            message, hint = "the only mode is ro", "leave the others out"
            self._made.complain("--volume", message, hint, value=",".join(sorted(others)))
        self._use(source, path, is_folder=source.startswith("/"), read_only="ro" in modes)

    def _mount(self, mount: Mapping[str, Any]) -> None:
        kind, source, path = mount.get("Type"), str(mount.get("Source") or ""), str(mount.get("Target") or "")
        if kind == "tmpfs":
            self._in_memory(path, "--mount")
        elif kind not in ("bind", "volume"):
            self._made.complain("--mount", f"type {kind} is not there", "use type=bind, volume or tmpfs", value=path)
        elif not source:
            self._anonymous(path, "--mount")
        else:
            self._use(source, path, is_folder=kind == "bind", read_only=bool(mount.get("ReadOnly")))

    def _anonymous(self, path: str, option: str) -> None:
        if not self._empty.on_disk:
            hint = "name one: -v NAME:PATH; or ask the operators for an emptyDir volume (policy's volumes)"
            self._made.complain(option, "an anonymous volume needs an empty folder, and policy offers none", hint, path)
            return
        text = f"{option} {path}: this folder is empty in each member, and gone with it; to keep files, name a volume"
        self._made.warnings.append(text)
        self._use(self._empty.on_disk, path)

    def _in_memory(self, path: str, option: str) -> None:
        if not self._empty.in_memory:
            hint = "write to /dev/shm (--shm-size 8g); or ask the operators for an emptyDir volume with memory: true"
            self._made.complain(option, "policy offers no empty folder in memory", hint, path)
            return
        self._use(self._empty.in_memory, path)

    def _use(self, source: str, path: str, *, is_folder: bool = False, read_only: bool = False) -> None:
        use: dict[str, Any] = {"hostPath" if is_folder else "name": source, "path": path}
        self._volumes.append(use | ({"readOnly": True} if read_only else {}))


def _ports(made: Creation, body: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    ports = set()
    for name in [*(body.get("ExposedPorts") or ()), *(host.get("PortBindings") or ())]:
        number, _, kind = str(name).partition("/")
        if kind not in ("", "tcp"):
            made.complain("--publish", f"{kind} is not forwarded", "publish TCP ports only", value=name)
        elif not number.isdigit():
            made.complain("--publish", "is no port", "write ports one by one: -p 8080:80", value=name)
        else:
            ports.add(int(number))
    if ports:
        made.spec["ports"] = sorted(ports)


def _life(made: Creation, body: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    policy = host.get("RestartPolicy") or {}
    kind = check_restart_policy(made, policy) or "no"
    if kind == "on-failure":
        made.spec["restarts"] = restarts_of(policy)
    elif kind in ALWAYS:
        made.spec["type"] = "service"
    if body.get("StopTimeout") is not None:
        made.spec["grace"] = f"{max(0, int(body['StopTimeout']))}s"
    if host.get("AutoRemove"):
        made.spec["removeAfter"] = KEPT_CREATED
    _health(made, body.get("Healthcheck") or {})
    log = host.get("LogConfig") or {}
    kind = str(log.get("Type") or "json-file")
    if kind not in LOG_DRIVERS:
        made.complain("logger", f"no log driver named {kind!r} is registered", value=kind)
    elif kind not in ("json-file", "local", "journald") or log.get("Config"):
        warn(made, "--log-driver")


def check_restart_policy(made: Creation, policy: Mapping[str, Any]) -> str:
    """Return the name of a restart policy; empty if the client gave none."""
    kind = str(policy.get("Name") or "")
    if kind not in ("", "no", "on-failure", *ALWAYS):
        made.complain("--restart", "is not known", "use no, on-failure[:N], always or unless-stopped", value=kind)
    return kind


def restarts_of(policy: Mapping[str, Any]) -> int:
    """Return the number of restarts that the policy `on-failure` allows."""
    return int(policy.get("MaximumRetryCount") or 0) or MAX_RESTARTS


def _health(made: Creation, check: Mapping[str, Any]) -> None:
    """Translate a health check. Times of Docker are in nanoseconds, and 0 stands for the default."""
    kind, *words = check.get("Test") or [""]
    if kind not in ("", "NONE", "CMD", "CMD-SHELL"):
        made.complain("Healthcheck", f"Unknown healthcheck type {kind!r}", "use CMD, CMD-SHELL or NONE", value=kind)
    elif kind.startswith("CMD") and not any(words):
        made.complain("--health-cmd", "the test has no command", "name one, such as --health-cmd 'test -e /ready'")
    elif not kind and any(check.get(name) for name in (*HEALTH_TIMES, "Retries")):
        text = "not read without a command of your own (--health-cmd): the image's check has its own times"
        made.warnings.append(f"--health-interval: {text}")
    health: dict[str, Any] = {}
    for name, field in HEALTH_TIMES.items():
        nanoseconds, option = int(check.get(name) or 0), f"--health-{_LETTERS.sub('-', field).lower()}"
        if nanoseconds and nanoseconds < 10**6:
            made.complain(option, f"{name} in Healthcheck cannot be less than 1ms", value=f"{nanoseconds}ns")
        elif nanoseconds:
            health[field] = whole_seconds(nanoseconds)
            if nanoseconds % NANOSECONDS and kind.startswith("CMD"):
                made.warnings.append(f"{option} {nanoseconds / 1e9:g}s: kubelets know whole seconds: {health[field]}")
    if int(check.get("Retries") or 0) < 0:
        made.complain("--health-retries", "Retries in Healthcheck cannot be negative", value=check["Retries"])
    elif check.get("Retries"):
        health["retries"] = int(check["Retries"])
    if kind.startswith("CMD"):
        made.spec["health"] = {"command": command_of(kind, words), **health}
    elif kind == "NONE":
        made.spec["health"] = None  # not that of the image


def _network(made: Creation, body: Mapping[str, Any], host: Mapping[str, Any], networking: Mapping[str, Any]) -> None:
    mode = str(host.get("NetworkMode") or "default")
    if mode == "none" or body.get("NetworkDisabled"):
        made.spec["network"] = {"from": [], "to": []}
    elif mode == "host":
        made.spec["hostNetwork"] = True
    elif mode.startswith("container:"):
        made.complain("--network", "runs do not share a network", "reach the other run by its name", value=mode)
    for endpoint in (networking.get("EndpointsConfig") or {}).values():
        check_endpoint(made, endpoint or {})


def check_endpoint(made: Creation, endpoint: Mapping[str, Any]) -> None:
    """Refuse what a client asks of a container's place in a network, and the cluster decides."""
    addresses = endpoint.get("IPAMConfig") or {}
    for option, value in (
        ("--ip", addresses.get("IPv4Address")),
        ("--ip6", addresses.get("IPv6Address")),
        ("--link-local-ip", ", ".join(addresses.get("LinkLocalIPs") or ())),
        ("--mac-address", endpoint.get("MacAddress")),
        ("--link", ", ".join(endpoint.get("Links") or ())),
    ):
        if value:
            refuse(made, option, str(value))


def put_networks(made: Creation, networks: Mapping[str, Sequence[str]], internal: Collection[str] = ()) -> None:
    """Write the networks of a container into the spec of its run: those that clients made, by name, each with the
    container's aliases there. `internal` are the names of the internal ones."""
    if uses := network_uses(made, networks):
        made.spec["networks"] = marked_internal(uses, internal, networks)


def marked_internal(
    uses: Iterable[Mapping[str, Any]], internal: Collection[str], networks: Collection[str]
) -> list[dict[str, Any]]:
    """Return the networks of a run with the mark of those that are `internal`. `networks` are all of the container's.

    A container that is in `bridge` too has a way out through it. Its run is not in that network, so none of its
    networks has the mark then.
    """
    marks = frozenset() if NETWORK in networks else frozenset(internal)
    without = ({key: value for key, value in use.items() if key != "internal"} for use in uses)
    return [use | ({"internal": True} if use["name"] in marks else {}) for use in without]


def network_uses(made: Creation, networks: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Return the networks of a run for those of its container. Names that can't be obeyed become warnings."""
    uses: list[dict[str, Any]] = []
    for network, given in networks.items():
        if network in BUILT_IN_NETWORKS:
            if given:
                names = ", ".join(given)
                made.warnings.append(f"--network-alias {names}: only in networks that were made: docker network create")
            continue
        aliases = list(dict.fromkeys(alias.lower() for alias in (made.name, *given) if alias))
        unfit = [alias for alias in aliases if texts.dns_label(alias)]
        if unfit:
            words = "can't be found by this name, because the cluster's DNS knows lower-case letters, digits and dashes"
            made.warnings.append(f"{', '.join(unfit)} {words}; choose another: --network-alias NAME")
        own = run_name(made.name) if made.name else ""
        found = [alias for alias in aliases if alias not in unfit and alias != own]
        uses.append({"name": network} | ({"aliases": found} if found else {}))
    return uses


def _networks(host: Mapping[str, Any], endpoints: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the networks that a client asked for, each with the container's aliases there."""
    networks = {name: list((endpoint or {}).get("Aliases") or ()) for name, endpoint in endpoints.items()}
    networks = networks or {str(host.get("NetworkMode") or "default"): []}
    return {NETWORK if name in ("default", "nat") else name: aliases for name, aliases in networks.items()}


def _labels(made: Creation, labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        if key.startswith(LABEL_PREFIX):
            _set_by_label(made, key, str(value))
        elif not texts.qualified_name(key) and not texts.label_value(str(value)) and "kajitori.dev/" not in key:
            made.labels[key] = str(value)  # the others are kept as notes only, since Kubernetes refuses them


def _set_by_label(made: Creation, key: str, text: str) -> None:
    name = key.removeprefix(LABEL_PREFIX)
    if name not in SPEC_OF_LABELS:
        names = ", ".join(LABEL_PREFIX + names for names in sorted(SPEC_OF_LABELS))
        made.complain("--label", f"{key} is not known", f"use one of {names}", value=text)
        return
    value: Any = text
    if name in _NUMBERS:
        if not text.isascii() or not text.isdigit():
            made.complain("--label", f"{key} must be a number", f"write {key}=4", value=text)
            return
        value = int(text)
    elif name in _SWITCHES:
        value = text.lower() in ("", "1", "true", "yes")
    elif name in _RUNS:
        value = [after_of(word.strip()) for word in text.split(",") if word.strip()]
    *above, last = SPEC_OF_LABELS[name]
    target = made.spec
    for part in above:
        target = target.setdefault(part, {})
    target[last] = value
