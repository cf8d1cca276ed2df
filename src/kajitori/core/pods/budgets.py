"""PodDisruptionBudgets of runs: which members may be evicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kajitori.core.gang import Member
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus

_ALIVE = (Phase.STARTING, Phase.RUNNING, Phase.RESTARTING)


def budget_spec(
    run_type: Literal["batch", "service"],
    run_uid: str,
    status: RunStatus,
    members: Sequence[Member],
    *,
    has_health_check: bool = False,
) -> dict[str, Any] | None:
    """Return the spec of the budget that a run should have now; None if there is nothing to protect.

    No member of a gang may be evicted, nor a service's only member. A service with several members may lose one at a
    time. Members on cordoned nodes are excluded, so that `kubectl drain --delete-emptydir-data` succeeds there; the
    rest of the gang then ends together with the evicted member. The budget has an absolute number, because Kubernetes
    cannot read the desired number of members from a Run.

    Kubernetes counts only ready Pods as healthy. Without a health check, a Pod that runs and is not ready is on a node
    that failed: a drain does not have to wait for it. With one, it is a member whose check fails or has not succeeded
    yet. Of a gang, and as a service's only member, it is protected as if it were healthy; of a service with several
    members, it is the one that may go.
    """
    total = status.members.total
    if status.phase not in _ALIVE or not total:
        return None
    selector: dict[str, Any] = {"matchLabels": {names.LABEL_RUN_UID: run_uid}}
    protected = total - 1
    needs_all = run_type == "batch" or total == 1
    if needs_all:
        cordoned = sorted({member.rank for member in members if member.node_cordoned and not member.is_over})
        protected = total - len(cordoned)
        if cordoned:
            selector["matchExpressions"] = [
                {"key": names.LABEL_RANK, "operator": "NotIn", "values": [str(rank) for rank in cordoned]}
            ]
    if protected <= 0:
        return None
    evicts_unready = "IfHealthyBudget" if needs_all and has_health_check else "AlwaysAllow"
    return {"minAvailable": protected, "selector": selector, "unhealthyPodEvictionPolicy": evicts_unready}
