"""What the operators of a cluster decide for everybody's runs: the policy file, as types.

Every field has a default, and its text here is its documentation: the reference is made from it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DnsLabel, Duration, DurationAboveZero, LabelKey, Memory, ObjectName
from kajitori.core.policy.elastic import Elastic
from kajitori.core.policy.images import Images
from kajitori.core.policy.limits import Ceilings, Defaults, PriorityWord
from kajitori.core.policy.members import Gpu, Inject, Security
from kajitori.core.policy.mounts import CheckpointPolicy, Mounts, Volume
from kajitori.core.policy.network import Networking
from kajitori.core.policy.node_pools import NodePools
from kajitori.core.policy.nodes import NodeHealth, Preflight
from kajitori.core.policy.preemption import Guarantee, Preemption, doubled
from kajitori.core.policy.queue import QueuePolicy
from kajitori.core.policy.start import Binding, Rendezvous, Starting
from kajitori.core.policy.sweeps import Sweeps
from kajitori.core.policy.traffic import TrafficPolicy
from kajitori.core.spec.network_access import is_within, what_is_wrong
from kajitori.core.words.names import PRIORITY_CLASS
from kajitori.errors import FieldError


class Priority(Document):
    """What a priority word means."""

    value: int = Field(ge=-1_000_000, le=1_000_000)
    """Higher goes first."""
    class_name: ObjectName = PRIORITY_CLASS
    """The PriorityClass of its Pods. It must have preemptionPolicy Never: Kajitori preempts whole gangs."""


def _priorities() -> dict[PriorityWord, Priority]:
    return {"high": Priority(value=100), "normal": Priority(value=0), "low": Priority(value=-100)}


class StoredCode(Document):
    """What people may bring along with `--code`."""

    archive_bytes: Memory = Field(default=2**30, alias="archive")
    """The largest folder, packed and before it is compressed."""
    namespace_bytes: Memory | None = Field(default=100 * 2**30, alias="perNamespace")
    """What the code of a namespace takes in the store, compressed; null: not limited. Code that no run refers to does
    not stay."""
    namespace_files: int | None = Field(default=50_000, ge=1, alias="filesPerNamespace")
    """How many files that may be: one for each 8 MiB of an archive, and two more; null: not limited."""


class Logs(Document):
    """What is kept of what members said once their Pods are gone, for as long as their run exists."""

    members: int = Field(default=16, ge=0, le=1000)
    """Of how many members of one attempt: rank 0, then those that failed, then the others, the lowest ranks first. 0
    keeps nothing."""
    per_member_bytes: Memory = Field(default=2**20, alias="perMember")
    """The end of each log, in whole lines."""
    attempts: int = Field(default=10, ge=1, le=1000)
    """Of how many attempts of a run, the latest."""
    keep_within_seconds: DurationAboveZero = Field(default=600, alias="keepWithin")
    """How long the Pod of a member that has ended is left where it is while its node or the store does not answer, so
    that its log can still be kept. It holds no resources, and nothing waits for it. Then the log is given up: events of
    the run (LogLost) and the metric kajitori_controller_logs_lost_total say so."""
    keep_for_seconds: DurationAboveZero = Field(default=30 * 86400, alias="keepFor")
    """A log that is older goes, though its run is still there."""
    namespace_bytes: Memory | None = Field(default=10 * 2**30, alias="perNamespace")
    """What the kept logs of a namespace take, at most: the oldest go first, whatever run they are of. A log counts for
    4 KiB at least, so that their number has a limit, too. null: not limited."""


class EndedRuns(Document):
    """What becomes of runs once they have ended."""

    keep_for_seconds: DurationAboveZero | None = Field(default=90 * 86400, alias="keepFor")
    """A run that ended longer ago is deleted as `kaji rm` does it: with its Pods, kept logs and results, without its
    checkpoint. null: it stays until somebody deletes it. A run itself may say less (`removeAfter`, `kaji run --rm`)."""


class PeakMemory(Document):
    """How the most memory that members held is found out; each run shows it, and the next of its kind is told."""

    sample_every_seconds: Duration = Field(default=60, alias="sampleEvery")
    """How often it is asked what members hold: of the metrics API (metrics.k8s.io) where it is served, else of the
    kubelets of nodes with runs, at most five a second. 0s: never."""


class Policy(Document):
    """One file, owned by the operators: defaults, ceilings, refusals and additions for every run."""

    defaults: Defaults = Defaults()
    ceilings: Ceilings = Ceilings()
    memory_without_limit: Literal["default", "refuse", "unlimited"] = "default"
    """A run that names no memory limit: gets defaults.memory, is refused, or has none. Then it is never restarted nor
    carried to another node, so that what ate one node's memory does not eat the next one's; and it shares no node with
    other runs. Pods that are not runs may be beside it: nodes of its own (inject.nodeSelector, taints) protect them.
    Services are refused without a limit."""
    memory: PeakMemory = PeakMemory()
    allow_burstable: bool = True
    """Whether a run may reserve less than it may use."""
    images: Images = Images()
    inject: Inject = Inject()
    security: Security = Security()
    gpu: Gpu = Gpu()
    topology: list[LabelKey] = Field(
        default_factory=lambda: ["topology.kubernetes.io/zone", "kajitori.dev/block", "kajitori.dev/rack"]
    )
    """Labels of a node that tell where it stands, from the widest to the narrowest. A gang is placed in as few of these
    domains as can be."""
    priorities: dict[PriorityWord, Priority] = Field(default_factory=_priorities)
    """What high, normal and low mean; none may have more than the one before it."""
    queue: QueuePolicy = QueuePolicy()
    preemption: Preemption = Preemption()
    guarantees: list[Guarantee] = Field(default_factory=list, max_length=1000)
    """What teams are guaranteed: others use it while they do not want it, and give it back when they do. A run is
    covered if its team, with all that it holds, has no more of anything than its entry says."""
    volumes: dict[DnsLabel, Volume] = Field(default_factory=dict)
    """Volumes that people may mount by name."""
    mounts: Mounts = Mounts()
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    start: Starting = Starting()
    disruption_budgets: bool = True
    """Each run has a PodDisruptionBudget, so that nobody evicts a gang member by member: no autoscaler that packs nodes
    tighter, no descheduler. Members on a cordoned node it does not protect: `kubectl drain` gets through, and the gang
    leaves as a whole. Of a service with several members one after the other may be evicted anywhere."""
    binding: Binding = Binding()
    rendezvous: Rendezvous = Rendezvous()
    code: StoredCode = StoredCode()
    logs: Logs = Logs()
    ended_runs: EndedRuns = EndedRuns()
    sweeps: Sweeps = Sweeps()
    traffic: TrafficPolicy = TrafficPolicy()
    network: Networking = Networking()
    elastic: Elastic = Elastic()
    node_health: NodeHealth = NodeHealth()
    preflight: Preflight = Preflight()
    node_pools: NodePools = Field(default_factory=dict)
    nodes_on_demand: bool = False
    """The cluster grows by itself: a run that is larger than it is today is queued instead of refused."""

    @field_validator("priorities")
    @classmethod
    def _all_words(cls, given: dict[PriorityWord, Priority]) -> dict[PriorityWord, Priority]:
        found = _priorities() | given
        high, normal, low = (found[word].value for word in ("high", "normal", "low"))
        if not high >= normal >= low:
            message = f"high ({high}), normal ({normal}) and low ({low}) are not in this order"
            raise FieldError(message, "runs of the higher value go first and preempt runs of low priority")
        return found

    @field_validator("guarantees")
    @classmethod
    def _one_guarantee(cls, guarantees: list[Guarantee]) -> list[Guarantee]:
        again = doubled(guarantees)
        if again is not None:
            what = f"{again.namespace}, {again.gpu_type or 'any type'}"
            raise FieldError(f"{what} is guaranteed something twice", "keep one of them")
        return guarantees

    @model_validator(mode="after")
    def _defaults_within_ceilings(self) -> Policy:
        member, run, defaults = self.ceilings.member, self.ceilings.run, self.defaults
        pairs = (
            ("cpu", defaults.cpu_millis, "member.cpu", member.cpu_millis),
            ("memory", defaults.memory_bytes, "member.memory", member.memory_bytes),
            ("shm", defaults.shm_bytes, "member.shm", member.shm_bytes),
            ("restarts", defaults.restarts, "run.restarts", run.restarts),
            ("restartsWithoutCheckpoint", defaults.restarts_without_checkpoint, "run.restarts", run.restarts),
            ("grace", defaults.grace_seconds, "run.grace", run.grace_seconds),
            ("timeLimit", defaults.time_limit_seconds, "run.timeLimit", run.time_limit_seconds),
            ("checkpointSize", defaults.checkpoint_size_bytes, "run.checkpointSize", run.checkpoint_size_bytes),
        )
        above = [f"{name} (ceilings.{ceiling})" for name, value, ceiling, limit in pairs if _is_above(value, limit)]
        if above:
            message = f"defaults are above ceilings, so that a run that says nothing is refused: {', '.join(above)}"
            raise FieldError(message, "lower these defaults or raise these ceilings")
        return self

    @model_validator(mode="after")
    def _known_places(self) -> Policy:
        classes, default, most = self.traffic.address_classes, self.defaults.network, self.ceilings.run.network
        written = {"defaults.network": default, "ceilings.run.network": most, "network.always": self.network.always}
        wrong = [
            f"{where}.{name}: {message} ({hint})"
            for where, use in written.items()
            for name, places in (("from", use.sources), ("to", use.targets))
            for message, hint in (what_is_wrong(place, classes) for place in places or ())
            if message
        ]
        if self.network.pods not in (None, *classes.names):
            wrong.append(f"network.pods: there is no class {self.network.pods!r} ({', '.join(classes.names)})")
        for name, places, limit in (("from", default.sources, most.sources), ("to", default.targets, most.targets)):
            if limit is None or wrong:
                continue
            above = [place for place in places or () if not is_within(place, limit, classes, self.class_of_pods)]
            if above:
                wrong.append(f"defaults.network.{name} is above ceilings.run.network.{name}: {', '.join(above)}")
        if wrong:
            raise FieldError("; ".join(wrong), "name classes of traffic.classes, and ranges within ceilings")
        return self

    @property
    def class_of_pods(self) -> str:
        """The class of addresses that this cluster's own Pods are in; empty where policy has none for them."""
        known = self.traffic.address_classes.names
        return self.network.pods or next((name for name in ("cluster", "internal") if name in known), "")

    @property
    def default_time_limit_seconds(self) -> int | None:
        """The time limit of a run that names none; None where it has none then."""
        return self.defaults.time_limit_seconds or self.ceilings.run.time_limit_seconds


def _is_above(value: int | None, limit: int | None) -> bool:
    return value is not None and limit is not None and value > limit
