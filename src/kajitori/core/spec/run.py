"""The spec of a Run: what a user asks for, with field names close to Docker's options.

The spec is stored as the user wrote it. Policy fills in what it leaves out (`core.admission.decide`) each time an
attempt is planned. Sizes follow `core.formats.quantities.parse_spec_memory_bytes`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, field_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import (
    AbsolutePath,
    Duration,
    DurationAboveZero,
    Image,
    LabelKey,
    LabelValue,
    Moment,
    Text,
    User,
    UserEnvName,
    rules,
)
from kajitori.core.formats.quantities import format_duration
from kajitori.core.naming.names import RUN_NAME_MAX_LENGTH
from kajitori.core.spec.array import MAX_TEXT as MAX_ARRAY_TEXT
from kajitori.core.spec.array import Array, parse_array
from kajitori.core.spec.network_access import NetworkAccess
from kajitori.core.spec.notify import Notify
from kajitori.core.spec.parts import (
    Checkpoint,
    CodeUse,
    FilesUse,
    HealthCheck,
    Resources,
    RunNetwork,
    SecretUse,
    Toleration,
    VolumeUse,
)
from kajitori.core.spec.reasons import AfterCondition
from kajitori.errors import Fault, FieldError, InvalidInput

LEAST_STUCK_SECONDS = 120
"""Smallest `stuckAfter`. Telemetry has one value a minute, so a shorter time could be a single quiet minute."""


def _stuck_after(seconds: int) -> int:
    if seconds < LEAST_STUCK_SECONDS:
        hint = f"write at least {format_duration(LEAST_STUCK_SECONDS)}: progress is measured once a minute"
        raise FieldError(f"{format_duration(seconds)} is too short to call a run stuck", hint)
    return seconds


StuckAfter = Annotated[DurationAboveZero, AfterValidator(_stuck_after)]

MAX_AFTER = 64
"""Maximum number of runs that one run waits for."""


def _run_name(text: str) -> str:
    fault = name_fault(text)
    if fault is not None:
        raise FieldError(fault.message, fault.hint)
    return text


RunName = Annotated[str, AfterValidator(_run_name), Field(max_length=RUN_NAME_MAX_LENGTH)]

MAX_REPLICAS = 99_999
MAX_NETWORKS = 8
MAX_WORDS = 4096
MAX_VARIABLES = 1024
MAX_RESTARTS = 1_000_000

# CEL rules in the schema of the custom resource, for fields that exclude or need each other, so that the API server
# refuses a part of what `core.spec.parsing` finds. Every spec that `parse_spec` accepts obeys these rules.
_BATCH = "(!has(self.type) || self.type == 'batch')"
_NO_LAUNCHER = "(!has(self.launcher) || self.launcher == 'none')"
_HAS_PROGRAM = "(has(self.command) && size(self.command) > 0 || has(self.args) && size(self.args) > 0)"
_RUN_RULES = rules(
    (
        "!has(self.array) || !has(self.replicas) || self.replicas == 1",
        "replicas and array cannot be combined: leave out replicas or array",
    ),
    (
        f"!has(self.array) || {_BATCH}",
        "only runs of type batch can be sweeps: leave out type or array",
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
        "only runs of type batch can be elastic: use type batch, or leave minReplicas out",
    ),
    (
        "!has(self.minReplicas) || !has(self.launcher) || self.launcher != 'mpi'",
        "an MPI gang cannot be elastic: leave minReplicas out, or use another launcher",
    ),
    (
        f"!has(self.stuckAfter) && !has(self.onStuck) || {_BATCH} && !has(self.array)",
        "only gangs are watched for hangs: use type batch without array, or leave stuckAfter and onStuck out",
    ),
    (
        "!has(self.onStuck) || self.onStuck != 'restart' || !has(self.restarts) || self.restarts > 0",
        "onStuck is restart, but restarts is 0: raise restarts, or use onStuck tell",
    ),
    (
        f"{_NO_LAUNCHER} || {_BATCH}",
        "a launcher needs members that start and end together: use type batch, or leave launcher out",
    ),
    (
        f"!has(self.launcher) || self.launcher != 'mpi' || {_HAS_PROGRAM}",
        "launcher mpi needs a command, for example [mpirun, ./program]: add command or args",
    ),
    (
        "!(has(self.stdin) && self.stdin || has(self.tty) && self.tty) "
        "|| !has(self.array) && (!has(self.replicas) || self.replicas == 1)",
        "only a run with one member can have stdin or a terminal: leave out stdin and tty, or replicas and array",
    ),
    (
        "!has(self.type) || self.type != 'notebook' || !has(self.replicas) || self.replicas == 1",
        "a notebook has one member: leave replicas out",
    ),
)
_REPLICAS_RULES = rules(
    ("self >= 1", "a run has at least one member; `kaji stop` stops a run, `kaji rm` deletes it"),
)


class After(Document):
    """Another run of the same namespace for which this one waits before it starts."""

    run: RunName
    """Name of the other run."""
    condition: AfterCondition = "succeeded"
    """succeeded: it has to succeed. healthy: all of its members have to run and be healthy, by its health check. If the
    condition can no longer hold, this run fails without having started. ended: it has to end in any way, or be
    deleted."""


class RunSpec(Document):
    """The program of a run, and the resources that it needs."""

    model_config = ConfigDict(json_schema_extra=_RUN_RULES)

    type: Literal["batch", "service", "notebook"] = "batch"
    """batch: all members start together and end together. service: members run independently, until the run is stopped
    or deleted. notebook: one member with JupyterLab, unless it names another command; its folder is kept."""
    image: Image
    """Name of the container image, as Docker writes it."""
    command: list[Text] = Field(default_factory=list, max_length=MAX_WORDS)
    """Program to run. Replaces the image's entrypoint."""
    args: list[Text] = Field(default_factory=list, max_length=MAX_WORDS)
    """Arguments of the program: the words after the image in `docker run`. Replaces the image's command."""
    working_dir: AbsolutePath | None = None
    """Working directory of the program. Left out: the image's."""
    stdin: bool = False
    """Keep the program's standard input open for `kaji attach`; only for runs with one member. Without tty, it ends
    with the first client that attaches."""
    tty: bool = False
    """Give the program a terminal; only for runs with one member."""
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
    after: list[After] = Field(default_factory=list, max_length=MAX_AFTER)
    """Runs that have to end before the first attempt of this one is planned. Later attempts do not wait again."""
    resources: Resources = Resources()
    qos: Literal["guaranteed", "burstable"] = "guaranteed"
    """guaranteed: the requested resources are both the reservation and the limit. burstable: less is reserved than the
    limit."""
    volumes: list[VolumeUse] = Field(default_factory=list, max_length=64)
    code: CodeUse | None = None
    files: FilesUse | None = None
    checkpoint: Checkpoint | None = None
    health: HealthCheck | None = None
    """Check of the members' health. Left out: that of the image (HEALTHCHECK) on `kaji up`, if its container engine has
    the image already; else members have no health. null: none."""
    restarts: int | None = Field(default=None, ge=0, le=MAX_RESTARTS)
    """How often the gang, or each member of a sweep, is restarted after its program failed. Left out: the policy's
    default, which depends on whether the run has a checkpoint. Restarts after node loss, eviction or preemption do not
    count."""
    priority: Literal["high", "normal", "low"] | None = None
    """Runs of a higher priority get nodes first. The policy's queue order decides between runs of one priority."""
    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """The run is ended after this time. In a sweep, this applies to each member. With a short limit, a run may start
    earlier."""
    stuck_after_seconds: StuckAfter | None = Field(default=None, alias="stuckAfter")
    """The run is suspected to be stuck if no rank has printed, counted a step, or moved data for this long; at least
    2m. Left out: a time that is learned from the run's own rhythm, within the limits of the policy."""
    on_stuck: Literal["tell", "restart"] | None = None
    """tell: the owner is told. restart: in addition, the gang is restarted once stacks show that none of its processes
    moves; that counts as a restart. Left out: the policy's default."""
    grace_seconds: Duration | None = Field(default=None, alias="grace")
    """Time between SIGTERM and SIGKILL."""
    stop_grace_seconds: Duration | None = Field(default=None, alias="stopGrace")
    """Replaces grace when the run is stopped or deleted. `kaji stop -t`, `kaji restart -t`, `kaji kill` and
    `kaji rm -f` set it; resuming the run removes it, and so does the next stop after a restart."""
    remove_after_seconds: Duration | None = Field(default=None, alias="removeAfter")
    """The run is deleted this long after its end, without its checkpoint. Left out: the policy's endedRuns applies."""
    tensorboard: AbsolutePath | None = None
    """Folder in which the program writes TensorBoard's event files. Kajitori reads the scalars in them, in addition to
    what the program writes to $KAJI_METRICS; see `kaji metrics`."""
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
    networks: list[RunNetwork] = Field(default_factory=list, max_length=MAX_NETWORKS)
    """Networks in which this run and others find each other by name. In them the run's own name leads to it, too, and
    outside of them no name does, unless it is a gang. Without networks, the run's name leads to it in the whole
    namespace."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=64)
    """Place members only on nodes with these labels."""
    tolerations: list[Toleration] = Field(default_factory=list, max_length=64)
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict, max_length=64)
    """Labels of the members' Pods."""
    notify: Notify | None = None
    stopped: bool = False
    """Set to true to stop the run. Its checkpoint is kept."""
    parked: bool = False
    """Set together with stopped if the run is stopped to free idle GPUs (`kaji park`), and is meant to be resumed."""
    keep_idle_until: Moment | None = None
    """Until this time (RFC 3339) the owner is not asked about idle GPUs, and the run is not parked (`kaji keep`)."""
    resumes: int = Field(default=0, ge=0)
    """Increase this counter to start a run again. A run that has not ended is stopped first. In a sweep, only members
    that did not succeed start again."""

    @field_validator("array")
    @classmethod
    def _readable(cls, text: str | None) -> str | None:
        if text is not None:
            parse_array(text)
        return text

    @property
    def life(self) -> Literal["batch", "service"]:
        """How the run lives: a notebook is a batch run of one member."""
        return "service" if self.type == "service" else "batch"

    @property
    def is_interactive(self) -> bool:
        """Whether a person works in it: a notebook, or a batch run with a terminal that takes input."""
        return self.type == "notebook" or (self.type == "batch" and self.stdin and self.tty)

    @property
    def sweep(self) -> Array | None:
        """The members of a sweep; None if the run is not a sweep."""
        return parse_array(self.array) if self.array is not None else None

    @property
    def fewest(self) -> int | None:
        """Minimum number of members of an elastic gang; None if the gang is not elastic."""
        return self.min_replicas if self.min_replicas is not None and self.min_replicas < self.replicas else None

    @property
    def is_alone(self) -> bool:
        """Whether no member has to reach another one."""
        return self.array is not None or self.replicas == 1

    @property
    def is_internal(self) -> bool:
        """Whether the run is in networks, and all of them are internal."""
        return bool(self.networks) and all(use.internal for use in self.networks)

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


def to_document(spec: RunSpec, *, with_defaults: bool = False) -> dict[str, Any]:
    """Return the spec as it is stored: camelCase, canonical amounts, and fields at their default only on demand."""
    if with_defaults:
        return spec.model_dump(mode="json", exclude_none=True)
    return spec.model_dump(mode="json", exclude_defaults=True)


def after_of(text: str) -> dict[str, str]:
    """Return the entry of `after` that a user writes as `RUN`, `RUN:succeeded`, `RUN:healthy` or `RUN:ended`."""
    run, colon, condition = text.partition(":")
    return {"run": run, "condition": condition} if colon else {"run": run}


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
