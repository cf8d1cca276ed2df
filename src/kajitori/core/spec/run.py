"""What a user asks for: a Run's spec, in Docker's words.

The spec says what somebody wants, not what becomes of it: whatever is left out is filled in by policy
(`core.admission.decide`), each time an attempt is made. Sizes follow `core.words.quantities.parse_spec_memory_bytes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import msgspec
from pydantic import ConfigDict, Field, field_validator

from kajitori.core.documents.faults import Document, read
from kajitori.core.documents.fields import (
    AbsolutePath,
    Cpu,
    Digest,
    DnsLabel,
    Duration,
    DurationAboveZero,
    Image,
    LabelKey,
    LabelValue,
    Memory,
    MemoryLimit,
    MountPath,
    ObjectName,
    Text,
    User,
    UserEnvName,
    rules,
)
from kajitori.core.spec.array import MAX_TEXT as MAX_ARRAY_TEXT
from kajitori.core.spec.array import Array, parse_array
from kajitori.core.spec.network_access import NetworkAccess
from kajitori.core.words import first_step
from kajitori.core.words.names import GROUP, RUN_NAME_MAX_LENGTH
from kajitori.errors import Fault, InvalidInput

MAX_REPLICAS = 99_999
MAX_RESTARTS_OF_EACH = 100
"""Of a sweep's member: how often each was started again stands in the Run, which has to stay small (rule 8)."""
MAX_TEXT_BYTES = 128 * 1024
"""Of command, args and env together, as they are stored: in the Run, in its attempt, and in every Pod."""
MAX_SPEC_BYTES = 256 * 1024
"""Of all of it, as it is stored. With its attempt's template, a Run stays far below the 1.5 MiB that etcd takes."""
MAX_WORDS = 4096
MAX_VARIABLES = 1024

PUT_INTO_FILES = "put large texts into a file, on a volume or brought along with --code"

_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES", "NPROC_PER_NODE")
_PET = (*_TORCHRUN, "RDZV_ENDPOINT", "RDZV_ID", "RDZV_CONF", "LOCAL_ADDR")
TORCHRUN_ENV = frozenset(_TORCHRUN) | {f"PET_{name}" for name in _PET}
SHM_PATH = "/dev/shm"


# CEL rules in the schema of the custom resource, about fields that exclude or need each other: the API server checks at
# once a part of what `_conflicts` checks. Every spec that `parse_spec` accepts obeys these rules.
_BATCH = "(!has(self.type) || self.type == 'batch')"
_NO_LAUNCHER = "(!has(self.launcher) || self.launcher == 'none')"
_HAS_PROGRAM = "(has(self.command) && size(self.command) > 0 || has(self.args) && size(self.args) > 0)"
_RESOURCE_RULES = rules(
    (
        "!has(self.gpuType) || has(self.gpu) && self.gpu > 0 || has(self.wholeNode) && self.wholeNode",
        "a GPU type, but no GPUs: add resources.gpu, or wholeNode",
    ),
)
_VOLUME_RULES = rules(
    (
        "has(self.name) != has(self.hostPath)",
        "a volume is either a name that the policy offers or a hostPath: give exactly one of name and hostPath",
    ),
)
_SECRET_RULES = rules(
    ("has(self.key) == has(self.env)", "key and env go together: give both, or neither"),
    ("!has(self.path) || !has(self.env)", "either files or a variable: leave path or env out"),
)
_TOLERATION_RULES = rules(
    (
        "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
        "Exists takes no value: leave value out",
    ),
    (
        "has(self.operator) && self.operator == 'Exists' || has(self.key) && self.key != ''",
        "a toleration without key tolerates nothing: name the taint's key",
    ),
)
_RUN_RULES = rules(
    (
        "!has(self.array) || !has(self.replicas) || self.replicas == 1",
        "a sweep's members stand under array alone: leave replicas out, or array",
    ),
    (
        f"!has(self.array) || {_BATCH}",
        "a service's members never end, and those of a sweep do: leave type out, or array",
    ),
    (
        f"!has(self.array) || {_NO_LAUNCHER}",
        "a launcher starts members that know of each other, and those of a sweep do not: leave launcher out, or array",
    ),
    (
        "!has(self.array) || !has(self.minReplicas)",
        "each member of a sweep starts by itself: leave minReplicas out, or array",
    ),
    (
        "has(self.array) || !has(self.stopAt)",
        "only a sweep stops at the first member that fails or succeeds: add array, or leave stopAt out",
    ),
    (
        "!has(self.minReplicas) || self.minReplicas <= (has(self.replicas) ? self.replicas : 1)",
        "minReplicas is above replicas: raise replicas, or lower minReplicas",
    ),
    (
        f"!has(self.minReplicas) || {_BATCH}",
        "a service's members start one by one: use type batch, or leave minReplicas out",
    ),
    (
        "!has(self.minReplicas) || !has(self.launcher) || self.launcher != 'mpi'",
        "an MPI program keeps the size that it was started with: leave minReplicas out, or use another launcher",
    ),
    (
        f"{_NO_LAUNCHER} || {_BATCH}",
        "a launcher needs members that start and end together: leave launcher out, or use type batch",
    ),
    (
        f"!has(self.launcher) || self.launcher != 'mpi' || {_HAS_PROGRAM}",
        "with launcher mpi a run names its program, such as [mpirun, ./program]: add command or args",
    ),
)
_REPLICAS_RULES = rules(
    ("self >= 1", "a run has at least one member; `kaji stop` stops a run, `kaji rm` deletes it"),
)


class Resources(Document):
    """What each member gets. Unless `qos` says otherwise, all of it is both reserved and the limit."""

    model_config = ConfigDict(json_schema_extra=_RESOURCE_RULES)

    cpu_millis: Cpu | None = Field(default=None, alias="cpu")
    """Cores: 8, 0.5 or 500m."""
    memory_bytes: MemoryLimit | None = Field(default=None, alias="memory")
    """The most memory a member may use before it is ended: 64Gi or 64g; at least 6Mi."""
    cpu_request_millis: Cpu | None = Field(default=None, alias="cpuRequest")
    """With qos burstable: the cores that are reserved; cpu, if given, is the limit."""
    memory_request_bytes: Memory | None = Field(default=None, alias="memoryRequest")
    """With qos burstable: the memory that is reserved; less than memory."""
    gpus: int = Field(default=0, alias="gpu", ge=0, le=1024)
    """GPUs of each member."""
    gpu_type: str | None = Field(default=None, min_length=1, max_length=63)
    """A type that the cluster has, such as h100; any type where it is left out."""
    shm_bytes: Memory | None = Field(default=None, alias="shm")
    """Size of /dev/shm, taken from memory."""
    whole_node: bool = False
    """No other run's member on the same node. With gpuType and without gpu: all GPUs of the node."""


class VolumeUse(Document):
    """A folder that is mounted into every member."""

    model_config = ConfigDict(json_schema_extra=_VOLUME_RULES)

    name: DnsLabel | None = None
    """A volume that the policy offers."""
    host_path: AbsolutePath | None = None
    """A folder of the node itself, where the policy allows it."""
    path: MountPath
    """Where members find it."""
    read_only: bool = False
    """Members can't write there."""


class SecretUse(Document):
    """A Kubernetes Secret of the run's namespace, by name: as environment variables, or as files."""

    model_config = ConfigDict(json_schema_extra=_SECRET_RULES)

    name: ObjectName
    key: str | None = Field(default=None, min_length=1, max_length=253)
    """Only this key of the Secret; with env."""
    env: UserEnvName | None = None
    """The environment variable that gets the key's value; without key and path, every key becomes a variable."""
    path: MountPath | None = None
    """A folder in which each key is a file."""


class Toleration(Document):
    """A taint that members may be placed in spite of."""

    model_config = ConfigDict(json_schema_extra=_TOLERATION_RULES)

    key: str = Field(default="", max_length=317)
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class Checkpoint(Document):
    """A folder that outlives attempts and the run itself; all members see the same one."""

    path: MountPath
    """Where members find it; they are told by KAJI_CHECKPOINT_DIR."""
    size_bytes: Memory | None = Field(default=None, alias="size")
    """How much room to ask for, where the policy makes a claim for it."""
    every_seconds: DurationAboveZero | None = Field(default=None, alias="every")
    """How often the program writes one, such as 10m. If runs are preempted, those that have just written theirs
    are asked first."""


class CodeUse(Document):
    """A folder that was uploaded: every member of every attempt gets the same bytes."""

    digest: Digest
    """What it was uploaded as; `kaji run --code DIR` uploads a folder and fills this in."""
    path: MountPath = "/code"
    """Where members find it, told by KAJI_CODE_DIR. The program starts there unless workingDir names another folder."""


class RunSpec(Document):
    """What a run is to do and what it needs."""

    model_config = ConfigDict(json_schema_extra=_RUN_RULES)

    type: Literal["batch", "service"] = "batch"
    """batch: members start together and end together. service: each member lives on its own, for good."""
    image: Image
    """The container image, as Docker names it."""
    command: list[Text] = Field(default_factory=list, max_length=MAX_WORDS)
    """The program, instead of the image's entrypoint."""
    args: list[Text] = Field(default_factory=list, max_length=MAX_WORDS)
    """Arguments of the program, instead of the image's own: what stands behind the image in `docker run`."""
    working_dir: AbsolutePath | None = None
    """The folder that the program starts in, instead of the image's own."""
    env: dict[UserEnvName, Text] = Field(default_factory=dict, max_length=MAX_VARIABLES)
    """Environment variables. Secrets do not belong here: name them under secrets."""
    secrets: list[SecretUse] = Field(default_factory=list, max_length=64)
    replicas: int = Field(default=1, ge=1, le=MAX_REPLICAS, json_schema_extra=_REPLICAS_RULES)
    """How many members."""
    min_replicas: int | None = Field(default=None, ge=1, le=MAX_REPLICAS)
    """An elastic gang: so many members are enough, and replicas are the most. It starts with what fits, and is started
    again from its checkpoint with fewer or more members as room goes and comes."""
    array: Annotated[str, Field(min_length=1, max_length=MAX_ARRAY_TEXT)] | None = None
    """Instead of replicas, a sweep: an independent member for each of these numbers, which it is told as
    KAJI_ARRAY_INDEX. Such as 0-999, 1,3,5-9 or 0-100:5; with %64 behind it at most 64 are there at once."""
    stop_at: Literal["first-failure", "first-success"] | None = None
    """Of a sweep: it ends, with all its members, as soon as one has failed for good, or has succeeded."""
    launcher: Literal["none", "torchrun", "mpi"] = "none"
    """Who starts the processes of a member, and what they are told about each other. torchrun: its variables. mpi: rank
    0 runs the program, as a rule mpirun; the other members are an sshd that it reaches with keys of the attempt."""
    resources: Resources = Resources()
    qos: Literal["guaranteed", "burstable"] = "guaranteed"
    """guaranteed: what is asked for is reserved and the limit. burstable: less is reserved than may be used."""
    volumes: list[VolumeUse] = Field(default_factory=list, max_length=64)
    code: CodeUse | None = None
    checkpoint: Checkpoint | None = None
    restarts: int | None = Field(default=None, ge=0, le=1_000_000)
    """How often the gang, or each member of a sweep, starts again after its program failed. Left out: as often as
    policy says if the run has a checkpoint, else never. Node loss and the like do not count."""
    priority: Literal["high", "normal", "low"] | None = None
    """Who gets nodes first; among equals whoever waits longest."""
    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """The run is ended after this time, of a sweep each member; a short one may start earlier."""
    grace_seconds: Duration | None = Field(default=None, alias="grace")
    """Between SIGTERM and SIGKILL."""
    stop_grace_seconds: Duration | None = Field(default=None, alias="stopGrace")
    """The same when the run is stopped or deleted, instead of grace; `kaji stop -t`, `kaji kill` and `kaji rm -f` write
    it. Resuming the run takes it away."""
    remove_after_seconds: Duration | None = Field(default=None, alias="removeAfter")
    """The run is deleted so long after its end, without its checkpoint; left out: as policy's endedRuns says."""
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(default_factory=list, max_length=64)
    """Ports that members listen on."""
    user: User | None = None
    """uid or uid:gid that the program runs as."""
    privileged: bool = False
    """All rights on the node, where the policy allows it."""
    host_network: bool = False
    """Members share the network of their node."""
    network: NetworkAccess | None = None
    """Who may reach members, and where they may go; left out: as policy says."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=64)
    """Only nodes with these labels."""
    tolerations: list[Toleration] = Field(default_factory=list, max_length=64)
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels of every member."""
    stopped: bool = False
    """True stops the run; its checkpoint is kept."""
    resumes: int = Field(default=0, ge=0)
    """A final run starts again when this counter grows; of a sweep, those members that did not succeed."""

    @field_validator("array")
    @classmethod
    def _readable(cls, text: str | None) -> str | None:
        if text is not None:
            parse_array(text)
        return text

    @property
    def sweep(self) -> Array | None:
        """The members of a sweep; None where it is none."""
        return parse_array(self.array) if self.array is not None else None

    @property
    def fewest(self) -> int | None:
        """With how many members an elastic gang is content; None where all of them are there or none."""
        return self.min_replicas if self.min_replicas is not None and self.min_replicas < self.replicas else None

    @property
    def members(self) -> int:
        """How many members there are in all."""
        sweep = self.sweep
        return len(sweep.indices) if sweep is not None else self.replicas

    @property
    def members_at_once(self) -> int:
        """How many of them there are at the same time."""
        sweep = self.sweep
        return sweep.at_once if sweep is not None else self.replicas


def parse_spec(document: object, *, where: str = "spec") -> RunSpec:
    """The spec that somebody wrote, checked as far as it can be without policy and cluster.

    Raises InvalidInput with every fault at once: unknown fields, wrong types, unreadable amounts, and what does not go
    together.
    """
    spec, faults, broken = read(RunSpec, document, where)
    if spec is not None:
        faults += [fault for part, fault in _conflicts(spec, where) if part not in broken]
    if faults or spec is None:
        raise InvalidInput(faults)
    return spec


def to_document(spec: RunSpec, *, with_defaults: bool = False) -> dict[str, Any]:
    """The spec as it is stored: camelCase, canonical amounts, without what is at its default unless asked for."""
    if with_defaults:
        return spec.model_dump(mode="json", exclude_none=True)
    return spec.model_dump(mode="json", exclude_defaults=True)


def name_fault(name: object, field: str = "name") -> Fault | None:
    """What is wrong with a run's name, or None. It becomes part of host names and the name of a Service."""
    hint = f"use lower-case letters, digits and dashes, beginning with a letter, at most {RUN_NAME_MAX_LENGTH}"
    if not isinstance(name, str) or not name:
        return Fault(field, "a run needs a name", hint=hint)
    if len(name) > RUN_NAME_MAX_LENGTH:
        return Fault(field, f"the name has {len(name)} characters", name[:80], hint)
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name, re.ASCII):
        return Fault(field, f"{name!r} is not a run's name", name, hint)
    return None


def check_name(name: str) -> None:
    """Raises InvalidInput where a run cannot have this name."""
    fault = name_fault(name)
    if fault is not None:
        raise InvalidInput([fault])


def container_words(entrypoint: str | None, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """`command` and `args` for Docker's `--entrypoint` and the words behind the image.

    None leaves the image's entrypoint in place; an empty one takes it away, so that the first word is the program.
    """
    if entrypoint is None:
        return [], list(words)
    if entrypoint == "":
        return list(words[:1]), list(words[1:])
    return [entrypoint], list(words)


def _conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
    """What does not go together, each with the top-level field it is about."""
    yield from _resource_conflicts(spec, where)
    yield from _mount_conflicts(spec, where)
    yield from _sweep_conflicts(spec, where)
    yield from _elastic_conflicts(spec, where)
    if spec.launcher == "mpi":
        if not spec.command and not spec.args:
            message = "with launcher mpi a run names its program: the image's own entrypoint is not known here"
            yield "command", Fault(f"{where}.command", message, hint="such as [mpirun, ./program]")
        for user_path in (each.path for each in spec.volumes if each.path == first_step.ETC_PASSWD):
            message = f"with launcher mpi {user_path} is Kajitori's to write"
            yield "volumes", Fault(f"{where}.volumes", message, user_path, "choose another path")
    if spec.launcher != "none" and spec.type == "service":
        message = f"{spec.launcher} needs members that start and end together, which a service's do not"
        yield "launcher", Fault(f"{where}.launcher", message, spec.launcher, "use type batch")
    for name in sorted(TORCHRUN_ENV & spec.env.keys()) if spec.launcher == "torchrun" else ():
        yield "env", Fault(f"{where}.env.{name}", f"{name} is set by the launcher", hint="leave it out")
    for index, port in enumerate(spec.ports):
        if port in spec.ports[:index]:
            yield "ports", Fault(f"{where}.ports[{index}]", f"port {port} is named twice", str(port), "name it once")
    for key in spec.labels:
        domain = key.rpartition("/")[0]
        if domain == GROUP or domain.endswith(("kubernetes.io", "k8s.io", f".{GROUP}")):
            message = f"labels of {domain} are not for users"
            yield "labels", Fault(f"{where}.labels[{key!r}]", message, key, "use a domain of your own, or none")
    for index, toleration in enumerate(spec.tolerations):
        field = f"{where}.tolerations[{index}]"
        if toleration.operator == "Exists" and toleration.value:
            yield "tolerations", Fault(field, "Exists takes no value", toleration.value, "leave value out")
        if toleration.operator == "Equal" and not toleration.key:
            yield "tolerations", Fault(field, "a toleration without key tolerates nothing", hint="name the taint's key")
    yield from _size_conflicts(spec, where)


def _size_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
    """Every word costs a few bytes more than its text has: a hundred thousand empty ones are large, too."""
    variables = [{"name": name, "value": value} for name, value in spec.env.items()]
    of_program, of_spec = stored_bytes([spec.command, spec.args, variables]), stored_bytes(to_document(spec))
    if of_program > MAX_TEXT_BYTES:
        message = f"command, args and env take {of_program} bytes together; {MAX_TEXT_BYTES} are allowed"
        yield "env", Fault(where, message, hint=PUT_INTO_FILES, code="TooLarge")
    elif of_spec > MAX_SPEC_BYTES:
        message = f"all of it takes {of_spec} bytes; {MAX_SPEC_BYTES} are allowed"
        yield "volumes", Fault(where, message, hint="name fewer or shorter things", code="TooLarge")


def stored_bytes(document: Any) -> int:
    """Number of bytes that a document takes as an API server stores it: as JSON, in which `<`, `>` and `&` are written
    as six characters (`\\u003c`)."""
    encoded = msgspec.json.encode(document)
    return len(encoded) + 5 * sum(encoded.count(mark) for mark in (b"<", b">", b"&"))


def _sweep_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
    if spec.array is None:
        if spec.stop_at is not None:
            message = "only a sweep stops at the first of its members that ends so"
            yield "stopAt", Fault(f"{where}.stopAt", message, spec.stop_at, "add array, or leave stopAt out")
        return
    if spec.replicas != 1:
        message = "a sweep's members stand under array alone"
        yield "replicas", Fault(f"{where}.replicas", message, str(spec.replicas), "leave replicas out, or array")
    if spec.type == "service":
        message = "a service's members never end, and those of a sweep do"
        yield "type", Fault(f"{where}.type", message, spec.type, "leave type out, or array")
    if spec.launcher != "none":
        message = f"{spec.launcher} starts members that know of each other, and those of a sweep do not"
        hint = "leave launcher out; or array, for one gang with replicas"
        yield "launcher", Fault(f"{where}.launcher", message, spec.launcher, hint)
    if spec.restarts is not None and spec.restarts > MAX_RESTARTS_OF_EACH:
        message = f"{spec.restarts} restarts of each member of a sweep; at most {MAX_RESTARTS_OF_EACH} are counted"
        hint = f"say {MAX_RESTARTS_OF_EACH} or less"
        yield "restarts", Fault(f"{where}.restarts", message, str(spec.restarts), hint)


def _elastic_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
    fewest, field = spec.min_replicas, f"{where}.minReplicas"
    if fewest is None:
        return
    if spec.array is not None:
        message = "a sweep has no fewest members: each starts by itself, as soon as there is room for it"
        yield "minReplicas", Fault(field, message, str(fewest), "leave minReplicas out, or array")
    elif fewest > spec.replicas:
        message = f"at least {fewest} members, but replicas allows no more than {spec.replicas}"
        yield "minReplicas", Fault(field, message, str(fewest), f"raise replicas, or say at most {spec.replicas}")
    if spec.type == "service":
        message = "a service's members come and go one by one: it has no fewest to start with"
        yield "type", Fault(f"{where}.type", message, spec.type, "use type batch, or leave minReplicas out")
    if spec.launcher == "mpi":
        message = "an MPI program has the size that it was started with; its checkpoints are not for another one"
        hint = "leave minReplicas out, or use launcher torchrun or none"
        yield "launcher", Fault(f"{where}.launcher", message, spec.launcher, hint)


def _resource_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
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
            message = f"the request of {written} is above the limit of {dumped[name]}"
            hint = f"raise {name} or lower {name}Request"
            yield "resources", Fault(f"{field}.{name}Request", message, written, hint, "RequestAboveLimit")
        elif spec.qos == "guaranteed" and request != limit:
            message = "reserving less than the limit makes a run burstable, and this one is guaranteed"
            hint = f"say qos: burstable, or leave {name}Request out"
            yield "qos", Fault(f"{field}.{name}Request", message, written, hint)
    if spec.qos == "burstable" and resources.cpu_request_millis is None and resources.memory_request_bytes is None:
        message = "burstable, but nothing says how much less than the limit is reserved"
        yield "resources", Fault(f"{where}.qos", message, "burstable", "add resources.cpuRequest or memoryRequest")
    if resources.gpu_type is not None and not resources.gpus and not resources.whole_node:
        message = "a GPU type, but no GPUs"
        yield "resources", Fault(f"{field}.gpuType", message, resources.gpu_type, "add resources.gpu, or wholeNode")
    if resources.shm_bytes and resources.memory_bytes and resources.shm_bytes > resources.memory_bytes:
        message = f"/dev/shm of {dumped['shm']} is taken from memory, which is {dumped['memory']}"
        yield "resources", Fault(f"{field}.shm", message, str(dumped["shm"]), "raise memory or lower shm")


def _mount_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
    mounted: dict[str, str] = {SHM_PATH: "shm"} if spec.resources.shm_bytes else {}

    def taken(part: str, field: str, path: str) -> Iterable[tuple[str, Fault]]:
        if PurePosixPath(path).is_relative_to(first_step.FOLDER):
            message = f"{first_step.FOLDER} is where Kajitori puts what members need of each other"
            yield part, Fault(f"{where}.{field}", message, path, "choose another path")
        if path in mounted:
            message = f"{path} is mounted twice; the other is {mounted[path]}"
            yield part, Fault(f"{where}.{field}", message, path, "choose another path")
        mounted.setdefault(path, field)

    if spec.code is not None:
        yield from taken("code", "code.path", spec.code.path)
    if spec.checkpoint is not None:
        yield from taken("checkpoint", "checkpoint.path", spec.checkpoint.path)
    for index, volume in enumerate(spec.volumes):
        if (volume.name is None) == (volume.host_path is None):
            message = "a volume is either a name that the policy offers or a hostPath"
            yield "volumes", Fault(f"{where}.volumes[{index}]", message, hint="give exactly one of name and hostPath")
        yield from taken("volumes", f"volumes[{index}].path", volume.path)
    for index, secret in enumerate(spec.secrets):
        field = f"{where}.secrets[{index}]"
        if (secret.key is None) != (secret.env is None):
            yield "secrets", Fault(field, "key and env go together", hint="give both, or neither")
        if secret.path is not None and secret.env is not None:
            yield "secrets", Fault(field, "either files or a variable", hint="leave path or env out")
        if secret.env is not None and secret.env in spec.env:
            message = f"{secret.env} stands under env as well"
            yield "secrets", Fault(f"{field}.env", message, secret.env, "keep one of them")
        if secret.path is not None:
            yield from taken("secrets", f"secrets[{index}].path", secret.path)
