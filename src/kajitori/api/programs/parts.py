"""The state of the proxy for runs' programs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kajitori.api.programs.connections import Connections, Duplex
from kajitori.api.programs.visits import Visits
from kajitori.core.proxy.addresses import ProgramOrigins
from kajitori.kube.client import KubeClient

OpenPort = Callable[[KubeClient, str, str, int], Awaitable[Duplex]]
"""Connects to a port of a Pod with a caller's client: namespace, Pod, port."""

QUIET_SECONDS = 1800.0
"""A person who sent a program no request for this long begins a new visit, which the audit trail notes."""
MAX_VISITS = 4096


@dataclass(frozen=True, kw_only=True)
class ProgramParts:
    """Settings and state for requests to programs."""

    origins: ProgramOrigins | None
    """Origins at which browsers find programs; None: browsers are shown none."""
    page_url: str
    """Address of Kajitori's own page as browsers see it; empty: this machine."""
    visits: Visits
    clock: Callable[[], float]
    connections: Connections = field(default_factory=Connections)
    open_port: OpenPort = field(default=lambda client, *place: client.open_port(*place))
    _seen: OrderedDict[tuple[str, str, str], float] = field(default_factory=OrderedDict)

    def is_new_visit(self, visitor: str, run_uid: str, port: str) -> bool:
        """Whether this request begins a visit; it is remembered."""
        key, now = (visitor, run_uid, port), self.clock()
        before = self._seen.pop(key, None)
        self._seen[key] = now
        while len(self._seen) > MAX_VISITS:
            self._seen.popitem(last=False)
        return before is None or now - before > QUIET_SECONDS
