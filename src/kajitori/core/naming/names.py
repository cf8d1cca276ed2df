"""All names of Kajitori's labels, annotations, taints and objects in Kubernetes."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

GROUP = "kajitori.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "Run"
PLURAL = "runs"

LABEL_RUN = f"{GROUP}/run"
LABEL_RUN_UID = f"{GROUP}/run-uid"
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_RANK = f"{GROUP}/rank"
LABEL_WHOLE_NODE = f"{GROUP}/whole-node"  # "true" on a member that shares its node with no other run
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "kajitori"
MANAGED = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
"""Label selector of the objects that Kajitori created."""

ANNOTATION_OWNER = f"{GROUP}/owner"
"""On a Run and its Pods: the user who submitted it, as authenticated by the API server
(`core.admission.owner_policy`)."""
ANNOTATION_RESTORED = f"{GROUP}/restored-from"
"""The UID that a run had in the backup from which it was restored. A restored run waits until it has a status."""
ANNOTATION_SUBMITTED_AT = f"{GROUP}/submitted-at"
"""On a Run: the time of its submission to the Web API in microseconds. The API server's creation time has seconds
only."""
ANNOTATION_NOTE = f"{GROUP}/note"
"""On a Run: the note that people wrote about it (`core.spec.note`)."""
ANNOTATION_DELETE_CHECKPOINT = f"{GROUP}/delete-checkpoint"
"""On a Run: `true` if its checkpoint folder is deleted with it, provided that the policy allows this."""
ANNOTATION_NETWORK = f"{GROUP}/network"
"""On Pods of a run with restricted network access: a description of the restrictions."""
ANNOTATION_ISOLATION = f"{GROUP}/isolation"
"""On Pods of a run without any network access (`--network none`): LOOPBACK or MEMBERS. NetworkPolicies have no effect
on a node that runs plain processes, so its kubelet isolates such Pods itself or refuses them."""
ANNOTATION_NETWORKS = f"{GROUP}/networks"
"""On Pods of a run that is in networks (`spec.networks`): the Services of these networks, with commas between them. A
kubelet of Kajitori's own writes the names in them to the Pod's /etc/hosts."""
ANNOTATION_NETWORK_NAME = f"{GROUP}/network-name"
"""On the Service of a network: the network's name, as users write it."""
ANNOTATION_NOTEBOOK_PORT = f"{GROUP}/notebook-port"
"""On a notebook's Pod: the port at which its program expects the notebook's token."""
ANNOTATION_TENSORBOARD = f"{GROUP}/tensorboard"
"""On a member's Pod: the folder in which its program writes TensorBoard's event files."""
ISOLATION_LOOPBACK = "loopback"
"""The member needs no other member: its program may have the loopback interface only."""
ISOLATION_MEMBERS = "members"
"""The member has to reach the run's other members, and nothing else."""
ANNOTATION_SIGNATURE = f"{GROUP}/signature"
"""On a member's Pod: the signed UID of its run (`core.pods.tickets.sign_member`)."""
ANNOTATION_GPU_REQUEST = f"{GROUP}/gpu-request"
"""On Pods of a run that do not ask for GPUs by the policy's resource alone: number and type of each member's GPUs, such
as `2 h100-mig-1g.10gb`. Whole GPUs of any type have a number only."""
ANNOTATION_DRAIN = f"{GROUP}/drain"
"""On a cordoned Node that is drained of runs: the user who asked for it, and the reason."""
ANNOTATION_DRAINS = f"{GROUP}/drains"
"""On a Node: the history of its drains and returns by users, as `core.nodes.trail` writes it."""
ANNOTATION_HEALTH = f"{GROUP}/health"
"""On a Node: the history of leaving and rejoining the pool, as `core.nodes.trail` writes it."""
ANNOTATION_TEST_WANTED = f"{GROUP}/test-wanted"
"""On a Node and the Run that tests it: who asked for the test. It is removed from the Node after the test."""
ANNOTATION_TESTED_NODE = f"{GROUP}/tested-node"
"""On a Run in the namespace of tests: the node that it tests."""
TAINT_UNHEALTHY = f"{GROUP}/unhealthy"
"""On a Node that is out of the pool. Its value is a short reason."""
TAINT_PREFLIGHT = f"{GROUP}/preflight"
"""On a Node that must be tested before it gets work, unless the policy names another taint."""
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
"""All effects that a taint of a Node can have."""
ANNOTATION_SECRET_KEYS = f"{GROUP}/keys"
"""On a Secret created by the Web API: its keys, so that they can be listed without reading its values."""
ANNOTATION_FILES_READ = f"{GROUP}/files-read"
"""On a Run: the time of the last request for files of its checkpoint folder. While it is recent, there is a Pod that
reads the folder."""
LABEL_READER = f"{GROUP}/reader-of"
"""On the Pod that reads the checkpoint folder of a run: the run's name."""
FINALIZER = f"{GROUP}/members"
FINALIZER_EXIT_CODE = f"{GROUP}/exit-code"
"""On the Pod of rank 0 of a run that is being stopped, until the exit code of its program is in the run's status."""
CONDITION_MEMORY_PEAK = f"{GROUP}/memory-peak"
"""Condition of a Pod that has ended on a process kubelet: the peak memory of each container in bytes, as
`main=1048576`."""

NAMESPACE = "kajitori"
"""Namespace of the controllers' Lease, and of test runs unless the policy names another one."""
AGENT_ACCOUNT = f"{NAMESPACE}-agents/kajitori-agent"
"""Default service account of node agents, `namespace/name`."""

GPU_RESOURCE = "nvidia.com/gpu"

PRIORITY_CLASS = "kajitori"
"""PriorityClass of members' Pods, unless the policy names another one. An API server accepts a Pod with
`preemptionPolicy: Never` only with a PriorityClass that has the same value (rule 5)."""

LABEL_MESSAGES = f"{GROUP}/messages"
"""On a Secret in the namespace of messages: MESSAGE_CHANNELS or MESSAGE_OUTBOX."""
MESSAGE_CHANNELS = "channels"
MESSAGE_OUTBOX = "outbox"
ANNOTATION_RECIPIENT = f"{GROUP}/recipient"
"""On such a Secret: `person/NAME` or `team/NAMESPACE`."""
ANNOTATION_MESSAGE_TESTS = f"{GROUP}/tests"
"""On a Secret with channels: tests that were asked for, as JSON: a token by channel."""


def messages_namespace(namespace: str = NAMESPACE) -> str:
    """Return the namespace of channels and outboxes, given the namespace of the controllers' Lease. Only the Web API
    and the controllers have rights there."""
    return f"{namespace}-messages"


TICKETS_SECRET = "kajitori-tickets"
"""Secret with the key of tickets, in the namespace of the controllers' Lease."""

MEMBER_CONTAINER = "main"
"""Container of a member's Pod that runs the user's program."""

RUN_NAME_MAX_LENGTH = 48
"""Maximum length of a run's name, so that `{run}-{attempt}-{rank}` is a valid host name (63 characters) for 99,999
attempts of 99,999 members."""


_POD_NAME = re.compile(r"(.+)-(0|[1-9][0-9]*)-(0|[1-9][0-9]*)")


def account_of(owner: str, namespace: str) -> str:
    """Return the account that a run's usage counts for: its owner, or one for all runs without owner of a namespace."""
    return owner or f"{namespace}/"


def is_ownerless(account: str) -> bool:
    """Whether an account is for runs without an owner."""
    return account.endswith("/")


def pod_name(run: str, attempt: int, rank: int) -> str:
    """Return the Pod and host name of a member. It contains the attempt, so that attempts are never confused."""
    return f"{run}-{attempt}-{rank}"


class MemberName(NamedTuple):
    """The parts of a member's Pod name."""

    run: str
    attempt: int
    rank: int


def read_pod_name(name: str) -> MemberName | None:
    """Parse the Pod name of a member; None if it is not one."""
    found = _POD_NAME.fullmatch(name)
    return MemberName(found[1], int(found[2]), int(found[3])) if found else None


def member_labels(run: str, run_uid: str, attempt: int, rank: int) -> dict[str, str]:
    """Return the labels that identify a member's Pod."""
    return {
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_RUN: run,
        LABEL_RUN_UID: run_uid,
        LABEL_ATTEMPT: str(attempt),
        LABEL_RANK: str(rank),
    }


NETWORK_PREFIX = "kaji-net-"


def network_service(network: str) -> str:
    """Return the name of a network's Service. It is longer than the name of any run, so no run's Service has it."""
    return f"{NETWORK_PREFIX}{sha256(network.encode()).hexdigest()[:RUN_NAME_MAX_LENGTH]}"


def read_gpus(written: str) -> tuple[int, str]:
    """Read ANNOTATION_GPU_REQUEST: number and type of GPUs; zero if it is unreadable."""
    count, _, gpu_type = written.partition(" ")
    return (int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 0), gpu_type


def claim_template(run: str, digest: str) -> str:
    """Return the name of the ResourceClaimTemplate for GPUs of a run. The digest of the run's UID and of the
    template's content makes it another one for an attempt that needs other GPUs."""
    return f"{run}-gpu-{digest}"


def checkpoint_claim(run: str) -> str:
    """Return the name of the PersistentVolumeClaim of a run's checkpoint. It outlives the run, so that a later run with
    the same name can resume."""
    return f"{run}-checkpoint"
