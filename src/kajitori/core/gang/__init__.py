"""The life of a run: pure functions of its stored status, the observed members and the time.

Begin with `life.next_step`.

types         members as observed, limits, and the actions that come out
life          the rules that hold for every type of run
batch         members start together and stop together
service       members live independently
sweeps        members are independent, and each ends by itself
dependencies  runs that have to end before this one starts
preemption    a run that other runs preempt
growing       an elastic gang that continues with another size
membership    which Pods count as members
sweep_ledger  the progress of a sweep's members
holding       which members hold their nodes, for the usage ledger
memory        peak memory of runs
restoring     the status of a run that is restored from a backup
status        changes of a status that several types share: progress, notes on members, health, preemptions, blamed
              nodes
"""

from kajitori.core.gang.batch import failed_to_create
from kajitori.core.gang.dependencies import find_cycle, has_to_see, wait_for_runs, waits_for_others, why_never
from kajitori.core.gang.growing import grow
from kajitori.core.gang.life import ends_survivors, next_step
from kajitori.core.gang.preemption import preempt
from kajitori.core.gang.status.preemptions import preemptions_of
from kajitori.core.gang.status.progress import (
    already_says,
    keep_waiting,
    node_by_rank,
    place_on,
    refuse,
    run_without_spec,
    waiting_reason,
)
from kajitori.core.gang.sweeps.sweep import (
    failed_to_create_in_sweep,
    has_lost_ledger,
    place_sweep,
    with_succeeded,
    without_uncreated,
)
from kajitori.core.gang.types import (
    Action,
    Awaited,
    CreateMembers,
    DeleteMember,
    DeleteMembers,
    HealthPace,
    HoldMember,
    Limits,
    Member,
    MemberState,
    NeedsNodes,
    Release,
    ReleaseMember,
    Remove,
    Run,
    RunType,
    SeenRun,
    Step,
    Sweep,
)

__all__ = [
    "Action",
    "Awaited",
    "CreateMembers",
    "DeleteMember",
    "DeleteMembers",
    "HealthPace",
    "HoldMember",
    "Limits",
    "Member",
    "MemberState",
    "NeedsNodes",
    "Release",
    "ReleaseMember",
    "Remove",
    "Run",
    "RunType",
    "SeenRun",
    "Step",
    "Sweep",
    "already_says",
    "ends_survivors",
    "failed_to_create",
    "failed_to_create_in_sweep",
    "find_cycle",
    "grow",
    "has_lost_ledger",
    "has_to_see",
    "keep_waiting",
    "next_step",
    "node_by_rank",
    "place_on",
    "place_sweep",
    "preempt",
    "preemptions_of",
    "refuse",
    "run_without_spec",
    "wait_for_runs",
    "waiting_reason",
    "waits_for_others",
    "why_never",
    "with_succeeded",
    "without_uncreated",
]
