"""Events of the kubelet tell victims of a node without memory from the culprits."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from kajitori.cluster.objects import Event, Pod
from kajitori.controllers.runs.memory_kills import NodeMemoryKills
from kajitori.errors import Forbidden
from kajitori.kube.client import KubeClient, Listing

GUARANTEED = {"limits": {"memory": "2Gi"}, "requests": {"memory": "2048Mi"}}


def killed(uid: str = "u", node: str = "n1", *, resources: dict[str, Any] | None = None, **more: Any) -> Pod:
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-21T12:00:00Z"} | more
    document = {
        "metadata": {"name": uid, "uid": uid},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": resources or GUARANTEED}]},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]},
    }
    return msgspec.convert(document, Pod)


def system_oom(node: str = "n1", first: str = "2026-11-21T12:00:04Z", last: str = "") -> Event:
    document = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Node", "name": node},
        "reason": "SystemOOM",
        "firstTimestamp": first,
        "lastTimestamp": last or first,
    }
    return msgspec.convert(document, Event)


class Events:
    """Stands for a client: serves Events and counts the requests."""

    def __init__(self, *events: Event) -> None:
        self.events: Any = list(events)
        self.asked = 0

    async def list(self, resource: Any, namespace: str, **query: Any) -> Listing[Any]:
        self.asked += 1
        assert (namespace, query["field_selector"]) == ("default", "involvedObject.kind=Node,reason=SystemOOM")
        if isinstance(self.events, Exception):
            raise self.events
        return Listing(self.events, "1")


def kills_in(events: Events, patience_seconds: float = 0.0) -> NodeMemoryKills:
    return NodeMemoryKills(cast(KubeClient, events), patience_seconds)


async def test_a_member_killed_when_its_node_ran_out_is_a_victim() -> None:
    """One request serves all members, and it is not repeated."""
    events = Events(system_oom())
    judge = kills_in(events)
    pods = [killed("a"), killed("b"), killed("c", "n2")]
    assert await judge.among(pods) == ({"a", "b"}, 0.0)
    assert await judge.among(pods) == ({"a", "b"}, 0.0)
    assert events.asked == 1


@pytest.mark.parametrize(
    "event",
    [
        system_oom("n2"),
        system_oom(first="2026-11-21T12:05:00Z"),
        system_oom(first="2026-11-21T11:00:00Z", last="2026-11-21T11:59:00Z"),
        system_oom(first="yesterday"),
        system_oom(first=""),
    ],
)
async def test_another_node_or_another_time_proves_nothing(event: Event) -> None:
    assert await kills_in(Events(event)).among([killed()]) == (set(), 0.0)


async def test_a_repeated_event_covers_the_time_since_its_first_occurrence() -> None:
    event = system_oom(first="2026-11-21T11:00:00Z", last="2026-11-21T12:30:00Z")
    assert await kills_in(Events(event)).among([killed()]) == ({"u"}, 0.0)


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
        {"requests": {"memory": "1Gi"}},
        {"limits": {"memory": "much"}, "requests": {"memory": "much"}},
    ],
)
async def test_a_member_with_a_request_below_its_limit_is_no_proven_victim(resources: dict[str, Any]) -> None:
    """Its memory use at that moment is unknown, so no Events are requested."""
    events = Events(system_oom())
    assert await kills_in(events).among([killed(resources=resources)]) == (set(), 0.0)
    assert events.asked == 0


async def test_no_events_are_requested_for_other_failures() -> None:
    events = Events(system_oom())
    assert await kills_in(events).among([killed(reason="Error")]) == (set(), 0.0)
    assert events.asked == 0


async def test_the_decision_waits_a_moment_for_the_event() -> None:
    """A culprit's run ends for good, so nothing is decided until then."""
    events = Events()
    judge = kills_in(events, patience_seconds=60.0)
    victims, wait = await judge.among([killed()])
    assert not victims and 0 < wait <= 60
    events.events = [system_oom()]
    assert await judge.among([killed()]) == ({"u"}, 0.0)


async def test_without_the_right_to_read_events_a_killed_member_is_a_culprit() -> None:
    events = Events()
    events.events = Forbidden("no")
    assert await kills_in(events).among([killed()]) == (set(), 0.0)
