"""PodDisruptionBudgets of runs: which members may be evicted."""

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
    """Return the spec of the budget that a run should have now; None if there is nothing to protect.

    No member of a gang may be evicted, nor a service's only member. A service with several members may lose one at a
    time. Members on cordoned nodes are excluded, so that `kubectl drain --delete-emptydir-data` succeeds there; the
    rest of the gang then ends together with the evicted member. The budget has an absolute number, because Kubernetes
    cannot read the desired number of members from a Run.
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
    # A Pod that runs but is not ready is on a node that failed: a drain does not have to wait for it.
    return {"minAvailable": protected, "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
