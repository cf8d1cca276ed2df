"""Defaults and upper limits of runs: the policy file's sections `defaults` and `ceilings`, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Cpu, Duration, DurationAboveZero, EnvName, Memory, Text
from kajitori.core.spec.network_access import NetworkAccess

PriorityWord = Literal["high", "normal", "low"]


class Defaults(Document):
    """Values for fields that a run leaves out. The run's findings list every default that was used."""

    cpu_millis: Cpu = Field(default=1000, alias="cpu")
    """Cores of each member."""
    memory_bytes: Memory = Field(default=2 * 2**30, alias="memory")
    """Memory of each member: its limit if memoryWithoutLimit is default, its reservation if that is unlimited."""
    whole_node_percent: int = Field(default=90, ge=1, le=100)
    """For runs that ask for whole nodes without amounts: the share of the smallest suitable node that each member gets.
    The rest is left to the node's own services."""
    shm_bytes: Memory | None = Field(default=None, alias="shm")
    """Size of /dev/shm. Left out: the container runtime's default, usually 64 MiB."""
    restarts: int = Field(default=3, ge=0)
    """How often a run with a checkpoint is restarted after its program failed. In a sweep this counts for each
    member."""
    restarts_without_checkpoint: int = Field(default=0, ge=0)
    """The same for a run without a checkpoint, which starts from the beginning and usually fails again in the same way.
    Neither number limits restarts after node loss, eviction or preemption."""
    grace_seconds: Duration = Field(default=30, alias="grace")
    """Time between SIGTERM and SIGKILL."""
    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """A run is ended after this time. Left out: no limit."""
    priority: PriorityWord = "normal"
    """high, normal or low."""
    checkpoint_size_bytes: Memory = Field(default=100 * 2**30, alias="checkpointSize")
    """Size of a checkpoint's PersistentVolumeClaim."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables that a run may override. PYTHONUNBUFFERED=1 is always among them unless this field sets it,
    so that the output of a Python program appears in its log at once. An empty value turns that off."""
    network: NetworkAccess = NetworkAccess()
    """Network access of runs that do not specify it. {to: [internal]}, for example, blocks connections to the internet.
    Left out: everything that ceilings.run.network allows."""


class MemberCeilings(Document):
    """Upper limits for one member. A field that is left out is not limited."""

    cpu_millis: Cpu | None = Field(default=None, alias="cpu")
    """Cores."""
    memory_bytes: Memory | None = Field(default=None, alias="memory")
    """Memory limit. A member without a memory limit exceeds this ceiling."""
    gpus: int | None = Field(default=None, alias="gpu", ge=0)
    """GPUs."""
    shm_bytes: Memory | None = Field(default=None, alias="shm")
    """Size of /dev/shm."""


class RunCeilings(Document):
    """Upper limits for one run, all members together. A field that is left out is not limited."""

    cpu_millis: Cpu | None = Field(default=None, alias="cpu")
    """Cores of all members."""
    memory_bytes: Memory | None = Field(default=None, alias="memory")
    """Memory of all members."""
    gpus: int | None = Field(default=None, alias="gpu", ge=0)
    """GPUs of all members."""
    replicas: int | None = Field(default=None, ge=1)
    """Number of members."""
    restarts: int | None = Field(default=None, ge=0)
    """Restarts after failures of the program."""
    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """Time limit. A run without one gets this one."""
    grace_seconds: Duration | None = Field(default=3600, alias="grace")
    """Time between SIGTERM and SIGKILL."""
    checkpoint_size_bytes: Memory | None = Field(default=None, alias="checkpointSize")
    """Size of a checkpoint's PersistentVolumeClaim."""
    pod_text_bytes: Memory | None = Field(default=64 * 2**20, alias="podText")
    """Size of the text (command, arguments, variables, volumes and so on) in the Pods of all members together. Each Pod
    holds a copy of it, and the Pods of all runs share the few gigabytes of the cluster's etcd."""
    network: NetworkAccess = NetworkAccess()
    """The widest network access that a run may ask for."""


class Ceilings(Document):
    """Upper limits. A run that exceeds one of them is refused."""

    member: MemberCeilings = MemberCeilings()
    run: RunCeilings = RunCeilings()
