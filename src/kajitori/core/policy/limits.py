"""What runs get, and the most that they may ask for: the policy file's sections `defaults` and `ceilings`, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Cpu, Duration, DurationAboveZero, EnvName, Memory, Text
from kajitori.core.spec.network_access import NetworkAccess

PriorityWord = Literal["high", "normal", "low"]


class Defaults(Document):
    """What a run gets that does not say otherwise. Each default that is used appears as a finding."""

    cpu_millis: Cpu = Field(default=1000, alias="cpu")
    """Cores of each member."""
    memory_bytes: Memory = Field(default=2 * 2**30, alias="memory")
    """Memory of each member, where memoryWithoutLimit says default; what is reserved where it says unlimited."""
    whole_node_percent: int = Field(default=90, ge=1, le=100)
    """A run that wants whole nodes and does not say how much of them gets this share of the smallest that suits; the
    rest is for the node's own services."""
    shm_bytes: Memory | None = Field(default=None, alias="shm")
    """Size of /dev/shm; left out: what the container runtime gives (64 MiB as a rule)."""
    restarts: int = Field(default=3, ge=0)
    """How often a run with a checkpoint is started again after its program failed; of a sweep each member."""
    restarts_without_checkpoint: int = Field(default=0, ge=0)
    """The same for a run without a checkpoint, which begins anew each time and as a rule fails again in the same way.
    Node loss and the like restart every run, however often they happen."""
    grace_seconds: Duration = Field(default=30, alias="grace")
    """Between SIGTERM and SIGKILL."""
    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """A run ends after this time; left out: never."""
    priority: PriorityWord = "normal"
    """high, normal or low."""
    checkpoint_size_bytes: Memory = Field(default=100 * 2**30, alias="checkpointSize")
    """Size of a checkpoint's claim."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables that a run may overrule. Unless it stands here, too, PYTHONUNBUFFERED is 1, so that what a
    Python program prints is in its log at once; an empty value turns that off."""
    network: NetworkAccess = NetworkAccess()
    """Who may reach a run that does not say so, and where it may go: {to: [internal]} keeps it from the internet. Left
    out: as far as ceilings.run.network allows."""


class MemberCeilings(Document):
    """The most that one member may ask for; what is left out is not limited."""

    cpu_millis: Cpu | None = Field(default=None, alias="cpu")
    """Cores."""
    memory_bytes: Memory | None = Field(default=None, alias="memory")
    """Memory limit; a member without one is above it."""
    gpus: int | None = Field(default=None, alias="gpu", ge=0)
    """GPUs."""
    shm_bytes: Memory | None = Field(default=None, alias="shm")
    """Size of /dev/shm."""


class RunCeilings(Document):
    """The most that one run may ask for, all members together; what is left out is not limited."""

    cpu_millis: Cpu | None = Field(default=None, alias="cpu")
    """Cores of all members."""
    memory_bytes: Memory | None = Field(default=None, alias="memory")
    """Memory of all members."""
    gpus: int | None = Field(default=None, alias="gpu", ge=0)
    """GPUs of all members."""
    replicas: int | None = Field(default=None, ge=1)
    """Members."""
    restarts: int | None = Field(default=None, ge=0)
    """Restarts after failures of the program."""
    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """A run without a time limit gets this one."""
    grace_seconds: Duration | None = Field(default=3600, alias="grace")
    """Between SIGTERM and SIGKILL."""
    checkpoint_size_bytes: Memory | None = Field(default=None, alias="checkpointSize")
    """Size of a checkpoint's claim."""
    pod_text_bytes: Memory | None = Field(default=64 * 2**20, alias="podText")
    """What its command, arguments, variables, volumes and the like take in the Pods of all members together. Each Pod
    has a copy of them, and all Pods of all runs are in the few gigabytes of the cluster's etcd."""
    network: NetworkAccess = NetworkAccess()
    """By whom a run may let itself be reached, and where it may go, at most."""


class Ceilings(Document):
    """Upper limits. A run above one of them is refused."""

    member: MemberCeilings = MemberCeilings()
    run: RunCeilings = RunCeilings()
