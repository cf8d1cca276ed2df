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
from kajitori.core.gang.progress import (
    asks_of,
    is_told,
    keep_waiting,
    node_by_rank,
    outline,
    place_on,
    refuse,
    why_it_waits,
)
from kajitori.core.gang.sweep import lacks_its_ledger, made_in_part, place_sweep, sweep_refused, with_kept_results
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
from kajitori.core.gang.yielding import give_way

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
    "asks_of",
    "failed_to_create",
    "give_way",
    "grow",
    "is_told",
    "keep_waiting",
    "lacks_its_ledger",
    "made_in_part",
    "next_step",
    "node_by_rank",
    "outline",
    "place_on",
    "place_sweep",
    "refuse",
    "sweep_refused",
    "why_it_waits",
    "with_kept_results",
]
