"""The spec of a Run: what a user asks for, with field names close to Docker's options.

The spec is stored as the user wrote it. Policy fills in what it leaves out (`core.admission.decide`) each time an
attempt is planned. Sizes follow `core.words.quantities.parse_spec_memory_bytes`.
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
"""Maximum restarts of each member of a sweep. The Run's status records the restarts of every member, and has to stay
small (rule 8)."""
MAX_TEXT_BYTES = 128 * 1024
"""Maximum size of command, args and env together, as stored. The Run, its attempt and every Pod have a copy."""
MAX_SPEC_BYTES = 256 * 1024
"""Maximum size of the spec, as stored. Together with its attempt's template, a Run stays far below etcd's limit of
1.5 MiB."""
MAX_WORDS = 4096
MAX_VARIABLES = 1024

PUT_INTO_FILES = "put large texts into a file, on a volume or in the folder uploaded with --code"

_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "NNODES", "NPROC_PER_NODE")
_PET = (*_TORCHRUN, "RDZV_ENDPOINT", "RDZV_ID", "RDZV_CONF", "LOCAL_ADDR")
TORCHRUN_ENV = frozenset(_TORCHRUN) | {f"PET_{name}" for name in _PET}
SHM_PATH = "/dev/shm"


# CEL rules in the schema of the custom resource, for fields that exclude or need each other, so that the API server
# refuses a part of what `_conflicts` finds. Every spec that `parse_spec` accepts obeys these rules.
_BATCH = "(!has(self.type) || self.type == 'batch')"
_NO_LAUNCHER = "(!has(self.launcher) || self.launcher == 'none')"
_HAS_PROGRAM = "(has(self.command) && size(self.command) > 0 || has(self.args) && size(self.args) > 0)"
_RESOURCE_RULES = rules(
    (
        "!has(self.gpuType) || has(self.gpu) && self.gpu > 0 || has(self.wholeNode) && self.wholeNode",
        "a GPU type is given, but no number of GPUs: add resources.gpu, or wholeNode",
    ),
)
_VOLUME_RULES = rules(
    (
        "has(self.name) != has(self.hostPath)",
        "a volume has either the name of a volume of the policy, or a hostPath: set exactly one of name and hostPath",
    ),
)
_SECRET_RULES = rules(
    ("has(self.key) == has(self.env)", "key and env must be set together: set both, or neither"),
    ("!has(self.path) || !has(self.env)", "path and env cannot be combined: leave out path or env"),
)
_TOLERATION_RULES = rules(
    (
        "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
        "operator Exists takes no value: leave value out",
    ),
    (
        "has(self.operator) && self.operator == 'Exists' || has(self.key) && self.key != ''",
        "a toleration with operator Equal needs a key: set key to the taint's key",
    ),
)
_RUN_RULES = rules(
    (
        "!has(self.array) || !has(self.replicas) || self.replicas == 1",
        "replicas and array cannot be combined: leave out replicas or array",
    ),
    (
        f"!has(self.array) || {_BATCH}",
        "a service cannot be a sweep, because its members never end: leave out type or array",
    ),
    (
        f"!has(self.array) || {_NO_LAUNCHER}",
        "launcher and array cannot be combined, because members of a sweep are independent: leave out one of them",
    ),
    (
        "!has(self.array) || !has(self.minReplicas)",
        "a sweep cannot be elastic, because its members are independent: leave out minReplicas or array",
    ),
    (
        "has(self.array) || !has(self.stopAt)",
        "stopAt applies to sweeps only: add array, or leave stopAt out",
    ),
    (
        "!has(self.minReplicas) || self.minReplicas <= (has(self.replicas) ? self.replicas : 1)",
        "minReplicas is above replicas: raise replicas, or lower minReplicas",
    ),
    (
        f"!has(self.minReplicas) || {_BATCH}",
        "a service cannot be elastic, because its members start one by one: use type batch, or leave minReplicas out",
    ),
    (
        "!has(self.minReplicas) || !has(self.launcher) || self.launcher != 'mpi'",
        "an MPI gang cannot be elastic: leave minReplicas out, or use another launcher",
    ),
    (
        f"{_NO_LAUNCHER} || {_BATCH}",
        "a launcher needs members that start and end together: use type batch, or leave launcher out",
    ),
    (
        f"!has(self.launcher) || self.launcher != 'mpi' || {_HAS_PROGRAM}",
        "launcher mpi needs a command, for example [mpirun, ./program]: add command or args",
    ),
)
_REPLICAS_RULES = rules(
    ("self >= 1", "a run has at least one member; `kaji stop` stops a run, `kaji rm` deletes it"),
)


class Resources(Document):
    """Resources of each member. With qos guaranteed, every amount is both the reservation and the limit."""

    model_config = ConfigDict(json_schema_extra=_RESOURCE_RULES)

    cpu_millis: Cpu | None = Field(default=None, alias="cpu")
    """Number of cores: 8, 0.5 or 500m."""
    memory_bytes: MemoryLimit | None = Field(default=None, alias="memory")
    """Memory limit of a member: 64Gi or 64g, at least 6Mi. A member that exceeds it is killed."""
    cpu_request_millis: Cpu | None = Field(default=None, alias="cpuRequest")
    """With qos burstable: the number of cores to reserve. cpu is the limit, if given."""
    memory_request_bytes: Memory | None = Field(default=None, alias="memoryRequest")
    """With qos burstable: the memory to reserve, less than memory."""
    gpus: int = Field(default=0, alias="gpu", ge=0, le=1024)
    """Number of GPUs of each member."""
    gpu_type: str | None = Field(default=None, min_length=1, max_length=63)
    """Type of the GPUs, for example h100; `kaji gpus` lists the types of the cluster. Left out: any type."""
    shm_bytes: Memory | None = Field(default=None, alias="shm")
    """Size of /dev/shm. It counts against memory."""
    whole_node: bool = False
    """Do not share nodes with members of other runs. With gpuType and without gpu: use all GPUs of the node."""


class VolumeUse(Document):
    """A volume or folder that is mounted into every member."""

    model_config = ConfigDict(json_schema_extra=_VOLUME_RULES)

    name: DnsLabel | None = None
    """Name of a volume that the policy offers."""
    host_path: AbsolutePath | None = None
    """A folder of the node, if the policy allows it."""
    path: MountPath
    """Path in the members' containers."""
    read_only: bool = False
    """Mount the folder read-only."""


class SecretUse(Document):
    """A Kubernetes Secret of the run's namespace, as environment variables or as files. With neither env nor path, each
    key of the Secret becomes an environment variable."""

    model_config = ConfigDict(json_schema_extra=_SECRET_RULES)

    name: ObjectName
    """Name of the Secret."""
    key: str | None = Field(default=None, min_length=1, max_length=253)
    """Use only this key of the Secret. Requires env."""
    env: UserEnvName | None = None
    """Environment variable that gets the value of key."""
    path: MountPath | None = None
    """Folder in the members' containers in which each key is a file."""


class Toleration(Document):
    """A node taint that members tolerate, as in a Pod."""

    model_config = ConfigDict(json_schema_extra=_TOLERATION_RULES)

    key: str = Field(default="", max_length=317)
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class Checkpoint(Document):
    """A folder that all members share and that outlives attempts and the run."""

    path: MountPath
    """Path of the folder in the members' containers, also in KAJI_CHECKPOINT_DIR."""
    size_bytes: Memory | None = Field(default=None, alias="size")
    """Size of the PersistentVolumeClaim, if the policy stores checkpoints in claims."""
    every_seconds: DurationAboveZero | None = Field(default=None, alias="every")
    """How often the program writes a checkpoint, for example 10m. When runs have to be preempted, those that wrote one
    just before are preferred."""


class CodeUse(Document):
    """Uploaded code. Every member of every attempt gets the same files."""

    digest: Digest
    """Digest of the uploaded folder. `kaji run --code DIR` uploads a folder and sets this field."""
    path: MountPath = "/code"
    """Path of the folder in the members' containers, also in KAJI_CODE_DIR. It is the working directory unless
    workingDir is set."""


class RunSpec(Document):
    """The program of a run, and the resources that it needs."""

    model_config = ConfigDict(json_schema_extra=_RUN_RULES)

    type: Literal["batch", "service"] = "batch"
    """batch: all members start together and end together. service: members run independently, until the run is stopped
    or deleted."""
    image: Image
    """Name of the container image, as Docker writes it."""
    command: list[Text] = Field(default_factory=list, max_length=MAX_WORDS)
    """Program to run. Replaces the image's entrypoint."""
    args: list[Text] = Field(default_factory=list, max_length=MAX_WORDS)
    """Arguments of the program: the words after the image in `docker run`. Replaces the image's command."""
    working_dir: AbsolutePath | None = None
    """Working directory of the program. Left out: the image's."""
    env: dict[UserEnvName, Text] = Field(default_factory=dict, max_length=MAX_VARIABLES)
    """Environment variables. Do not put secrets here; list them under secrets."""
    secrets: list[SecretUse] = Field(default_factory=list, max_length=64)
    replicas: int = Field(default=1, ge=1, le=MAX_REPLICAS, json_schema_extra=_REPLICAS_RULES)
    """Number of members."""
    min_replicas: int | None = Field(default=None, ge=1, le=MAX_REPLICAS)
    """Makes the gang elastic: it runs with at least this many and at most replicas members. It starts with as many as
    fit, and is restarted from its checkpoint with fewer or more members as the free room changes."""
    array: Annotated[str, Field(min_length=1, max_length=MAX_ARRAY_TEXT)] | None = None
    """Makes the run a sweep, instead of replicas: one independent member for each of these indices, which it finds in
    KAJI_ARRAY_INDEX. For example 0-999, 1,3,5-9 or 0-100:5. With %64 appended, at most 64 members run at once."""
    stop_at: Literal["first-failure", "first-success"] | None = None
    """For sweeps: end the run and all of its members as soon as one member has failed with no restarts left, or as soon
    as one has succeeded."""
    launcher: Literal["none", "torchrun", "mpi"] = "none"
    """How the processes of a gang find each other. torchrun: members get the environment variables of torchrun. mpi:
    rank 0 runs the program, usually mpirun. All other members run an sshd that rank 0 connects to, with SSH keys that
    are made for each attempt."""
    resources: Resources = Resources()
    qos: Literal["guaranteed", "burstable"] = "guaranteed"
    """guaranteed: the requested resources are both the reservation and the limit. burstable: less is reserved than the
    limit."""
    volumes: list[VolumeUse] = Field(default_factory=list, max_length=64)
    code: CodeUse | None = None
    checkpoint: Checkpoint | None = None
    restarts: int | None = Field(default=None, ge=0, le=1_000_000)
    """How often the gang, or each member of a sweep, is restarted after its program failed. Left out: the policy's
    default, which depends on whether the run has a checkpoint. Restarts after node loss, eviction or preemption do not
    count."""
    priority: Literal["high", "normal", "low"] | None = None
    """Runs of a higher priority get nodes first. The policy's queue order decides between runs of one priority."""
    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """The run is ended after this time. In a sweep, this applies to each member. With a short limit, a run may start
    earlier."""
    grace_seconds: Duration | None = Field(default=None, alias="grace")
    """Time between SIGTERM and SIGKILL."""
    stop_grace_seconds: Duration | None = Field(default=None, alias="stopGrace")
    """Replaces grace when the run is stopped or deleted. `kaji stop -t`, `kaji kill` and `kaji rm -f` set it; resuming
    the run removes it."""
    remove_after_seconds: Duration | None = Field(default=None, alias="removeAfter")
    """The run is deleted this long after its end, without its checkpoint. Left out: the policy's endedRuns applies."""
    ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(default_factory=list, max_length=64)
    """Ports that members listen on."""
    user: User | None = None
    """uid or uid:gid of the program."""
    privileged: bool = False
    """Run privileged, with all rights on the node, if the policy allows it."""
    host_network: bool = False
    """Use the network of the node, if the policy allows it."""
    network: NetworkAccess | None = None
    """Addresses that may connect to members, and that members may connect to. Left out: the policy's default."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=64)
    """Place members only on nodes with these labels."""
    tolerations: list[Toleration] = Field(default_factory=list, max_length=64)
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels of the members' Pods."""
    stopped: bool = False
    """Set to true to stop the run. Its checkpoint is kept."""
    resumes: int = Field(default=0, ge=0)
    """Increase this counter to start a run again that has ended. In a sweep, only members that did not succeed start
    again."""

    @field_validator("array")
    @classmethod
    def _readable(cls, text: str | None) -> str | None:
        if text is not None:
            parse_array(text)
        return text

    @property
    def sweep(self) -> Array | None:
        """The members of a sweep; None if the run is not a sweep."""
        return parse_array(self.array) if self.array is not None else None

    @property
    def fewest(self) -> int | None:
        """Minimum number of members of an elastic gang; None if the gang is not elastic."""
        return self.min_replicas if self.min_replicas is not None and self.min_replicas < self.replicas else None

    @property
    def members(self) -> int:
        """Total number of members."""
        sweep = self.sweep
        return len(sweep.indices) if sweep is not None else self.replicas

    @property
    def members_at_once(self) -> int:
        """Maximum number of members that exist at the same time."""
        sweep = self.sweep
        return sweep.at_once if sweep is not None else self.replicas


def parse_spec(document: object, *, where: str = "spec") -> RunSpec:
    """Read a spec, and check everything that can be checked without a policy and a cluster.

    Raises InvalidInput with all faults at once: unknown fields, wrong types, unreadable amounts, and fields that
    contradict each other.
    """
    spec, faults, broken = read(RunSpec, document, where)
    if spec is not None:
        faults += [fault for part, fault in _conflicts(spec, where) if part not in broken]
    if faults or spec is None:
        raise InvalidInput(faults)
    return spec


def to_document(spec: RunSpec, *, with_defaults: bool = False) -> dict[str, Any]:
    """Return the spec as it is stored: camelCase, canonical amounts, and fields at their default only on demand."""
    if with_defaults:
        return spec.model_dump(mode="json", exclude_none=True)
    return spec.model_dump(mode="json", exclude_defaults=True)


def name_fault(name: object, field: str = "name") -> Fault | None:
    """Return the fault of a run's name, or None. The name becomes part of host names and the name of a Service."""
    hint = f"use at most {RUN_NAME_MAX_LENGTH} lower-case letters, digits and dashes, beginning with a letter"
    if not isinstance(name, str) or not name:
        return Fault(field, "a run needs a name", hint=hint)
    if len(name) > RUN_NAME_MAX_LENGTH:
        return Fault(field, f"the name has {len(name)} characters; {RUN_NAME_MAX_LENGTH} are allowed", name[:80], hint)
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name, re.ASCII):
        return Fault(field, f"{name!r} is not a valid name for a run", name, hint)
    return None


def check_name(name: str) -> None:
    """Raise InvalidInput if a run cannot have this name."""
    fault = name_fault(name)
    if fault is not None:
        raise InvalidInput([fault])


def container_words(entrypoint: str | None, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return `command` and `args` for Docker's `--entrypoint` and the words after the image.

    Without an entrypoint (None) the image's entrypoint is used. An empty one removes it, so that the first word is the
    program.
    """
    if entrypoint is None:
        return [], list(words)
    if entrypoint == "":
        return list(words[:1]), list(words[1:])
    return [entrypoint], list(words)


def _conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
    """Yield contradictions between fields, each with the top-level field that it concerns."""
    yield from _resource_conflicts(spec, where)
    yield from _mount_conflicts(spec, where)
    yield from _sweep_conflicts(spec, where)
    yield from _elastic_conflicts(spec, where)
    if spec.launcher == "mpi":
        if not spec.command and not spec.args:
            message = "launcher mpi needs a command, because Kajitori cannot read the image's entrypoint"
            yield "command", Fault(f"{where}.command", message, hint="for example [mpirun, ./program]")
        for user_path in (volume.path for volume in spec.volumes if volume.path == first_step.ETC_PASSWD):
            message = f"with launcher mpi, Kajitori itself writes {user_path}"
            yield "volumes", Fault(f"{where}.volumes", message, user_path, "choose another path")
    if spec.launcher != "none" and spec.type == "service":
        message = f"launcher {spec.launcher} needs members that start and end together; those of a service do not"
        yield "launcher", Fault(f"{where}.launcher", message, spec.launcher, "use type batch")
    for name in sorted(TORCHRUN_ENV & spec.env.keys()) if spec.launcher == "torchrun" else ():
        yield "env", Fault(f"{where}.env.{name}", f"{name} is set by the launcher", hint="leave it out")
    for index, port in enumerate(spec.ports):
        if port in spec.ports[:index]:
            yield "ports", Fault(f"{where}.ports[{index}]", f"port {port} is listed twice", str(port), "list it once")
    for key in spec.labels:
        domain = key.rpartition("/")[0]
        if domain == GROUP or domain.endswith(("kubernetes.io", "k8s.io", f".{GROUP}")):
            message = f"labels of the domain {domain} are reserved"
            yield "labels", Fault(f"{where}.labels[{key!r}]", message, key, "use a domain of your own, or none")
    for index, toleration in enumerate(spec.tolerations):
        field = f"{where}.tolerations[{index}]"
        if toleration.operator == "Exists" and toleration.value:
            yield "tolerations", Fault(field, "operator Exists takes no value", toleration.value, "leave value out")
        if toleration.operator == "Equal" and not toleration.key:
            message = "a toleration with operator Equal needs a key"
            yield "tolerations", Fault(field, message, hint="set key to the taint's key")
    yield from _size_conflicts(spec, where)


def _size_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
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


def _sweep_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
    if spec.array is None:
        if spec.stop_at is not None:
            message = "stopAt applies to sweeps only, and this run is none"
            yield "stopAt", Fault(f"{where}.stopAt", message, spec.stop_at, "add array, or leave stopAt out")
        return
    if spec.replicas != 1:
        message = "replicas and array cannot be combined: the array alone gives the members of a sweep"
        yield "replicas", Fault(f"{where}.replicas", message, str(spec.replicas), "leave out replicas or array")
    if spec.type == "service":
        message = "a service cannot be a sweep: its members never end"
        yield "type", Fault(f"{where}.type", message, spec.type, "leave out type or array")
    if spec.launcher != "none":
        message = f"launcher {spec.launcher} cannot be combined with array: members of a sweep are independent"
        hint = "leave launcher out, or replace array by replicas to run one gang"
        yield "launcher", Fault(f"{where}.launcher", message, spec.launcher, hint)
    if spec.restarts is not None and spec.restarts > MAX_RESTARTS_OF_EACH:
        message = f"a member of a sweep can have at most {MAX_RESTARTS_OF_EACH} restarts, not {spec.restarts}"
        hint = f"write {MAX_RESTARTS_OF_EACH} or less"
        yield "restarts", Fault(f"{where}.restarts", message, str(spec.restarts), hint)


def _elastic_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
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
    if spec.type == "service":
        message = "a service cannot be elastic: its members start one by one anyway"
        yield "type", Fault(f"{where}.type", message, spec.type, "use type batch, or leave minReplicas out")
    if spec.launcher == "mpi":
        message = "an MPI gang cannot be elastic: an MPI program cannot continue with another number of members"
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


def _mount_conflicts(spec: RunSpec, where: str) -> Iterable[tuple[str, Fault]]:
    mounted: dict[str, str] = {SHM_PATH: "shm"} if spec.resources.shm_bytes else {}

    def taken(part: str, field: str, path: str) -> Iterable[tuple[str, Fault]]:
        if PurePosixPath(path).is_relative_to(first_step.FOLDER):
            message = f"{first_step.FOLDER} is reserved for files of Kajitori"
            yield part, Fault(f"{where}.{field}", message, path, "choose another path")
        if path in mounted:
            message = f"{mounted[path]} is already mounted at {path}"
            yield part, Fault(f"{where}.{field}", message, path, "choose another path")
        mounted.setdefault(path, field)

    if spec.code is not None:
        yield from taken("code", "code.path", spec.code.path)
    if spec.checkpoint is not None:
        yield from taken("checkpoint", "checkpoint.path", spec.checkpoint.path)
    for index, volume in enumerate(spec.volumes):
        if (volume.name is None) == (volume.host_path is None):
            message = "a volume has either the name of a volume of the policy, or a hostPath"
            yield "volumes", Fault(f"{where}.volumes[{index}]", message, hint="set exactly one of name and hostPath")
        yield from taken("volumes", f"volumes[{index}].path", volume.path)
    for index, secret in enumerate(spec.secrets):
        field = f"{where}.secrets[{index}]"
        if (secret.key is None) != (secret.env is None):
            yield "secrets", Fault(field, "key and env must be set together", hint="set both, or neither")
        if secret.path is not None and secret.env is not None:
            yield "secrets", Fault(field, "path and env cannot be combined", hint="leave out path or env")
        if secret.env is not None and secret.env in spec.env:
            message = f"{secret.env} is also set under env"
            yield "secrets", Fault(f"{field}.env", message, secret.env, "keep one of them")
        if secret.path is not None:
            yield from taken("secrets", f"secrets[{index}].path", secret.path)
