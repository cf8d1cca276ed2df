"""Answers about this server and the controllers."""

from __future__ import annotations

import msgspec

from kajitori.api.views.base import View
from kajitori.core.leadership import LeaderState


class ControllerView(View):
    """Whether a controller is at work. Without one, runs neither start nor stop."""

    leader: str
    """Holder of the controllers' Lease; empty if there is none."""
    age_seconds: float | None
    """Time since this server last saw the Lease change; null if that is not known."""
    absent: bool
    """Whether the Lease was not renewed for so long that no controller can be at work."""
    says: str
    """Description of the problem; empty if there is none."""


class Version(View):
    """Versions of this server and of Kubernetes, and who the caller is."""

    version: str
    kubernetes: str
    user: str
    controller: ControllerView


class HistoryView(View):
    """How current history is."""

    behind_seconds: float | None
    """Time since history last lacked nothing; up to 25 while all is well; null if that is not known."""
    says: str
    """Description of the problem; empty if there is none."""


class Health(View):
    """This server works."""

    status: str
    controller: ControllerView | msgspec.UnsetType = msgspec.UNSET
    """The state of the controllers; absent in answers that do not depend on the cluster."""
    history: HistoryView | msgspec.UnsetType = msgspec.UNSET
    """How current history is; absent if this server has none. It does not decide whether this server is ready."""


def controller_view(state: LeaderState) -> ControllerView:
    """Return the view of the controllers' state."""
    age = None if state.age_seconds is None else round(state.age_seconds, 1)
    return ControllerView(leader=state.holder, age_seconds=age, absent=state.is_absent, says=state.says)
