"""What the operators of a cluster decide for everybody's runs: the policy file, as types.

Every field has a default, and its text here is its documentation: the reference is made from it.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from kajitori.core.elastic_policy import Elastic
from kajitori.core.fields import (
    ANY_NUMBER,
    AbsolutePath,
    Cpu,
    DnsLabel,
    Duration,
    DurationAboveZero,
    EnvName,
    Image,
    LabelKey,
    LabelValue,
    Memory,
    ObjectName,
    ServerUrl,
    Text,
    User,
)
from kajitori.core.names import GPU_RESOURCE, GROUP, PRIORITY_CLASS
from kajitori.core.network_access import NetworkAccess, Networking, is_within, what_is_wrong
from kajitori.core.node_policy import NodeHealth, Preflight
from kajitori.core.node_pools import NodePools
from kajitori.core.preemption_policy import Guarantee, Preemption, doubled
from kajitori.core.quantity import parse_memory_bytes
from kajitori.core.queue_policy import QueuePolicy
from kajitori.core.run import Toleration
from kajitori.core.sweep_policy import Sweeps
from kajitori.core.traffic_policy import TrafficPolicy
from kajitori.core.validation import Document
from kajitori.errors import FieldError

PriorityWord = Literal["high", "normal", "low"]
Port = Annotated[int, Field(ge=1024, le=65535)]


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
    """How often a gang is started again after its program failed."""
    grace_seconds: Duration = Field(default=30, alias="grace")
    """Between SIGTERM and SIGKILL."""
    time_limit_seconds: DurationAboveZero | None = Field(default=None, alias="timeLimit")
    """A run ends after this time; left out: never."""
    priority: PriorityWord = "normal"
    """high, normal or low."""
    checkpoint_size_bytes: Memory = Field(default=100 * 2**30, alias="checkpointSize")
    """Size of a checkpoint's claim."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables that a run may overrule."""
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
    network: NetworkAccess = NetworkAccess()
    """By whom a run may let itself be reached, and where it may go, at most."""


class Ceilings(Document):
    """Upper limits. A run above one of them is refused."""

    member: MemberCeilings = MemberCeilings()
    run: RunCeilings = RunCeilings()


class Images(Document):
    """Which images may run, and how they are fetched."""

    allow: list[str] = Field(default_factory=list)
    """Patterns; an image must match one of them, where there are any. `*` stands for any text, slashes too. A pattern
    is compared with the image as it was written and in full (`docker.io/library/python:3.11`)."""
    deny: list[str] = Field(default_factory=list)
    """Patterns of images that are refused, even if they are allowed above."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    """Left empty, Kubernetes' own rule holds: Always for the tag latest."""
    pull_secrets: list[ObjectName] = Field(default_factory=list)
    """Names of Secrets in the run's namespace."""


class Inject(Document):
    """What is added to every member."""

    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[LabelKey, Text] = Field(default_factory=dict)
    """Annotations."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables that a run cannot overrule. Written as Kubernetes reads them: `$(NAME)` is replaced."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: list[Toleration] = Field(default_factory=list)
    """Taints that members are placed in spite of."""
    runtime_class: ObjectName | None = None
    """The RuntimeClass that runs them."""
    scheduler_name: ObjectName | None = None
    """Who binds members to the nodes that were planned; left out: the cluster's default scheduler."""
    resources: dict[LabelKey, Annotated[str, Field(json_schema_extra=ANY_NUMBER)]] = Field(default_factory=dict)
    """Further resources, such as hugepages-1Gi: 4Gi; requested and limited alike."""

    @field_validator("resources")
    @classmethod
    def _amounts(cls, resources: dict[str, str]) -> dict[str, str]:
        return _checked_amounts(resources)


class Security(Document):
    """What a member's processes may do."""

    allow_root: bool = False
    """Whether a program may run as uid 0. If not, an image whose user is root does not start."""
    allow_privileged: bool = False
    """Whether a program may have all of its node's devices and rights."""
    allow_host_network: bool = False
    """Whether members may share the network of their node."""
    allow_secrets: list[str] = Field(default_factory=lambda: ["*"])
    """Patterns of the Secrets of a run's namespace that it may use. Whoever may create Runs there can read these."""
    refuse_tolerations: list[str] = Field(
        default_factory=lambda: [
            "node-role.kubernetes.io/*",
            "node.kubernetes.io/*",
            "node.cloudprovider.kubernetes.io/*",
            f"{GROUP}/*",
        ]
    )
    """Patterns of taints that a run's own tolerations may not name: those of control planes, and those that say how a
    node is today, ours among them."""
    default_user: User | None = None
    """uid or uid:gid where a run names none; left out: the image's."""
    allow_privilege_escalation: bool = False
    """Whether setuid programs such as sudo work."""
    drop_capabilities: list[str] = Field(default_factory=lambda: ["ALL"])
    """Capabilities that are taken away."""
    add_capabilities: list[str] = Field(default_factory=list)
    """Such as IPC_LOCK for RDMA."""
    seccomp_profile: Literal["RuntimeDefault", "Unconfined", ""] = "RuntimeDefault"
    """Left empty: the node's own."""
    read_only_root: bool = False
    """Whether the image's own files cannot be written."""
    fs_group: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """The group that owns the files of mounted volumes."""


class Gpu(Document):
    """How GPUs are found and named."""

    resource: LabelKey = GPU_RESOURCE
    """What Kubernetes calls them."""
    type_labels: list[LabelKey] = Field(
        default_factory=lambda: ["kajitori.dev/gpu-type", "nvidia.com/gpu.product", "amd.com/gpu.product-name"]
    )
    """Labels of a node that tell its GPUs' type; the first that a node has counts."""
    types: dict[str, list[str]] = Field(
        default_factory=lambda: {
            "b200": ["*B200*"],
            "h200": ["*H200*"],
            "h100": ["*H100*"],
            "a100": ["*A100*"],
            "l40s": ["*L40S*"],
            "l4": ["*-L4", "L4"],
            "a10": ["*-A10", "A10", "*-A10G", "A10G"],
            "v100": ["*V100*"],
            "t4": ["*-T4", "T4"],
        }
    )
    """Friendly names, each with the patterns of what such labels say; the first that matches counts. A product without
    one is called by its own name in lower case, without the vendor's."""
    cpu_runs_on_gpu_nodes: Literal["never", "whenNoOthers", "always"] = "whenNoOthers"
    """Whether runs without GPUs may take a node that has some. whenNoOthers: only if the cluster has no other nodes."""
    tolerations: list[Toleration] = Field(
        default_factory=lambda: [Toleration(key=GPU_RESOURCE, operator="Exists", effect="NoSchedule")]
    )
    """Taints of GPU nodes that runs with GPUs are placed in spite of."""
    resources: dict[LabelKey, str] = Field(default_factory=dict)
    """Further resources of members with GPUs, such as rdma/hca: 1; requested and limited alike."""

    @field_validator("resources")
    @classmethod
    def _amounts(cls, resources: dict[str, str]) -> dict[str, str]:
        return _checked_amounts(resources)

    def type_of(self, labels: Mapping[str, str]) -> str:
        """The friendly name of the GPU type of a node with these labels; empty if none of them tells."""
        product = next((labels[key] for key in self.type_labels if labels.get(key)), "")
        folded = product.casefold()
        for name, patterns in self.types.items():
            if folded == name.casefold() or any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns):
                return name
        plain = re.sub(r"[^a-z0-9.]+", "-", folded).strip("-.")
        return re.sub(r"^(nvidia|amd|tesla|intel)-+", "", plain)


class Priority(Document):
    """What a priority word means."""

    value: int = Field(ge=-1_000_000, le=1_000_000)
    """Higher goes first."""
    class_name: ObjectName = PRIORITY_CLASS
    """The PriorityClass of its Pods. It must have preemptionPolicy Never: who gives way is decided gang by gang."""


def _priorities() -> dict[PriorityWord, Priority]:
    return {"high": Priority(value=100), "normal": Priority(value=0), "low": Priority(value=-100)}


class Nfs(Document):
    """A folder of a file server."""

    server: Annotated[str, Field(min_length=1, max_length=253)]
    """Its host name."""
    path: AbsolutePath
    """The exported folder."""


class EmptyFolder(Document):
    """An empty folder of each member's own, gone with it."""

    size_bytes: Memory | None = Field(default=None, alias="size")
    """A member that writes more is evicted."""
    memory: bool = False
    """In memory, counted against the member's own."""


class Volume(Document):
    """A volume that people may mount by name: exactly one source."""

    claim: ObjectName | None = None
    """A PersistentVolumeClaim of the run's namespace."""
    host_path: AbsolutePath | None = None
    """A folder of the node."""
    nfs: Nfs | None = None
    """A folder of a file server."""
    config_map: ObjectName | None = None
    """A ConfigMap of the run's namespace."""
    secret: ObjectName | None = None
    """A Secret of the run's namespace."""
    empty_dir: EmptyFolder | None = None
    """An empty folder of each member's own, gone with it."""
    read_only: bool = False
    """Whoever mounts it cannot write."""
    sub_path: str | None = Field(default=None, min_length=1, max_length=1024)
    """Only this folder of it."""

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        sources = (self.claim, self.host_path, self.nfs, self.config_map, self.secret, self.empty_dir)
        if sum(source is not None for source in sources) != 1:
            raise FieldError("a volume has exactly one source", "claim, hostPath, nfs, configMap, secret or emptyDir")
        if self.sub_path is not None and (self.sub_path.startswith("/") or ".." in self.sub_path.split("/")):
            raise FieldError(f"subPath {self.sub_path!r:.80} leaves the volume", "write a plain relative path")
        return self


class Mounts(Document):
    """What else people may mount."""

    host_paths: list[AbsolutePath] = Field(default_factory=list)
    """Folders of the nodes that may be mounted, with all below them. Whoever can make symbolic links there can reach
    whatever they point to."""
    own_path_only: bool = False
    """The nodes cannot mount anything: a folder works at its own path only (`-v $PWD:$PWD`), all else is refused."""


class CheckpointPolicy(Document):
    """Where checkpoints lie."""

    kind: Literal["claim", "folder", "none"] = "claim"
    """claim: a PersistentVolumeClaim of each run. folder: a folder under root on the node or on a file system that all
    nodes share. none: there are no checkpoints here."""
    storage_class: ObjectName | None = None
    """Left out: the cluster's default."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"] = "ReadWriteMany"
    """All members of a gang see the same checkpoint: ReadWriteMany, unless every gang has one member or one node."""
    root: AbsolutePath | None = None
    """For kind folder: a run's checkpoint lies at {root}/{namespace}/{run}."""
    deletable: bool = False
    """For kind folder: the controller sees the same folder and may delete checkpoints in it, as `kaji rm -v` asks for.
    Otherwise they are deleted by hand."""

    @model_validator(mode="after")
    def _folder_needs_root(self) -> CheckpointPolicy:
        if self.kind == "folder" and self.root is None:
            raise FieldError("kind folder needs root", "name a folder that exists on every node")
        return self


class Starting(Document):
    """How members start: what gets them ready, how long that may take, and what follows if it takes longer."""

    image: Image | None = None
    """Kajitori's own image. Members of a gang begin with a short step in it, which asks the Web API for the addresses
    of all, so that they find the hostfile that KAJI_HOSTS names, and each other by name. Left out: no such step and no
    hostfile. `kaji up` on its own cluster fills in this and server."""
    server: ServerUrl | None = None
    """Where members reach the Web API, such as http://kajitori.kajitori.svc:8600."""
    server_ca: Annotated[str, Field(max_length=64 * 1024)] | None = Field(default=None, alias="serverCA")
    """For an https server: the certificates of who vouches for it, as PEM. Left out: whom the image trusts."""

    deadline_seconds: DurationAboveZero = Field(default=600, alias="deadline")
    """An attempt whose members do not all run by then is taken down, and its nodes are free again."""
    pause_seconds: DurationAboveZero = Field(default=10, alias="pause")
    """Until the next attempt after a failed start; doubled with each further one in a row."""
    longest_pause_seconds: DurationAboveZero = Field(default=600, alias="longestPause")
    """The pause does not grow beyond this."""
    restart_grace_seconds: Duration = Field(default=5, alias="restartGrace")
    """What the survivors of a broken gang get between SIGTERM and SIGKILL."""

    @field_validator("server_ca")
    @classmethod
    def _is_pem(cls, pem: str | None) -> str | None:
        if pem is None:
            return None
        try:
            ssl.create_default_context(cadata=pem)
        except (ssl.SSLError, ValueError) as error:
            hint = "write the certificate of the authority as PEM: -----BEGIN CERTIFICATE----- and so on"
            raise FieldError("this is no certificate", hint) from error
        return pem

    @model_validator(mode="after")
    def _authority_of_https(self) -> Starting:
        if self.server_ca is not None and not (self.server or "").startswith("https:"):
            raise FieldError("serverCA is for an https server", "give server as https://…, or leave serverCA out")
        return self

    @model_validator(mode="after")
    def _image_and_server(self) -> Starting:
        if (self.image is None) != (self.server is None):
            raise FieldError("image and server go together", "give both, or neither")
        return self


class Binding(Document):
    """Who puts a member on the node that was planned for it."""

    bind: Literal["scheduler", "direct"] = "scheduler"
    """scheduler: kube-scheduler, pinned to that node. direct: the node's name stands in the Pod; quicker, and right for
    nodes that only Kajitori fills."""
    directly_on: list[dict[LabelKey, LabelValue]] = Field(default_factory=list)
    """Node pools, each by its labels, where members are bound directly whatever `bind` says."""

    def binds_directly(self, labels: Mapping[str, str]) -> bool:
        """Whether members are bound directly on a node with these labels."""
        if self.bind == "direct":
            return True
        return any(pool and all(labels.get(key) == value for key, value in pool.items()) for pool in self.directly_on)


class Rendezvous(Document):
    """Ports on which the members of a gang find each other; each attempt gets one of its own."""

    first_port: Port = 20000
    """The first of the range."""
    last_port: Port = 29999
    """The last of the range."""

    @field_validator("last_port")
    @classmethod
    def _upwards(cls, last: int, info: ValidationInfo) -> int:
        if last < info.data.get("first_port", last):
            raise FieldError(f"lastPort {last} is below firstPort", "widen the range")
        return last


class StoredCode(Document):
    """What people may bring along with `--code`."""

    archive_bytes: Memory = Field(default=2**30, alias="archive")
    """The largest folder, packed and before it is compressed."""
    namespace_bytes: Memory | None = Field(default=100 * 2**30, alias="perNamespace")
    """What the code of a namespace takes in the store, compressed; null: not limited. Code that no run refers to does
    not stay."""


class Logs(Document):
    """What is kept of what members said once their Pods are gone, for as long as their run exists."""

    members: int = Field(default=16, ge=0, le=1000)
    """Of how many members of one attempt: rank 0, then those that failed, the lowest ranks first. 0 keeps nothing."""
    per_member_bytes: Memory = Field(default=2**20, alias="perMember")
    """The end of each log, in whole lines."""
    attempts: int = Field(default=10, ge=1, le=1000)
    """Of how many attempts of a run, the latest."""
    keep_for_seconds: DurationAboveZero = Field(default=30 * 86400, alias="keepFor")
    """A log that is older goes, though its run is still there."""


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
            raise FieldError(message, "whoever has the higher value goes first, and low ones give way to him")
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

    def refuses_image(self, image: str) -> str:
        """Why this image may not run; empty if it may."""
        forms = {image, full_image_name(image)}
        for pattern in self.images.deny:
            if any(fnmatchcase(form, pattern) for form in forms):
                return f"images like {pattern} are refused"
        allowed = self.images.allow
        if allowed and not any(fnmatchcase(form, pattern) for form in forms for pattern in allowed):
            return "only some images are allowed"
        return ""


def _is_above(value: int | None, limit: int | None) -> bool:
    return value is not None and limit is not None and value > limit


def full_image_name(image: str) -> str:
    """The image as Docker completes it, with registry, path and tag: `docker.io/library/python:latest` for `python`."""
    first, slash, _ = image.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        image = f"docker.io/{image}" if slash else f"docker.io/library/{image}"
    if "@" not in image and ":" not in image.rsplit("/", 1)[-1]:
        image += ":latest"
    return image


def _checked_amounts(resources: dict[str, Any]) -> dict[str, Any]:
    for name, amount in resources.items():
        if name in ("cpu", "memory"):
            raise FieldError(f"{name} is not added to what a run asks for", "use defaults or ceilings")
        parse_memory_bytes(amount)
    return resources
