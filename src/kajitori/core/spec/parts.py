"""The parts of a Run's spec: resources, volumes, secrets, tolerations, checkpoint and code."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import (
    AbsolutePath,
    Cpu,
    Digest,
    DnsLabel,
    Duration,
    DurationAboveZero,
    LabelValue,
    Memory,
    MemoryLimit,
    MountPath,
    NetworkName,
    ObjectName,
    Program,
    UserEnvName,
    rules,
)

SHM_PATH = "/dev/shm"
MAX_ALIASES = 32
MAX_HEALTH_RETRIES = 1_000_000
MAX_FILES = 256
"""Most files of a run: each is a mount of its own."""

# CEL rules in the schema of the custom resource, as in `core.spec.run`.
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


class HealthCheck(Document):
    """A command that runs in every member, again and again, and tells whether the member is healthy, as Docker's
    HEALTHCHECK does. It restarts nothing and takes no traffic away. Times are whole seconds."""

    command: Program
    """A text that the member's /bin/sh runs, or a list with a program and its arguments, for images without a shell.
    Exit code 0 means healthy."""
    interval_seconds: DurationAboveZero = Field(default=30, alias="interval")
    """Time between two checks. The first one follows the start of the program at once."""
    timeout_seconds: DurationAboveZero = Field(default=30, alias="timeout")
    """A check that takes longer is ended, and has failed."""
    retries: int = Field(default=3, ge=1, le=MAX_HEALTH_RETRIES)
    """Number of failures in a row after which a member is unhealthy."""
    start_period_seconds: Duration = Field(default=0, alias="startPeriod")
    """Time after the start of the program in which failures do not count, until the first success."""
    start_interval_seconds: DurationAboveZero = Field(default=5, alias="startInterval")
    """With a start period: time between two checks until the first success."""

    @property
    def words(self) -> list[str]:
        """The program of the check, and its arguments."""
        return ["/bin/sh", "-c", self.command] if isinstance(self.command, str) else list(self.command)

    @property
    def patience_seconds(self) -> int:
        """Time after the start of its program after which a member is unhealthy if no check has succeeded: the start
        period, all retries, and the end of a check that is under way."""
        return self.start_period_seconds + self.retries * self.interval_seconds + self.timeout_seconds


class FileUse(Document):
    """A file of `files`, or an empty folder."""

    path: MountPath
    """Path in the members' containers. The file hides one of the image at this path; the program may change it, and
    can neither move nor delete it."""
    mode: Annotated[str, Field(min_length=3, max_length=3, pattern="^[0-7]{3}$")] = "644"
    """Permissions as three octal digits. The owner is the program's user if the run names one, else the user of
    Kajitori's image."""


class RunNetwork(Document):
    """A network in which the run and others of its namespace find each other by name. Docker's networks, and so those
    of Compose, become such networks. It restricts no connections unless it is internal; see network for that."""

    name: NetworkName
    """Any name; all runs of the namespace that write the same name are in one network."""
    aliases: list[DnsLabel] = Field(default_factory=list, max_length=MAX_ALIASES)
    """Names that lead to the run in this network, in addition to the run's own name. Several runs may have the same
    one. They lead to rank 0 of a gang, and to all members of a service."""
    internal: bool = False
    """Whether the network has no way out (Docker's `--internal`). If all networks of a run are internal, the run can
    connect only to Pods of its namespace, and only these can connect to it, unless its own `network` says otherwise."""


class FilesUse(Document):
    """Uploaded files. Every member of every attempt has them at their paths before its program starts, in place of
    files of the image. `docker cp` into a container that does not run sets this field."""

    digest: Digest
    """Digest of an uploaded archive. Its entries are named 000, 001 and so on, in the order of items."""
    items: list[FileUse] = Field(min_length=1, max_length=MAX_FILES)
    """Path and permissions of each entry of the archive."""


class CodeUse(Document):
    """Uploaded code. Every member of every attempt gets the same files."""

    digest: Digest
    """Digest of the uploaded folder. `kaji run --code DIR` uploads a folder and sets this field."""
    path: MountPath = "/code"
    """Path of the folder in the members' containers, also in KAJI_CODE_DIR. It is the working directory unless
    workingDir is set."""
