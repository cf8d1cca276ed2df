"""The mirror holds what the API server holds, and its indexes and usage always agree with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.unit.kube.fake_api import FakeApi, Naps, WatchFault, client_of, eventually, fake_api

from kajitori.cluster.mirror.mirror import CATCH_UP_SECONDS, Mirror
from kajitori.cluster.mirror.usage import NodeUsage
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.attempts import Attempt
from kajitori.kube.errors import ForbiddenError
from kajitori.kube.metadata import ObjectMeta
from kajitori.kube.resources import DEVICE_KINDS, EVENTS, LEASES, PODS, Resource
from kajitori.kube.watch import WatchSettings


@dataclass
class Setup:
    """A mirror of a fake API server, and the changes it reported."""

    api: FakeApi
    mirror: Mirror
    told: list[str]
    poke: asyncio.Event

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition, which is about the mirror, holds."""
        await eventually(condition, self.poke)

    def agrees(self) -> bool:
        """Return whether the mirror holds exactly the server's Pods in their latest version."""
        versions = {key: pod["metadata"]["resourceVersion"] for key, pod in self.api.pods.items()}
        return versions == {key: pod.metadata.resource_version for key, pod in self.mirror.pods.items()}


@asynccontextmanager
async def mirrored(before: Callable[[FakeApi], Any] = lambda api: None, **options: Any) -> AsyncIterator[Setup]:
    """A fake API server, filled by `before`, and a mirror that is in sync with it."""
    async with fake_api() as api:
        before(api)
        async with client_of(api.url) as client:
            mirror = Mirror(client, [PODS], **options)
            told: list[str] = []
            poke = asyncio.Event()

            def note(resource: Resource, namespace: str, name: str) -> None:
                told.append(f"{resource.plural} {namespace}/{name}")
                poke.set()

            mirror.on_change(note)
            async with mirror:
                await mirror.wait_synced()
                yield Setup(api, mirror, told, poke)


async def test_a_synced_mirror_holds_all_existing_objects() -> None:
    """After wait_synced each of them was also reported."""

    def fill(api: FakeApi) -> None:
        for number in range(5):
            api.put(f"p{number}")

    async with mirrored(fill, page_size=2) as setup:
        assert setup.agrees()
        assert setup.mirror.synced
        assert setup.told == [f"pods a/p{number}" for number in range(5)]


async def test_callbacks_get_keys_and_can_be_removed() -> None:
    """A callback that fails does not affect the others."""
    async with mirrored() as setup:
        extra: list[str] = []

        def fail(resource: Resource, namespace: str, name: str) -> None:
            extra.append(name)
            raise RuntimeError("a fault in a callback")

        unsubscribe = setup.mirror.on_change(fail)
        logging.getLogger("kajitori.cluster.mirror.mirror").disabled = True
        try:
            setup.api.put("x")
            await setup.until(lambda: len(setup.told) == 1)
        finally:
            logging.getLogger("kajitori.cluster.mirror.mirror").disabled = False
        unsubscribe()
        setup.api.put("y")
        await setup.until(lambda: len(setup.told) == 2)
        assert (extra, setup.agrees()) == (["x"], True)


async def test_pods_of_a_run_have_its_owner_reference() -> None:
    """The owner reference names that Run, and the Pod has a member's name. A label proves nothing, and neither does an
    owner reference from another namespace (rule 1)."""
    async with mirrored() as setup:
        setup.api.put("r-1-0", labels={names.LABEL_RUN_UID: "u1"}, owner="u1")
        setup.api.put("r-1-1", owner="u1")
        setup.api.put("r-1-2", labels={names.LABEL_RUN_UID: "u1"})
        setup.api.put("r-1-3", labels={names.LABEL_RUN_UID: "u1"}, owner="u2")
        setup.api.put("copy-1-0", labels={names.LABEL_RUN_UID: "u1"}, owner="u1")
        setup.api.put("alien", labels={names.LABEL_RUN_UID: "u1"})
        setup.api.put("r-1-4", labels={names.LABEL_RUN_UID: "u1"}, owner="u3", owner_kind="ReplicaSet")
        setup.api.put("r-1-0", "b", labels={names.LABEL_RUN_UID: "u1"}, owner="u1")
        await setup.until(lambda: len(setup.told) == 8)

        def owned(namespace: str, uid: str) -> list[Pod]:
            return setup.mirror.owned_pods(namespace, "r", uid)

        assert [pod.metadata.name for pod in owned("a", "u1")] == ["r-1-0", "r-1-1"]
        assert [pod.metadata.name for pod in owned("a", "u2")] == ["r-1-3"]
        assert [pod.metadata.namespace for pod in owned("b", "u1")] == ["b"]
        strangers = {("a", name) for name in ("r-1-2", "r-1-3", "copy-1-0", "alien", "r-1-4")}
        assert setup.mirror.mislabelled_pods("a", "r", "u1") == strangers
        for name in ("r-1-0", "r-1-1", "copy-1-0", "r-1-2", "r-1-3", "alien", "r-1-4"):
            setup.api.remove(name)
        await setup.until(lambda: len(setup.told) == 15)
        assert owned("a", "u1") == [] and not setup.mirror.mislabelled_pods("a", "r", "u1")


def run_of(uid: str, attempts: int = 1, members: int = 4) -> RunObject:
    """Build a gang called `r` in its last attempt."""
    attempt = Attempt(number=attempts, nodes=f"n*{members}", world_size=members)
    meta = ObjectMeta(name="r", namespace="a", uid=uid)
    return RunObject(metadata=meta, status=RunStatus(phase=Phase.RUNNING, attempts=attempts, attempt=attempt))


async def test_usage_counts_bound_pods_until_they_finish() -> None:
    """A Pod uses its node from its binding until its end; finished ones stay listed."""
    async with mirrored() as setup:
        setup.mirror.runs["a", "r"] = run_of("u")
        setup.api.put("r-1-0", labels={names.LABEL_RUN_UID: "u", names.LABEL_WHOLE_NODE: "true"}, owner="u")
        setup.api.put("y", nodeName="n")
        await setup.until(lambda: len(setup.told) == 2)
        assert setup.mirror.usage_of("n") == NodeUsage(500, 2**30, 1)
        setup.api.put("r-1-0", nodeName="n")
        await setup.until(lambda: len(setup.told) == 3)
        assert setup.mirror.usage_of("n") == NodeUsage(1000, 2**31, 2, members=1, lone_members=1)
        setup.api.put("r-1-0", phase="Succeeded")
        setup.api.put("y", phase="Failed")
        await setup.until(lambda: len(setup.told) == 5)
        assert setup.mirror.usage_of("n") is None
        assert len(setup.mirror.pods_on_node("n")) == 2


async def test_wait_synced_raises_a_refusal() -> None:
    """Otherwise it would wait for ever, for example without the right to list Pods."""
    async with fake_api() as api:
        api.list_answers.append(403)
        async with client_of(api.url) as client, Mirror(client, [PODS]) as mirror:
            with pytest.raises(ForbiddenError):
                await mirror.wait_synced()
            assert not mirror.synced
            assert "pods" in mirror.trouble


async def test_the_mirrors_age_grows_while_its_watch_is_broken() -> None:
    """It grows until the mirror has caught up again."""
    naps = Naps()
    async with fake_api() as api, client_of(api.url, naps) as client:
        mirror = Mirror(client, [PODS])
        turns: list[bool] = []
        changed = asyncio.Event()

        def note() -> None:
            turns.append(bool(mirror.trouble))
            changed.set()

        mirror.on_health(note)
        mirror.on_change(lambda *_: changed.set())
        async with mirror:
            await mirror.wait_synced()
            await api.until(lambda: api.open_watches == 1)
            naps.now += 100.0
            assert (mirror.age_seconds(), mirror.trouble) == (0.0, "")
            api.watch_answers.extend([500] * 6)
            broken_at = naps.now
            api.fail_watches(WatchFault.BREAK)
            await eventually(lambda: turns == [True], changed)
            await eventually(lambda: turns == [True, False], changed)
            assert len(naps.taken) == 7 and max(naps.taken) <= WatchSettings().cap_seconds
            assert mirror.age_seconds() == naps.now - broken_at > 2.0
            await mirror.wait_fresh()
            assert (mirror.age_seconds(), naps.taken[-1]) == (0.0, CATCH_UP_SECONDS)


async def test_a_watch_that_breaks_at_once_does_not_reset_the_age() -> None:
    """It has delivered nothing new."""
    naps = Naps()
    async with fake_api() as api, client_of(api.url, naps) as client:
        mirror = Mirror(client, [PODS])
        changed = asyncio.Event()
        mirror.on_health(changed.set)
        async with mirror:
            await mirror.wait_synced()
            await api.until(lambda: api.open_watches == 1)
            began = naps.now
            for _ in range(3):
                api.watch_answers.extend([500] * 4)
                api.fail_watches(WatchFault.BREAK)
                await eventually(lambda: bool(mirror.trouble), changed)
                await eventually(lambda: not mirror.trouble, changed)
                await api.until(lambda: api.open_watches == 1)
            assert mirror.age_seconds() == naps.now - began


async def test_a_kind_that_a_mirror_cannot_hold_is_an_error() -> None:
    async with client_of("http://127.0.0.1:1") as client:
        Mirror(client, [EVENTS])
        with pytest.raises(ValueError, match="leases"):
            Mirror(client, [LEASES])


async def test_kinds_that_the_server_lacks_or_forbids_are_empty(caplog: pytest.LogCaptureFixture) -> None:
    """Clusters without dynamic resource allocation, and roles of an earlier version, are no trouble."""
    async with fake_api() as api:
        api.list_answers.append(403)
        async with client_of(api.url) as client, Mirror(client, DEVICE_KINDS) as mirror:
            await mirror.wait_synced()
            assert mirror.synced and not mirror.trouble
            assert not mirror.slices and mirror.age_seconds() == 0.0


NAMES = st.sampled_from(["r-1-0", "r-1-1", "r-1-2", "r-1-3"])
NODE_NAMES = st.sampled_from(["", "n1", "n2"])
STEP = st.one_of(
    st.tuples(
        st.just("put"), NAMES, st.sampled_from(["", "n1", "n2"]), st.sampled_from(["Pending", "Running", "Failed"])
    ),
    st.tuples(st.just("run"), NAMES, st.sampled_from(["u1", "u2"])),
    st.tuples(st.just("leave"), NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("fault"), st.sampled_from([f for f in WatchFault if f is not WatchFault.STALL])),
    st.tuples(st.just("forget")),
    st.tuples(st.just("list answers"), st.sampled_from([410, 429, 500, 503])),
    st.tuples(st.just("watch answers"), st.sampled_from([403, 410, 429, 500])),
    st.tuples(st.just("expire token")),
    st.tuples(st.just("settle")),
)


def perform(api: FakeApi, step: tuple[Any, ...]) -> None:
    """Perform one change of the server's state, or one fault."""
    match step:
        case ("put", name, node, phase):
            api.put(name, nodeName=node, phase=phase)
        case ("run", name, uid):
            api.put(name, labels={names.LABEL_RUN_UID: uid}, owner=uid)
        case ("leave", name):
            api.put(name, leaving=True)
        case ("remove", name):
            api.remove(name)
        case ("fault", fault):
            api.fail_watches(fault)
        case ("forget",):
            api.forget_history()
        case ("list answers", code):
            api.list_answers.append(code)
        case ("watch answers", code):
            api.watch_answers.append(code)
        case ("expire token",):
            api.expire_continue += 1


def is_member(pod: dict[str, Any]) -> bool:
    """Return whether it belongs to the only run in the mirror."""
    return any(owner["uid"] == "u1" for owner in pod["metadata"].get("ownerReferences", ()))


def expected_usage(api: FakeApi) -> dict[str, NodeUsage]:
    """Return the usage of bound, unfinished Pods, computed from scratch."""
    usage: dict[str, NodeUsage] = {}
    for pod in api.pods.values():
        node = pod["spec"].get("nodeName")
        if node and pod["status"]["phase"] != "Failed":
            total = usage.setdefault(node, NodeUsage())
            total.cpu_millis += 500
            total.memory_bytes += 2**30
            total.pods += 1
            total.members += is_member(pod)
            total.lone_members += is_member(pod)  # none has a memory limit
    return usage


@example([("run", "r-1-0", "u1"), ("fault", WatchFault.BOOKMARK), ("fault", WatchFault.END)])
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEP, max_size=30))
def test_the_mirror_converges_after_any_faults(steps: list[tuple[Any, ...]]) -> None:
    """After any mix of changes and faults the mirror equals the server, indexes agree, and each last change was
    reported."""

    async def scenario() -> None:
        async with mirrored(lambda api: api.put("r-1-0", nodeName="n1"), page_size=2) as setup:
            seen: dict[str, str] = {}
            setup.mirror.runs["a", "r"] = run_of("u1")

            def note(resource: Resource, namespace: str, name: str) -> None:
                pod = setup.mirror.pods.get((namespace, name))
                seen[name] = pod.metadata.resource_version if pod else "gone"

            setup.mirror.on_change(note)
            for step in steps:
                if step == ("settle",):
                    await setup.until(setup.agrees)
                else:
                    perform(setup.api, step)
            setup.api.put("last")
            await setup.until(setup.agrees)

            mirror, api = setup.mirror, setup.api
            for uid in ("u1", "u2"):
                members = {
                    pod["metadata"]["name"]
                    for pod in api.pods.values()
                    if pod["metadata"]["labels"].get(names.LABEL_RUN_UID) == uid
                }
                assert {pod.metadata.name for pod in mirror.owned_pods("a", "r", uid)} == members
            for node in ("n1", "n2"):
                bound = {name for (_, name), pod in api.pods.items() if pod["spec"].get("nodeName") == node}
                assert {pod.metadata.name for pod in mirror.pods_on_node(node)} == bound
                assert mirror.usage_of(node) == expected_usage(api).get(node)
            members = {key for key, pod in api.pods.items() if is_member(pod)}
            assert mirror.members() == members
            held = [mirror.pods[key] for key in members]
            held = [pod for pod in held if pod.spec.node_name and not pod.is_finished]
            assert mirror.holders() == [("a", "r")] * bool(held)
            leaving = [pod.metadata.name for pod in held if pod.metadata.deletion_timestamp]
            assert sorted(pod.metadata.name for pod in mirror.leaving()) == sorted(leaving)
            for name, version in seen.items():
                present = api.pods.get(("a", name))
                assert version == (present["metadata"]["resourceVersion"] if present else "gone")

    asyncio.run(scenario())
