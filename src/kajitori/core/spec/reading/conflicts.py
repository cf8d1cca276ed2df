"""Finds fields of a spec that contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import msgspec

from kajitori.core.formats.quantities import format_duration
from kajitori.core.naming import first_step
from kajitori.core.naming.names import GROUP
from kajitori.core.spec.parts import SHM_PATH
from kajitori.core.spec.run import RunSpec, to_document
from kajitori.errors import Fault

Conflict = tuple[str, Fault]
"""A contradiction, and the top-level field that it concerns."""

MAX_RESTARTS_OF_EACH = 100
"""Maximum restarts of each member of a sweep. The Run's status records the restarts of every member, and has to stay
small (rule 8)."""
MAX_TEXT_BYTES = 128 * 1024
"""Maximum size of command, args and env together, as stored. The Run, its attempt and every Pod have a copy."""
MAX_SPEC_BYTES = 256 * 1024
"""Maximum size of the spec, as stored. Together with its attempt's template, a Run stays far below etcd's limit of
1.5 MiB."""

PUT_INTO_FILES = "put large texts into a file, on a volume or in the folder uploaded with --code"

_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES", "NPROC_PER_NODE")
_PET = (*_TORCHRUN, "RDZV_ENDPOINT", "RDZV_ID", "RDZV_CONF", "LOCAL_ADDR")
TORCHRUN_ENV = frozenset(_TORCHRUN) | {f"PET_{name}" for name in _PET}


def conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    """Yield contradictions between fields of a spec that is at `where` in its document."""
    for find in _RULES:
        yield from find(spec, where)


def _launcher_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    if spec.launcher == "mpi":
        if not spec.command and not spec.args:
            message = "launcher mpi needs a command, because Kajitori cannot read the image's entrypoint"
            yield "command", Fault(f"{where}.command", message, hint="for example [mpirun, ./program]")
        for user_path in (volume.path for volume in spec.volumes if volume.path == first_step.ETC_PASSWD):
            message = f"with launcher mpi, Kajitori itself writes {user_path}"
            yield "volumes", Fault(f"{where}.volumes", message, user_path, "choose another path")
    if spec.launcher != "none" and spec.type != "batch":
        message = f"launcher {spec.launcher} needs members that start and end together; those of a {spec.type} do not"
        yield "launcher", Fault(f"{where}.launcher", message, spec.launcher, "use type batch")
    for name in sorted(TORCHRUN_ENV & spec.env.keys()) if spec.launcher == "torchrun" else ():
        yield "env", Fault(f"{where}.env.{name}", f"{name} is set by the launcher", hint="leave it out")


def _notebook_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    if spec.type == "notebook" and spec.replicas != 1:
        message = "a notebook has one member; it may have several GPUs"
        yield "replicas", Fault(f"{where}.replicas", message, str(spec.replicas), "leave replicas out")


def _port_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    for index, port in enumerate(spec.ports):
        if port in spec.ports[:index]:
            yield "ports", Fault(f"{where}.ports[{index}]", f"port {port} is listed twice", str(port), "list it once")


def _label_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    for key in filter(is_reserved, spec.labels):
        yield "labels", reserved_fault(f"{where}.labels[{key!r}]", key)


def _toleration_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    for index, toleration in enumerate(spec.tolerations):
        field = f"{where}.tolerations[{index}]"
        if toleration.operator == "Exists" and toleration.value:
            yield "tolerations", Fault(field, "operator Exists takes no value", toleration.value, "leave value out")
        if toleration.operator == "Equal" and not toleration.key:
            message = "a toleration with operator Equal needs a key"
            yield "tolerations", Fault(field, message, hint="set key to the taint's key")


def _network_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    if spec.networks and spec.host_network:
        message = "a run that uses the network of its node is in no other network"
        yield "networks", Fault(f"{where}.networks", message, hint="leave out networks or hostNetwork")
    seen: set[str] = set()
    for index, use in enumerate(spec.networks):
        field = f"{where}.networks[{index}]"
        if use.name in seen:
            yield "networks", Fault(f"{field}.name", f"{use.name} is listed twice", use.name, "list it once")
        seen.add(use.name)
        if "localhost" in use.aliases:
            message = "localhost is the member itself"
            yield "networks", Fault(f"{field}.aliases", message, "localhost", "choose another name")
        if use.aliases and spec.array is not None:
            message = "members of a sweep have no names: a name would lead to a different one each time"
            yield "networks", Fault(f"{field}.aliases", message, use.aliases[0], "leave out aliases or array")


def _size_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    """Yield a fault if the stored spec is too large. Sizes include a few bytes of JSON per word, so that a hundred
    thousand empty words are too large as well."""
    variables = [{"name": name, "value": value} for name, value in spec.env.items()]
    program_bytes, spec_bytes = stored_bytes([spec.command, spec.args, variables]), stored_bytes(to_document(spec))
    if program_bytes > MAX_TEXT_BYTES:
        message = f"command, args and env take {program_bytes} bytes together; {MAX_TEXT_BYTES} are allowed"
        yield "env", Fault(where, message, hint=PUT_INTO_FILES, code="TooLarge")
    elif spec_bytes > MAX_SPEC_BYTES:
        message = f"the spec takes {spec_bytes} bytes; {MAX_SPEC_BYTES} are allowed"
        yield "volumes", Fault(where, message, hint="write fewer or shorter values", code="TooLarge")


def stored_bytes(document: Any) -> int:
    """Return the size of a document as an API server stores it: as JSON in which `<`, `>` and `&` are escaped as six
    characters (`\\u003c`)."""
    encoded = msgspec.json.encode(document)
    return len(encoded) + 5 * sum(encoded.count(mark) for mark in (b"<", b">", b"&"))


def _sweep_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    if spec.array is None:
        if spec.stop_at is not None:
            message = "stopAt applies to sweeps only, and this run is none"
            yield "stopAt", Fault(f"{where}.stopAt", message, spec.stop_at, "add array, or leave stopAt out")
        return
    if spec.replicas != 1:
        message = "replicas and array cannot be combined: the array alone gives the members of a sweep"
        yield "replicas", Fault(f"{where}.replicas", message, str(spec.replicas), "leave out replicas or array")
    if spec.type != "batch":
        message = f"a {spec.type} cannot be a sweep: its members do not end by themselves"
        yield "type", Fault(f"{where}.type", message, spec.type, "leave out type or array")
    if spec.launcher != "none":
        message = f"launcher {spec.launcher} cannot be combined with array: members of a sweep are independent"
        hint = "leave launcher out, or replace array by replicas to run one gang"
        yield "launcher", Fault(f"{where}.launcher", message, spec.launcher, hint)
    if spec.restarts is not None and spec.restarts > MAX_RESTARTS_OF_EACH:
        message = f"a member of a sweep can have at most {MAX_RESTARTS_OF_EACH} restarts, not {spec.restarts}"
        hint = f"write {MAX_RESTARTS_OF_EACH} or less"
        yield "restarts", Fault(f"{where}.restarts", message, str(spec.restarts), hint)


def _elastic_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    fewest, field = spec.min_replicas, f"{where}.minReplicas"
    if fewest is None:
        return
    if spec.array is not None:
        message = "a sweep cannot be elastic: each of its members starts as soon as it fits"
        yield "minReplicas", Fault(field, message, str(fewest), "leave out minReplicas or array")
    elif fewest > spec.replicas:
        message = f"minReplicas is {fewest}, but replicas is only {spec.replicas}"
        hint = f"raise replicas, or lower minReplicas to at most {spec.replicas}"
        yield "minReplicas", Fault(field, message, str(fewest), hint)
    if spec.type != "batch":
        message = f"a {spec.type} cannot be elastic: its members do not belong together"
        yield "type", Fault(f"{where}.type", message, spec.type, "use type batch, or leave minReplicas out")
    if spec.launcher == "mpi":
        message = "an MPI gang cannot be elastic: an MPI program cannot continue with another number of members"
        hint = "leave minReplicas out, or use launcher torchrun or none"
        yield "launcher", Fault(f"{where}.launcher", message, spec.launcher, hint)


def _stuck_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    given = {
        "stuckAfter": format_duration(spec.stuck_after_seconds) if spec.stuck_after_seconds is not None else None,
        "onStuck": spec.on_stuck,
    }
    for field, value in given.items():
        if value is not None and (spec.array is not None or spec.type != "batch"):
            is_sweep = spec.array is not None
            what = "members of a sweep are independent" if is_sweep else f"a {spec.type} may be quiet for days"
            message = f"only gangs are watched for hangs: {what}"
            hint = f"leave {field} out, or set a timeLimit" if is_sweep else f"leave {field} out"
            yield field, Fault(f"{where}.{field}", message, value, hint)
    if spec.on_stuck == "restart" and spec.restarts == 0:
        message = "onStuck is restart, but restarts is 0"
        yield "onStuck", Fault(f"{where}.onStuck", message, "restart", "raise restarts, or use onStuck tell")


def _input_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    if spec.array is None and spec.replicas == 1:
        return
    for field in ("stdin", "tty"):
        if getattr(spec, field):
            what = "standard input" if field == "stdin" else "a terminal"
            members = f"{spec.replicas} members" if spec.array is None else "the members of a sweep"
            message = f"{what} cannot be shared by {members}"
            hint = f"leave {field} out, or run one member; for a shell in a member: kaji exec -it RUN sh"
            yield field, Fault(f"{where}.{field}", message, "true", hint)


def _after_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    named = [other.run for other in spec.after]
    for index, name in enumerate(named):
        if name in named[:index]:
            message = f"the run {name} is listed twice"
            yield "after", Fault(f"{where}.after[{index}].run", message, name, "list it once, with one condition")


def _resource_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    resources, field = spec.resources, f"{where}.resources"
    pairs = (
        ("cpu", resources.cpu_request_millis, resources.cpu_millis),
        ("memory", resources.memory_request_bytes, resources.memory_bytes),
    )
    dumped = resources.model_dump()
    for name, request, limit in pairs:
        written = str(dumped[f"{name}Request"])
        if request is None:
            continue
        if limit is not None and request > limit:
            message = f"{name}Request of {written} is above the limit of {dumped[name]}"
            hint = f"raise {name} or lower {name}Request"
            yield "resources", Fault(f"{field}.{name}Request", message, written, hint, "RequestAboveLimit")
        elif spec.qos == "guaranteed" and request != limit:
            message = f"{name}Request needs qos burstable: with qos guaranteed the whole limit is reserved"
            hint = f"write qos: burstable, or leave {name}Request out"
            yield "qos", Fault(f"{field}.{name}Request", message, written, hint)
    if spec.qos == "burstable" and resources.cpu_request_millis is None and resources.memory_request_bytes is None:
        message = "qos burstable reserves less than the limit, but neither cpuRequest nor memoryRequest is set"
        hint = "add resources.cpuRequest or memoryRequest, or leave qos out"
        yield "resources", Fault(f"{where}.qos", message, "burstable", hint)
    if resources.gpu_type is not None and not resources.gpus and not resources.whole_node:
        message = "a GPU type is given, but no number of GPUs"
        hint = "add resources.gpu, or wholeNode"
        yield "resources", Fault(f"{field}.gpuType", message, resources.gpu_type, hint, "NoGpuCount")
    if resources.shm_bytes and resources.memory_bytes and resources.shm_bytes > resources.memory_bytes:
        message = f"/dev/shm of {dumped['shm']} counts against memory, which is only {dumped['memory']}"
        yield "resources", Fault(f"{field}.shm", message, str(dumped["shm"]), "raise memory or lower shm")


def _mount_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    """Yield faults of paths at which nothing can be mounted: reserved ones, and those where something else is."""
    mounted: dict[str, str] = {SHM_PATH: "shm"} if spec.resources.shm_bytes else {}
    for part, field, path in _mounts_of(spec):
        if PurePosixPath(path).is_relative_to(first_step.FOLDER):
            message = f"{first_step.FOLDER} is reserved for files of Kajitori"
            yield part, Fault(f"{where}.{field}", message, path, "choose another path")
        if path in mounted:
            message = f"{mounted[path]} is already mounted at {path}"
            yield part, Fault(f"{where}.{field}", message, path, "choose another path")
        mounted.setdefault(path, field)


def _mounts_of(spec: RunSpec) -> Iterator[tuple[str, str, str]]:
    """Yield the mounts of a run: top-level field, the field with the path, and the path."""
    if spec.code is not None:
        yield "code", "code.path", spec.code.path
    for index, file in enumerate(spec.files.items if spec.files is not None else ()):
        yield "files", f"files.items[{index}].path", file.path
    if spec.checkpoint is not None:
        yield "checkpoint", "checkpoint.path", spec.checkpoint.path
    for index, volume in enumerate(spec.volumes):
        yield "volumes", f"volumes[{index}].path", volume.path
    for index, secret in enumerate(spec.secrets):
        if secret.path is not None:
            yield "secrets", f"secrets[{index}].path", secret.path


def _volume_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    for index, volume in enumerate(spec.volumes):
        if (volume.name is None) == (volume.host_path is None):
            message = "a volume has either the name of a volume of the policy, or a hostPath"
            yield "volumes", Fault(f"{where}.volumes[{index}]", message, hint="set exactly one of name and hostPath")


def _secret_conflicts(spec: RunSpec, where: str) -> Iterator[Conflict]:
    for index, secret in enumerate(spec.secrets):
        field = f"{where}.secrets[{index}]"
        if (secret.key is None) != (secret.env is None):
            yield "secrets", Fault(field, "key and env must be set together", hint="set both, or neither")
        if secret.path is not None and secret.env is not None:
            yield "secrets", Fault(field, "path and env cannot be combined", hint="leave out path or env")
        if secret.env is not None and secret.env in spec.env:
            message = f"{secret.env} is also set under env"
            yield "secrets", Fault(f"{field}.env", message, secret.env, "keep one of them")


def is_reserved(label: str) -> bool:
    """Whether the key of a label belongs to Kubernetes or to Kajitori."""
    domain = label.rpartition("/")[0]
    return domain == GROUP or domain.endswith(("kubernetes.io", "k8s.io", f".{GROUP}"))


def reserved_fault(where: str, label: str) -> Fault:
    """Return the fault of a label with a reserved key."""
    message = f"labels of the domain {label.rpartition('/')[0]} are reserved"
    return Fault(where, message, label, "use a domain of your own, or none")


_RULES: tuple[Callable[[RunSpec, str], Iterator[Conflict]], ...] = (
    _resource_conflicts,
    _mount_conflicts,
    _volume_conflicts,
    _secret_conflicts,
    _sweep_conflicts,
    _elastic_conflicts,
    _stuck_conflicts,
    _input_conflicts,
    _after_conflicts,
    _network_conflicts,
    _launcher_conflicts,
    _notebook_conflicts,
    _port_conflicts,
    _label_conflicts,
    _toleration_conflicts,
    _size_conflicts,
)
