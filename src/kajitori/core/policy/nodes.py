"""What policy says of the health of nodes: when one leaves the pool, how it comes back, and how nodes are tested."""

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
from kajitori.core.spec.run import VolumeUse
from kajitori.core.words.names import NAMESPACE, TAINT_PREFLIGHT
from kajitori.errors import FieldError

ConditionPattern = Annotated[str, Field(min_length=1, max_length=316)]


class NodeHealth(Document):
    """When a node leaves the pool by itself, and when it comes back. Whether its kubelet answers and has room is
    Kubernetes' own business, and not meant here."""

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
    """Patterns of the types of those conditions of a node that say, when they are True, that it is broken: what
    node-problem-detector and its like write. `*` stands for any text."""
    bad_when_false: list[ConditionPattern] = Field(
        default_factory=lambda: ["AcceleratedHardwareReady", "KernelReady", "StorageReady"]
    )
    """The same for conditions that say so when they are False."""
    after_seconds: Duration = Field(default=60, alias="after")
    """So long a condition must have lasted before its node leaves."""
    back_after_seconds: Duration = Field(default=600, alias="backAfter")
    """So long it must be gone before its node comes back; where there is a preflight, that is passed first."""
    failed_runs: int = Field(default=2, ge=0, alias="failedRuns")
    """A node leaves when members of so many runs have failed on it that then did well elsewhere; one more where all
    are of one person. 0: never."""
    proven_after_seconds: DurationAboveZero = Field(default=600, alias="provenAfter")
    """A run does well elsewhere when it has succeeded there, or has run for so long."""
    lost_times: int = Field(default=3, ge=0, alias="lostTimes")
    """A node leaves when it fell silent so often while members were on it. 0: never."""
    window_seconds: DurationAboveZero = Field(default=86400, alias="window")
    """Failures and losses count for so long."""
    at_most_percent: int = Field(default=10, ge=0, le=100, alias="atMostPercent")
    """No more of all nodes are taken out automatically, but at least one; beyond that there is only a warning: a bad
    image must not empty the cluster. 0: none is ever taken out, there are only warnings."""
    drain: bool = False
    """Runs on a node that leaves are moved away, each as a whole, as `kaji drain` does. Otherwise they go on."""

    def is_bad(self, condition_type: str, status: str) -> bool:
        """Whether a condition says that its node is broken."""
        if status == "True":
            return _matches(condition_type, tuple(self.bad_when_true))
        return status == "False" and _matches(condition_type, tuple(self.bad_when_false))

    def watches(self, condition_type: str) -> bool:
        """Whether a condition may ever say so."""
        return self.is_bad(condition_type, "True") or self.is_bad(condition_type, "False")


@lru_cache(maxsize=4096)
def _matches(condition_type: str, patterns: tuple[str, ...]) -> bool:
    """Kept, since all nodes of a cluster have the same conditions."""
    return any(fnmatchcase(condition_type, pattern) for pattern in patterns)


class Preflight(Document):
    """A short test of a node: one member with the whole node, which ends with 0 where the node is well. A node that
    fails leaves the pool; one that comes with the taint is tested before it takes work. `examples/preflight` has one.
    """

    image: Image | None = None
    """The image that holds the test; images.allow need not name it. Left out: nodes are not tested."""
    command: list[Text] = Field(default_factory=list)
    """The program and its arguments, instead of the image's own."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables."""
    gpus: int | None = Field(default=None, alias="gpu", ge=0, le=1024)
    """GPUs that it takes; left out: all that the node has."""
    cpu_millis: Cpu = Field(default=2000, alias="cpu")
    """Cores that it takes; it shares the node with no run anyway."""
    memory_bytes: Memory = Field(default=4 * 2**30, alias="memory")
    """Its memory limit."""
    shm_bytes: Memory | None = Field(default=None, alias="shm")
    """Size of /dev/shm, taken from memory; NCCL wants some."""
    volumes: list[VolumeUse] = Field(default_factory=list, max_length=64)
    """Folders that are mounted into it, as in a run's spec."""
    user: User | None = None
    """uid or uid:gid that it runs as; 0 is allowed here."""
    privileged: bool = False
    """Whether it has all rights on the node, as some tests of hardware need."""
    time_limit_seconds: DurationAboveZero = Field(default=600, alias="timeLimit")
    """A test that takes longer has failed: broken GPUs hang."""
    nodes: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Only nodes with these labels are tested; left out: all."""
    taint: LabelKey = TAINT_PREFLIGHT
    """Nodes that come with this taint are tested before they take work."""
    at_once: int = Field(default=32, ge=1, le=1000, alias="atOnce")
    """So many nodes are tested at a time."""
    pause_seconds: DurationAboveZero = Field(default=60, alias="pause")
    """A test that could not be run (no image, no room) is tried again after this time, twice as long each time."""
    longest_pause_seconds: DurationAboveZero = Field(default=3600, alias="longestPause")
    """The pause does not grow beyond this."""
    retest_after_seconds: DurationAboveZero = Field(default=3600, alias="retestAfter")
    """A node that left because of failed runs, losses or a failed test is tested again after this time, twice as long
    each time, and comes back when it passes."""
    namespace: DnsLabel = NAMESPACE
    """Where the runs of tests live. Whoever may create Runs there can have this image run on nodes that are out of the
    pool."""

    @model_validator(mode="after")
    def _says_what_to_run(self) -> Preflight:
        if self.image is None and self.command:
            raise FieldError("command without image", "name the image that holds it")
        if self.shm_bytes is not None and self.shm_bytes > self.memory_bytes:
            raise FieldError("shm is taken from memory, and is larger", "raise memory or lower shm")
        return self

    def covers(self, labels: dict[str, str]) -> bool:
        """Whether a node with these labels is tested at all."""
        return self.image is not None and all(labels.get(key) == value for key, value in self.nodes.items())
