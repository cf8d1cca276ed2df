"""The names that Kajitori puts on Kubernetes objects: the only place that knows them."""

from __future__ import annotations

import re
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
LABEL_WHOLE_NODE = f"{GROUP}/whole-node"  # "true" on a member that wants no other member beside it
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "kajitori"

ANNOTATION_OWNER = f"{GROUP}/owner"
"""On a Run: who submitted it, as the API server authenticated him (`core.admission.owner_policy`). On its Pods: the
same."""
ANNOTATION_SUBMITTED_AT = f"{GROUP}/submitted-at"
"""When the Web API was asked for a Run, to the microsecond: the API server notes the second of its creation only."""
ANNOTATION_DELETE_CHECKPOINT = f"{GROUP}/delete-checkpoint"
"""`true` on a Run: the folder of its checkpoint goes with it, where policy lets the controller delete it."""
ANNOTATION_NETWORK = f"{GROUP}/network"
"""On Pods of a run that is restricted in who may reach it or where it may go: how, in words."""
ANNOTATION_SIGNATURE = f"{GROUP}/signature"
"""On a member's Pod: which run it was made for, signed (`core.pods.tickets.sign_member`)."""
ANNOTATION_DRAIN = f"{GROUP}/drain"
"""On a Node that takes nothing new: for whom it is emptied of runs."""
ANNOTATION_HEALTH = f"{GROUP}/health"
"""On a Node: how it left the pool and came back, as `core.nodes.trail` writes it."""
ANNOTATION_TEST_WANTED = f"{GROUP}/test-wanted"
"""On a Node: who wants it tested; taken away when the test has ended. On the Run that tests it: the same."""
ANNOTATION_TESTED_NODE = f"{GROUP}/tested-node"
"""On a Run in the namespace of tests: the node that it tests."""
TAINT_UNHEALTHY = f"{GROUP}/unhealthy"
"""On a Node that is out of the pool; its value is the reason in a word."""
TAINT_PREFLIGHT = f"{GROUP}/preflight"
"""On a Node that is to be tested before it takes work, unless policy names another."""
ANNOTATION_SECRET_KEYS = f"{GROUP}/keys"
"""On a Secret that the Web API made: its keys, so that they can be shown without its values."""
FINALIZER = f"{GROUP}/members"
CONDITION_MEMORY_PEAK = f"{GROUP}/memory-peak"
"""Of a Pod that has ended on a node whose kubelet is ours: the most that each container held, as `main=1048576`."""

NAMESPACE = "kajitori"
"""Of the controllers' Lease, and of the runs that test nodes unless policy names another."""
AGENT_ACCOUNT = f"{NAMESPACE}/kajitori-agent"
"""The service account of node agents, with its namespace."""

GPU_RESOURCE = "nvidia.com/gpu"

PRIORITY_CLASS = "kajitori"
"""The PriorityClass of every Pod of ours unless policy names another: without one that says `Never`, an API server
takes no Pod that says `preemptionPolicy: Never` (rule 5)."""

TICKETS_SECRET = "kajitori-tickets"
"""The Secret with the key of tickets, in the namespace of the controllers' Lease."""

MEMBER_CONTAINER = "main"
"""The one container of a member's Pod that runs the user's program."""

RUN_NAME_MAX_LENGTH = 48
"""So that `{run}-{attempt}-{rank}` stays a host name (63 characters) for 99,999 attempts of 99,999 members."""


_POD_NAME = re.compile(r"(.+)-(0|[1-9][0-9]*)-(0|[1-9][0-9]*)")


def account_of(owner: str, namespace: str) -> str:
    """The account that a run's usage counts for: its owner's, or one for all runs of its namespace without an owner."""
    return owner or f"{namespace}/"


def is_nobodys(account: str) -> bool:
    """Whether an account is that of runs without an owner."""
    return account.endswith("/")


def pod_name(run: str, attempt: int, rank: int) -> str:
    """The Pod (and host) name of a member: what belongs to attempt N is never taken for attempt N+1."""
    return f"{run}-{attempt}-{rank}"


class MemberName(NamedTuple):
    """Which member a Pod's name stands for."""

    run: str
    attempt: int
    rank: int


def read_pod_name(name: str) -> MemberName | None:
    """The member that a Pod's name stands for; None where it stands for none."""
    found = _POD_NAME.fullmatch(name)
    return MemberName(found[1], int(found[2]), int(found[3])) if found else None


def member_labels(run: str, run_uid: str, attempt: int, rank: int) -> dict[str, str]:
    """The labels by which a member's Pod is found."""
    return {
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_RUN: run,
        LABEL_RUN_UID: run_uid,
        LABEL_ATTEMPT: str(attempt),
        LABEL_RANK: str(rank),
    }


def checkpoint_claim(run: str) -> str:
    """The PersistentVolumeClaim of a run's checkpoint. It outlives the run, so that the next of that name resumes."""
    return f"{run}-checkpoint"
