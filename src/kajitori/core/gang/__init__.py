"""The life of a run, as functions of what is written, what is seen, and the time.

types     members as they are seen, limits, the actions that come out
life      next_step: what holds for every type of run
batch     members start together and stop together
service   members live each on its own
sweep     members are independent, and each ends by itself
judgement how a sweep's members ended, as far as that is seen
ledger    how a sweep's members stand
yielding  a run that is asked to give way
growing   an elastic gang that goes on with another size
progress  how a status changes
"""

from kajitori.core.gang.batch import failed_to_create
from kajitori.core.gang.growing import grow
from kajitori.core.gang.life import next_step
from kajitori.core.gang.preemption import preempt
from kajitori.core.gang.progress import (
    already_says,
    keep_waiting,
    node_by_rank,
    place_on,
    preemptions_of,
    refuse,
    run_without_spec,
    waiting_reason,
)
from kajitori.core.gang.sweep import (
    failed_to_create_in_sweep,
    has_lost_ledger,
    place_sweep,
    with_succeeded,
    without_uncreated,
)
from kajitori.core.gang.types import (
    Action,
    CreateMembers,
    DeleteMember,
    DeleteMembers,
    Limits,
    Member,
    MemberState,
    NeedsNodes,
    Release,
    Remove,
    Run,
    Step,
    Sweep,
)

__all__ = [
    "Action",
    "CreateMembers",
    "DeleteMember",
    "DeleteMembers",
    "Limits",
    "Member",
    "MemberState",
    "NeedsNodes",
    "Release",
    "Remove",
    "Run",
    "Step",
    "Sweep",
    "already_says",
    "failed_to_create",
    "failed_to_create_in_sweep",
    "grow",
    "has_lost_ledger",
    "keep_waiting",
    "next_step",
    "node_by_rank",
    "place_on",
    "place_sweep",
    "preempt",
    "preemptions_of",
    "refuse",
    "run_without_spec",
    "waiting_reason",
    "with_succeeded",
    "without_uncreated",
]
