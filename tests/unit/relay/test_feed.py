"""A client's view of its node equals the mirror, whichever lines it missed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kube.fake_api import FakeApi, client_of, eventually, fake_api

from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RunObject
from kajitori.core.naming import names
from kajitori.core.traffic.node_feed import Line
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import PODS
from kajitori.relay.feed import Follower, NodeFeed


class Setup:
    """A fake API server, its mirror, and the mirror's feed."""

    def __init__(self, api: FakeApi, mirror: Mirror) -> None:
        self.api = api
        self.mirror = mirror
        self.feed = NodeFeed(mirror)
        self._poke = asyncio.Event()
        mirror.on_change(lambda *_: self._poke.set())

    async def settled(self) -> None:
        """Wait until the mirror has the API server's state."""

        def agrees() -> bool:
            versions = {key: pod["metadata"]["resourceVersion"] for key, pod in self.api.pods.items()}
            return versions == {key: pod.metadata.resource_version for key, pod in self.mirror.pods.items()}

        await eventually(agrees, self._poke)


@asynccontextmanager
async def feeding() -> AsyncIterator[Setup]:
    async with fake_api() as api, client_of(api.url) as client, Mirror(client, [PODS]) as mirror:
        await mirror.wait_synced()
        setup = Setup(api, mirror)
        try:
            yield setup
        finally:
            setup.feed.close()


class Listener:
    """A client that keeps what it receives."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.known: dict[str, Any] = {}
        self.stamp = ""

    def hear(self) -> Line:
        line = self.follower.line()
        if line.whole:
            self.known.clear()
        for uid in line.gone:
            del self.known[uid]
        self.known |= {pod.uid: pod for pod in line.pods}
        self.stamp = line.stamp
        return line

    def names(self) -> list[str]:
        return sorted(pod.name for pod in self.known.values())


async def test_a_client_gets_the_whole_node_then_changes() -> None:
    async with feeding() as setup:
        setup.api.put("a", nodeName="n1")
        setup.api.put("elsewhere", nodeName="n2")
        setup.api.put("nowhere")
        await setup.settled()
        with setup.feed.follow("n1") as follower:
            listener = Listener(follower)
            assert listener.hear().whole and listener.names() == ["a"]
            setup.api.put("nowhere", nodeName="n1")
            setup.api.put("b", nodeName="n2")
            await setup.settled()
            assert follower.changed.is_set()
            line = listener.hear()
            assert (line.whole, listener.names()) == (False, ["a", "nowhere"])
            setup.api.put("a", phase="Succeeded")
            setup.api.remove("nowhere")
            await setup.settled()
            assert len(listener.hear().gone) == 2 and listener.names() == []
            assert setup.feed.follower_count == 1
        assert setup.feed.follower_count == 0


async def test_a_pod_belongs_to_a_run_only_if_ownership_is_proven() -> None:
    """An owner reference alone, to a Run in another namespace, adds traffic to no account."""
    async with feeding() as setup:
        meta = ObjectMeta(name="r", namespace="a", uid="u", annotations={names.ANNOTATION_OWNER: "ada"})
        setup.mirror.runs["a", "r"] = RunObject(metadata=meta)
        for namespace in ("a", "mallory"):
            setup.api.put("r-1-0", namespace, labels={names.LABEL_RUN_UID: "u"}, owner="u", nodeName="n1")
        await setup.settled()
        told = {pod.namespace: (pod.run, pod.run_uid, pod.user) for pod in setup.feed.pods("n1").values()}
        assert told == {"a": ("r", "u", "ada"), "mallory": ("", "", "")}


async def test_the_newest_pod_comes_last() -> None:
    """So that it gets an address that an older Pod still seems to have."""
    async with fake_api() as api:
        for name, second in (("b", 5), ("c", 9), ("a", 7)):
            api.put(name, nodeName="n1")["metadata"]["creationTimestamp"] = f"2026-11-21T12:00:0{second}Z"
        async with client_of(api.url) as client, Mirror(client, [PODS]) as mirror:
            await mirror.wait_synced()
            with NodeFeed(mirror).follow("n1") as follower:
                assert [pod.name for pod in follower.line().pods] == ["b", "a", "c"]


async def test_a_recreated_pod_with_the_same_name_is_another_pod() -> None:
    async with feeding() as setup:
        setup.api.put("a", nodeName="n1")
        await setup.settled()
        with setup.feed.follow("n1") as follower:
            listener = Listener(follower)
            (first,) = listener.hear().pods
            setup.api.remove("a")
            setup.api.put("a", nodeName="n1")
            await setup.settled()
            line = listener.hear()
            assert line.gone == (first.uid,) and line.pods[0].uid != first.uid


async def test_a_client_that_reconnects_in_time_gets_no_repetition() -> None:
    """If something changed, or another relay sent the last line, it gets everything."""
    async with feeding() as setup:
        setup.api.put("a", nodeName="n1")
        await setup.settled()
        with setup.feed.follow("n1") as follower:
            stamp = follower.line().stamp
        with setup.feed.follow("n1", stamp) as follower:
            assert not follower.changed.is_set()
            setup.api.put("b", nodeName="n1")
            await setup.settled()
            line = follower.line()
            assert (line.whole, [pod.name for pod in line.pods]) == (False, ["b"])
        with setup.feed.follow("n1", stamp) as follower:
            assert follower.changed.is_set() and len(follower.line().pods) == 2
        other = NodeFeed(setup.mirror)
        with other.follow("n1", line.stamp) as follower:
            assert follower.line().whole
        other.close()


async def test_irrelevant_changes_send_no_line() -> None:
    """No client wakes up for a line that it has."""
    async with feeding() as setup:
        with setup.feed.follow("n1") as follower:
            first = follower.line()
            assert (first.whole, first.pods, follower.changed.is_set()) == (True, (), False)
            assert not follower.line().whole
            setup.api.put("a", nodeName="n1")
            await setup.settled()
            assert follower.changed.is_set()
            assert len(follower.line().pods) == 1
            assert not follower.changed.is_set()
            setup.api.put("a", phase="Running")
            await setup.settled()
            line = follower.line()
            assert (line.whole, line.pods, line.gone) == (False, (), ())
            setup.api.remove("a")
            await setup.settled()
            assert len(follower.line().gone) == 1
            assert not follower.line().whole


async def test_pods_from_before_the_feed_are_reported_as_gone() -> None:
    """A relay begins when its mirror is complete."""
    async with feeding() as setup:
        setup.api.put("a", nodeName="n1")
        await setup.settled()
        later = NodeFeed(setup.mirror)
        with later.follow("n1") as follower:
            (there,) = follower.line().pods
            setup.api.remove("a")
            await setup.settled()
            assert follower.changed.is_set()
            assert follower.line().gone == (there.uid,)
            later.close()
            setup.api.put("b", nodeName="n1")
            await setup.settled()
            assert not follower.changed.is_set(), "it follows no more"


STEP = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("abc"), st.sampled_from(["", "n1", "n2"])),
    st.tuples(st.just("end"), st.sampled_from("abc")),
    st.tuples(st.just("remove"), st.sampled_from("abc")),
    st.tuples(st.sampled_from(["hear", "come back"])),
)


@given(st.lists(STEP, max_size=25))
@settings(max_examples=40)
def test_a_slow_client_ends_with_the_right_pods(steps: list[tuple[str, ...]]) -> None:
    """However often it reconnects."""

    async def scenario() -> None:
        async with feeding() as setup:
            with ExitStack() as following:
                listener = Listener(following.enter_context(setup.feed.follow("n1")))
                for step in [*steps, ("hear",)]:
                    match step:
                        case ("put", name, node):
                            bound = setup.api.pods.get(("a", name), {"spec": {}})["spec"].get("nodeName")
                            setup.api.put(name, **({"nodeName": node} if node and not bound else {}))
                        case ("end", name) if ("a", name) in setup.api.pods:
                            setup.api.put(name, phase="Failed")
                        case ("remove", name):
                            setup.api.remove(name)
                        case ("come back",):
                            following.close()
                            await setup.settled()
                            listener.follower = following.enter_context(setup.feed.follow("n1", listener.stamp))
                        case ("hear",):
                            await setup.settled()
                            listener.hear()
                assert listener.known == {pod.uid: pod for pod in setup.feed.pods("n1").values()}

    asyncio.run(scenario())
