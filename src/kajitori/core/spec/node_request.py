"""What a waiting run asked an autoscaler for, as its status keeps it; and how that is told."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from kajitori.core.words.quantities import format_duration
from kajitori.core.words.times import parse_time


class RequestState(StrEnum):
    """How a request for nodes stands."""

    ASKED = "Asked"
    ACCEPTED = "Accepted"
    PROVISIONED = "Provisioned"
    DELIVERED = "Delivered"
    """Its nodes came, and were not enough: others had taken meanwhile what was free when it was made."""
    FAILED = "Failed"
    WITHDRAWN = "Withdrawn"
    UNAVAILABLE = "Unavailable"
    """It could not be made: the cluster does not know such requests, or lets us make none."""


_LIVE = frozenset({RequestState.ASKED, RequestState.ACCEPTED, RequestState.PROVISIONED})


class NodeRequest(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The last request for nodes that a run made while it waited; written before the ProvisioningRequest is made."""

    pool: str
    nodes: int
    """How many new nodes the pool is to get."""
    attempt: int
    """The attempt that they are for."""
    number: int = 0
    """Counts the requests for this attempt; none was made yet at 0."""
    shape: str = ""
    """Stands for what was asked: another is asked for where this differs."""
    state: RequestState = RequestState.ASKED
    since: str = ""
    """When it came to that."""
    message: str = ""
    """The autoscaler's own words, or what else is to be said of the state."""
    first_asked_at: str = ""
    """When the first of those requests was made whose nodes are kept for the run; asked_at is this one's."""
    asked_at: str = ""
    granted: int = 0
    """Nodes that earlier requests brought, and that are kept for the run, too."""
    failures: int = 0
    """In a row."""
    not_before: str = ""
    """After a failure: no other is made before this time."""

    @property
    def is_live(self) -> bool:
        """Whether its ProvisioningRequest is to exist."""
        return self.state in _LIVE


def says(request: NodeRequest, now: datetime | None = None) -> str:
    """A request in words; with `now`, how long ago instead of when. Nothing where nothing is to be said."""
    nodes = f"{request.nodes} {'node' if request.nodes == 1 else 'nodes'} of pool {request.pool}"
    own = f": {request.message}" if request.message else ""
    if request.state is RequestState.UNAVAILABLE:
        return f"pool {request.pool} could grow by {request.nodes} for it, but {request.message}"
    if request.state is RequestState.FAILED:
        again = _when(request.not_before, now)
        return f"{nodes} were asked for, in vain{own}" + (f"; asked again {again}" if again else "")
    if not request.is_live:
        return ""
    state = {
        RequestState.ASKED: "no answer yet",
        RequestState.ACCEPTED: "accepted, provisioning",
        RequestState.PROVISIONED: "provisioned, waiting for the nodes to be ready",
    }[request.state]
    return f"asked for {nodes} {_when(request.asked_at, now)}: {state}{own}"


def _when(text: str, now: datetime | None) -> str:
    moment = parse_time(text)
    if moment is None:
        return ""
    if now is None:
        return f"at {moment:%H:%M:%S} UTC"
    seconds = round((moment - now) / timedelta(seconds=1))
    return f"in {format_duration(seconds)}" if seconds > 0 else f"{format_duration(-seconds)} ago"
