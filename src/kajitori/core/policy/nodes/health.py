"""Policy for the health of nodes: the policy file's sections `nodeHealth` and `preflight`, as types."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated

from pydantic import Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import (
    Cpu,
    DnsLabel,
    Duration,
    DurationAboveZero,
    EnvName,
    Image,
    LabelKey,
    LabelValue,
    Memory,
    Text,
    User,
)
from kajitori.core.naming.names import NAMESPACE, TAINT_PREFLIGHT
from kajitori.core.spec.parts import VolumeUse
from kajitori.errors import FieldError

ConditionPattern = Annotated[str, Field(min_length=1, max_length=316)]


class NodeHealth(Document):
    """When an unhealthy node is taken out of the pool, and when it comes back. Node states that Kubernetes handles
    itself, such as NotReady and memory or disk pressure, are not part of this."""

    bad_when_true: list[ConditionPattern] = Field(
        default_factory=lambda: [
            "KernelDeadlock",
            "ReadonlyFilesystem",
            "CorruptDockerOverlay2",
            "KubeletUnhealthy",
            "ContainerRuntimeUnhealthy",
            "FrequentKubeletRestart",
            "FrequentContainerdRestart",
            "GPUMissing",
            "*GPUError",
            "*XID*",
            "NVLinkStatusInactive",
        ]
    )
    """Patterns for types of node conditions that mean a broken node while they are True, as node-problem-detector and
    similar tools write them. `*` matches any text."""
    bad_when_false: list[ConditionPattern] = Field(
        default_factory=lambda: ["AcceleratedHardwareReady", "KernelReady", "StorageReady"]
    )
    """The same for conditions that mean a broken node while they are False."""
    after_seconds: Duration = Field(default=60, alias="after")
    """How long a condition must have lasted before the node is taken out."""
    back_after_seconds: Duration = Field(default=600, alias="backAfter")
    """How long the condition must be gone before the node comes back. If there is a preflight test, the node has to
    pass it as well."""
    failed_runs: int = Field(default=2, ge=0, alias="failedRuns")
    """A node is taken out when members of this many runs failed on it and the same runs then did well on other nodes.
    If all of these runs belong to one user, one more is needed. 0: never."""
    proven_after_seconds: DurationAboveZero = Field(default=600, alias="provenAfter")
    """A run does well on other nodes if it succeeds there, or runs for this long."""
    slow_runs: int = Field(default=2, ge=0, alias="slowRuns")
    """A node is taken out when the members of this many runs on it were persistently slower than those on other nodes.
    If all of these runs belong to one user, one more is needed. Runs in which the same rank was slow count once, unless
    its GPU's clock or a link was slower: this rank may have more work in all of them. 0: never."""
    lost_times: int = Field(default=3, ge=0, alias="lostTimes")
    """A node is taken out when it stopped reporting this often while members ran on it. 0: never."""
    window_seconds: DurationAboveZero = Field(default=86400, alias="window")
    """How long a failed run, a slow run or a lost node counts."""
    at_most_percent: int = Field(default=10, ge=0, le=100, alias="atMostPercent")
    """Largest share of all nodes that is taken out automatically, but at least one node. Further unhealthy nodes only
    cause a warning, so that a broken image cannot empty the cluster. 0: no node is taken out, there are only
    warnings."""
    drain: bool = False
    """Whether runs on a node that is taken out are moved to other nodes, each gang as a whole, as `kaji drain` does. If
    not, they go on."""

    def is_bad(self, condition_type: str, status: str) -> bool:
        """Whether a node with this condition is broken."""
        if status == "True":
            return _matches_pattern(condition_type, tuple(self.bad_when_true))
        return status == "False" and _matches_pattern(condition_type, tuple(self.bad_when_false))

    def watches(self, condition_type: str) -> bool:
        """Whether a condition of this type can mean a broken node."""
        return self.is_bad(condition_type, "True") or self.is_bad(condition_type, "False")


@lru_cache(maxsize=4096)
def _matches_pattern(condition_type: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern matches. Cached, because all nodes of a cluster have the same conditions."""
    return any(fnmatchcase(condition_type, pattern) for pattern in patterns)


class Preflight(Document):
    """A short test of a node: a run of one member that has the whole node, and exits with 0 if the node is healthy. A
    node that fails is taken out of the pool. A node that joins with the taint is tested before it gets work.
    `examples/preflight` contains a test."""

    image: Image | None = None
    """Image of the test. images.allow need not list it. Left out: nodes are not tested."""
    command: list[Text] = Field(default_factory=list)
    """Program and arguments. Left out: the image's own."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables."""
    gpus: int | None = Field(default=None, alias="gpu", ge=0, le=1024)
    """GPUs of the test. Left out: all GPUs of the node."""
    cpu_millis: Cpu = Field(default=2000, alias="cpu")
    """Cores of the test. No run shares the node with it, whatever this says."""
    memory_bytes: Memory = Field(default=4 * 2**30, alias="memory")
    """Memory limit of the test."""
    shm_bytes: Memory | None = Field(default=None, alias="shm")
    """Size of /dev/shm, which counts against memory. NCCL needs some."""
    volumes: list[VolumeUse] = Field(default_factory=list, max_length=64)
    """Folders to mount, as in a run's spec."""
    user: User | None = None
    """uid or uid:gid of the test. 0 is allowed here."""
    privileged: bool = False
    """Whether the test runs privileged, as some hardware tests need."""
    time_limit_seconds: DurationAboveZero = Field(default=600, alias="timeLimit")
    """A test that takes longer has failed, because programs hang on broken GPUs."""
    nodes: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Only nodes with these labels are tested. Left out: all nodes."""
    taint: LabelKey = TAINT_PREFLIGHT
    """Nodes that join with this taint are tested before they get work."""
    at_once: int = Field(default=32, ge=1, le=1000, alias="atOnce")
    """Number of nodes that are tested at the same time."""
    pause_seconds: DurationAboveZero = Field(default=60, alias="pause")
    """Pause before a test that could not run (no image, no room) is tried again; doubled after each attempt."""
    longest_pause_seconds: DurationAboveZero = Field(default=3600, alias="longestPause")
    """Upper limit of this pause."""
    retest_after_seconds: DurationAboveZero = Field(default=3600, alias="retestAfter")
    """A node that was taken out because of failed runs, node losses or a failed test is tested again after this time,
    and comes back when it passes. The time doubles after each failed test."""
    namespace: DnsLabel = NAMESPACE
    """Namespace of the test runs. Users who may create Runs there can run this image on nodes that are out of the
    pool."""

    @model_validator(mode="after")
    def _check_program(self) -> Preflight:
        if self.image is None and self.command:
            raise FieldError("command needs image", "set image to the one that contains the command")
        if self.shm_bytes is not None and self.shm_bytes > self.memory_bytes:
            raise FieldError("shm is larger than memory, but counts against it", "raise memory or lower shm")
        return self

    def covers(self, labels: dict[str, str]) -> bool:
        """Whether a node with these labels is tested."""
        return self.image is not None and all(labels.get(key) == value for key, value in self.nodes.items())
