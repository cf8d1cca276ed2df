"""The policy file as types: the rules that the operators of a cluster set for all runs.

Every field has a default. The docstring of a field is its documentation; docs/reference/policy.md is generated from it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DnsLabel, Duration, DurationAboveZero, LabelKey, Memory, ObjectName
from kajitori.core.naming.names import PRIORITY_CLASS
from kajitori.core.policy.idle import IdleGpus
from kajitori.core.policy.network.access import Networking
from kajitori.core.policy.network.traffic import TrafficPolicy
from kajitori.core.policy.nodes.health import NodeHealth, Preflight
from kajitori.core.policy.nodes.pools import NodePools
from kajitori.core.policy.notifications import Notifications
from kajitori.core.policy.pods import PodRules
from kajitori.core.policy.prices import UsagePrices
from kajitori.core.policy.queue.order import QueuePolicy
from kajitori.core.policy.queue.preemption import Guarantee, Preemption, first_duplicate
from kajitori.core.policy.runs.elastic import Elastic
from kajitori.core.policy.runs.images import Images
from kajitori.core.policy.runs.limits import Ceilings, Defaults, PriorityWord
from kajitori.core.policy.runs.members import Gpu, Inject, Security
from kajitori.core.policy.runs.mounts import CheckpointPolicy, Mounts, Volume
from kajitori.core.policy.runs.notebooks import Notebooks
from kajitori.core.policy.runs.start import Binding, Rendezvous, Starting
from kajitori.core.policy.runs.stuck import StuckRuns
from kajitori.core.policy.runs.sweeps import Sweeps
from kajitori.core.policy.runs.templates import Template
from kajitori.core.policy.teams import Team
from kajitori.errors import FieldError


class Priority(Document):
    """The meaning of a priority word."""

    value: int = Field(ge=-1_000_000, le=1_000_000)
    """Runs with a higher value go first."""
    class_name: ObjectName = PRIORITY_CLASS
    """PriorityClass of the Pods. It must have preemptionPolicy Never, because Kajitori itself decides about preemption,
    for whole gangs."""


def _priorities() -> dict[PriorityWord, Priority]:
    return {"high": Priority(value=100), "normal": Priority(value=0), "low": Priority(value=-100)}


class StoredCode(Document):
    """Limits for code that users upload with `--code`."""

    archive_bytes: Memory = Field(default=2**30, alias="archive")
    """The largest folder that may be uploaded, measured as an archive before compression."""
    value_bytes: Memory = Field(default=4 * 2**20, le=8 * 2**20, alias="value")
    """The largest arguments or result of one call of a function, pickled; at most 8Mi. Larger values belong on a
    volume."""
    namespace_bytes: Memory | None = Field(default=100 * 2**30, alias="perNamespace")
    """Total size of a namespace's code in the store, compressed. null: no limit. Code that no run refers to is
    deleted."""
    namespace_files: int | None = Field(default=50_000, ge=1, alias="filesPerNamespace")
    """Number of files that a namespace's code may take in the store: one per 8 MiB of an archive, and two more per
    archive. null: no limit."""


class Logs(Document):
    """Logs that are kept after the Pods of members are gone: until their run is deleted, or, with a history, for
    `keepFor`."""

    members: int = Field(default=16, ge=0, le=1000)
    """Number of logs that are kept per attempt: of rank 0 first, then of members that failed, then of the others, each
    from the lowest rank. 0: no logs are kept."""
    per_member_bytes: Memory = Field(default=2**20, alias="perMember")
    """Size of the end of each log that is kept, in whole lines."""
    attempts: int = Field(default=10, ge=1, le=1000)
    """Number of attempts per run that keep their logs, the latest ones."""
    keep_within_seconds: DurationAboveZero = Field(default=600, alias="keepWithin")
    """If a member has ended, and its node or the store does not answer, its Pod stays for this long so that its log can
    still be saved. The Pod holds no resources, and nothing waits for it. After that the log is lost: an event of the
    run (LogLost) and the metric kajitori_controller_logs_lost_total report it."""
    keep_for_seconds: DurationAboveZero = Field(default=30 * 86400, alias="keepFor")
    """Logs older than this are deleted, even if their run still exists."""
    namespace_bytes: Memory | None = Field(default=10 * 2**30, alias="perNamespace")
    """Total size of a namespace's kept logs. The oldest logs of all runs are deleted first. Each log counts as at least
    4 KiB, so that this limits their number as well. null: no limit."""


class EndedRuns(Document):
    """Deletion of runs that have ended."""

    keep_for_seconds: DurationAboveZero | None = Field(default=90 * 86400, alias="keepFor")
    """A run is deleted this long after its end, as with `kaji rm`: together with its Pods, but without its checkpoint.
    With a history its record, logs and results stay; without one, logs and results are deleted with it. null: runs are
    never deleted automatically. A run itself may set a shorter time (`removeAfter`, `kaji run --rm`)."""


class KeptHistory(Document):
    """How long history keeps runs after their objects are removed."""

    keep_for_seconds: DurationAboveZero | None = Field(default=None, alias="keepFor")
    """A run leaves history on the first day that is this long after its end, but never before its object is removed.
    Its usage stays in daily sums by team, owner and GPU type. The audit trail stays. null: all runs stay."""


class PeakMemory(Document):
    """Measurement of the peak memory of members. Each run shows its peak, and later runs of the same kind show it as a
    finding."""

    sample_every_seconds: Duration = Field(default=60, alias="sampleEvery")
    """Interval at which memory is measured: by the metrics API (metrics.k8s.io) if the cluster serves it, else by the
    kubelets of nodes with runs, at most five per second. 0s: never."""


class Policy(Document):
    """The file in which operators set defaults, ceilings, restrictions and additions for all runs."""

    defaults: Defaults = Defaults()
    ceilings: Ceilings = Ceilings()
    memory_without_limit: Literal["default", "refuse", "unlimited"] = "default"
    """Treatment of a run without a memory limit. default: it gets defaults.memory. refuse: it is refused. unlimited: it
    has no limit. Such a run is never restarted or moved to another node, so that a program that exhausts the memory of
    one node does not exhaust the next one's, and it shares no node with other runs. Pods that are not runs may still be
    on the same node; inject.nodeSelector and taints keep them apart. Services without a limit are refused."""
    memory: PeakMemory = PeakMemory()
    allow_burstable: bool = True
    """Whether a run may reserve less than its limit (qos burstable)."""
    images: Images = Images()
    inject: Inject = Inject()
    security: Security = Security()
    gpu: Gpu = Gpu()
    pods: PodRules = PodRules()
    topology: list[LabelKey] = Field(
        default_factory=lambda: ["topology.kubernetes.io/zone", "kajitori.dev/block", "kajitori.dev/rack"]
    )
    """Node labels for topology domains, from the widest to the narrowest. A gang is placed in as few of these domains
    as possible."""
    priorities: dict[PriorityWord, Priority] = Field(default_factory=_priorities)
    """Values of the priorities high, normal and low, in descending order."""
    queue: QueuePolicy = QueuePolicy()
    preemption: Preemption = Preemption()
    guarantees: list[Guarantee] = Field(default_factory=list, max_length=1000)
    """Resources that are guaranteed to teams. Other teams may use them while the team does not need them; their runs
    are preempted when it does. A run is covered if its team's running runs and this run together stay within all
    amounts of the guarantee."""
    teams: dict[DnsLabel, Team] = Field(default_factory=dict, max_length=1000)
    """The teams of the cluster by name. The API server judges by bindings, which `kaji team render` writes from this
    section."""
    templates: dict[DnsLabel, Template] = Field(default_factory=dict, max_length=200)
    """Runs that users begin with, by name."""
    volumes: dict[DnsLabel, Volume] = Field(default_factory=dict)
    """Volumes that runs may mount by name."""
    mounts: Mounts = Mounts()
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    start: Starting = Starting()
    disruption_budgets: bool = True
    """Whether each run gets a PodDisruptionBudget. It prevents cluster autoscalers and deschedulers from evicting
    single members of a gang. It does not protect members on a cordoned node: `kubectl drain --delete-emptydir-data`
    succeeds, and the whole gang moves. A service with several members may be evicted one member at a time on any
    node."""
    binding: Binding = Binding()
    rendezvous: Rendezvous = Rendezvous()
    code: StoredCode = StoredCode()
    logs: Logs = Logs()
    ended_runs: EndedRuns = EndedRuns()
    history: KeptHistory = KeptHistory()
    sweeps: Sweeps = Sweeps()
    notebooks: Notebooks = Notebooks()
    traffic: TrafficPolicy = TrafficPolicy()
    network: Networking = Networking()
    elastic: Elastic = Elastic()
    node_health: NodeHealth = NodeHealth()
    preflight: Preflight = Preflight()
    node_pools: NodePools = Field(default_factory=dict)
    prices: UsagePrices = UsagePrices()
    idle_gpus: IdleGpus = IdleGpus()
    board: Literal["users", "public"] = "users"
    """Who may read the board of GPUs (`GET /v1/board`): free and used GPUs by type, and which owners of which teams
    hold them since when, and the GPU-hours of each type and team in the last 30 days. users: everybody who is signed
    in. public: everybody who reaches the server, without signing in. It never names runs, images, commands or
    environments."""
    stuck: StuckRuns = StuckRuns()
    notifications: Notifications = Notifications()
    operators: Annotated[str, Field(max_length=200)] = "the operators of the cluster"
    """The people to ask if only the operators can help, for example: the platform team (#gpu-help). If it
    is empty, the users operate the cluster themselves, and messages name the policy instead. It is empty on the cluster
    of `kaji up`, unless its policy file sets this field."""
    nodes_on_demand: bool = False
    """Set this if the cluster grows automatically. A run that is larger than the current cluster is then queued instead
    of refused."""

    @field_validator("priorities")
    @classmethod
    def _all_words(cls, given: dict[PriorityWord, Priority]) -> dict[PriorityWord, Priority]:
        found = _priorities() | given
        high, normal, low = (found[word].value for word in ("high", "normal", "low"))
        if not high >= normal >= low:
            message = f"high ({high}), normal ({normal}) and low ({low}) are not in descending order"
            raise FieldError(message, "give high the largest value and low the smallest")
        return found

    @field_validator("guarantees")
    @classmethod
    def _one_guarantee(cls, guarantees: list[Guarantee]) -> list[Guarantee]:
        again = first_duplicate(guarantees)
        if again is not None:
            team = f"namespace {again.namespace} and {again.gpu_type or 'any GPU type'}"
            raise FieldError(f"there are two guarantees for {team}", "merge them into one")
        return guarantees

    @property
    def ask(self) -> str:
        """The way out for users if only the operators can help."""
        return f"ask {self.operators}" if self.operators else "change the policy of this cluster: kaji policy show"

    @property
    def class_of_pods(self) -> str:
        """Address class of this cluster's own Pods; empty if policy has none."""
        known = self.traffic.address_classes.names
        return self.network.pods or next((name for name in ("cluster", "internal") if name in known), "")

    @property
    def default_time_limit_seconds(self) -> int | None:
        """Time limit of a run that sets none; None for no limit."""
        return self.defaults.time_limit_seconds or self.ceilings.run.time_limit_seconds
