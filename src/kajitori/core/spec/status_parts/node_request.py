"""The request of a waiting run to an autoscaler, as the run's status stores it, and its description for users."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from kajitori.core.formats.quantities import format_duration
from kajitori.core.formats.times import parse_time


class RequestState(StrEnum):
    """State of a request for nodes."""

    ASKED = "Asked"
    ACCEPTED = "Accepted"
    PROVISIONED = "Provisioned"
    DELIVERED = "Delivered"
    """Its nodes joined but were not enough, because other runs took capacity that was free when it was made."""
    FAILED = "Failed"
    WITHDRAWN = "Withdrawn"
    UNAVAILABLE = "Unavailable"
    """It could not be created: the cluster has no ProvisioningRequests, or does not allow Kajitori to create them."""


_LIVE = frozenset({RequestState.ASKED, RequestState.ACCEPTED, RequestState.PROVISIONED})


class NodeRequest(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    """The latest request for nodes of a waiting run. It is stored before the ProvisioningRequest is created."""

    pool: str
    nodes: int
    """Number of new nodes that the pool should get."""
    attempt: int
    """Attempt that the nodes are for."""
    number: int = 0
    """Number of the request for this attempt, counted from 1; 0 if there is none yet."""
    shape: str = ""
    """Fingerprint of what was requested. If it changes, a new request replaces this one."""
    state: RequestState = RequestState.ASKED
    since: str = ""
    """Time at which the request reached its state."""
    message: str = ""
    """The autoscaler's message, or another explanation of the state."""
    first_asked_at: str = ""
    """Time of the earliest request that still has nodes reserved for the run."""
    asked_at: str = ""
    """Time of this request."""
    granted: int = 0
    """Number of nodes that earlier requests added and that are reserved for the run as well."""
    failures: int = 0
    """Number of failures in a row."""
    not_before: str = ""
    """After a failure: time before which no other request is made."""

    @property
    def is_live(self) -> bool:
        """Whether the ProvisioningRequest should exist."""
        return self.state in _LIVE


def describe_request(request: NodeRequest, now: datetime | None = None) -> str:
    """Return a sentence about a request; empty if there is nothing to report. With `now`, times are relative to it."""
    nodes = f"{request.nodes} {'node' if request.nodes == 1 else 'nodes'} of pool {request.pool}"
    own = f": {request.message}" if request.message else ""
    if request.state is RequestState.UNAVAILABLE:
        return f"pool {request.pool} could grow by {request.nodes} for it, but {request.message}"
    if request.state is RequestState.FAILED:
        again = _format_when(request.not_before, now)
        return f"the request for {nodes} failed{own}" + (f"; next request {again}" if again else "")
    if not request.is_live:
        return ""
    state = {
        RequestState.ASKED: "no answer yet",
        RequestState.ACCEPTED: "accepted, provisioning",
        RequestState.PROVISIONED: "provisioned, waiting for the nodes to be ready",
    }[request.state]
    return f"requested {nodes} {_format_when(request.asked_at, now)}: {state}{own}"


def _format_when(text: str, now: datetime | None) -> str:
    """Return a time as `at 10:00:00 UTC`, or relative to `now` as `in 5m` or `5m ago`; empty without a time."""
    moment = parse_time(text)
    if moment is None:
        return ""
    if now is None:
        return f"at {moment:%H:%M:%S} UTC"
    seconds = round((moment - now) / timedelta(seconds=1))
    return f"in {format_duration(seconds)}" if seconds > 0 else f"{format_duration(-seconds)} ago"
