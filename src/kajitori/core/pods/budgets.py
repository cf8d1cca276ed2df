"""Which members of a run may be evicted: what its PodDisruptionBudget says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kajitori.core.gang import Member
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.words import names

_ALIVE = (Phase.STARTING, Phase.RUNNING, Phase.RESTARTING)


def budget_spec(
    run_type: Literal["batch", "service"], run_uid: str, status: RunStatus, members: Sequence[Member]
) -> dict[str, Any] | None:
    """The spec of the budget that a run should have now; None where there is nothing to protect.

    Of a gang nobody may be evicted, and neither who is alone; of a service one member after the other. Members on
    cordoned nodes are left out: there `kubectl drain` gets through, and the rest of the gang goes with the member that
    it evicts. A number of members is asked for, since Kubernetes can't ask a Run how many it wants.
    """
    total = status.members.total
    if status.phase not in _ALIVE or not total:
        return None
    selector: dict[str, Any] = {"matchLabels": {names.LABEL_RUN_UID: run_uid}}
    protected = total - 1
    if run_type == "batch" or total == 1:
        cordoned = sorted({member.rank for member in members if member.node_cordoned and not member.is_over})
        protected = total - len(cordoned)
        if cordoned:
            selector["matchExpressions"] = [
                {"key": names.LABEL_RANK, "operator": "NotIn", "values": [str(rank) for rank in cordoned]}
            ]
    if protected <= 0:
        return None
    # A Pod that runs but is not ready is on a node that broke down: a drain does not wait for it.
    return {"minAvailable": protected, "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
