"""Controller and Web API survive a failing API server, report it, and continue afterwards.

On the embedded and on a real server. Between the server and the parts is a proxy that fails on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
import pytest
import pytest_asyncio
import yaml
from tests.harness.cluster import POLICY, Cluster, control_plane
from tests.harness.fixtures import real_server_of
from tests.harness.web_api import WebApi, web_api
from tests.helpers.network.faulty_proxy import FaultyProxy

from kajitori.api import health
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.cluster.run_object import RUNS
from kajitori.controllers import reconciler
from kajitori.controllers.nodes.silent_nodes import NODE_PATIENCE
from kajitori.core.spec.reasons import Phase
from kajitori.kube.client import KubeClient
from kajitori.kube.resources import PODS, Resource
from kajitori.kube.watch import WatchSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEC: dict[str, Any] = {
    "image": "bert:3",
    "command": ["train"],
    "resources": {"cpu": 1, "memory": "1Gi"},
    "grace": "2s",
}

IMPATIENT = WatchSettings(base_seconds=0.1, cap_seconds=0.5)
"""Settings of a mirror whose watches break again and again."""

PROXIES: WeakKeyDictionary[Cluster, FaultyProxy] = WeakKeyDictionary()

SOON_SECONDS = 60.0
"""Time limit for the parts to use the API server again once it works."""


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real)]
)
async def web(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WebApi]:
    """One cluster for all tests of this module; controller and Web API reach the API server through a proxy."""
    folder = tmp_path_factory.mktemp("web")
    async with (
        control_plane(real_server_of(request), folder) as server,
        Cluster(server, folder).running() as cluster,
        FaultyProxy(server.config).running() as proxy,
        KubeClient(proxy.config) as client,
        Mirror(client, settings=IMPATIENT) as mirror,
    ):
        await mirror.wait_synced()
        cluster.use_policy_file()
        cluster.start_controller(NODE_PATIENCE, client=client, mirror=mirror)
        async with web_api(cluster, client=client, mirror=mirror) as web:
            PROXIES[cluster] = proxy
            yield web


def proxy_of(web: WebApi) -> FaultyProxy:
    """Return the proxy between the API server and everything else."""
    return PROXIES[web.cluster]


@pytest.mark.conformance
async def test_broken_watches_lose_no_change(web: WebApi) -> None:
    """The watches are cut in the middle of a line while members fail. Each failure is counted once."""
    proxy = proxy_of(web)
    await web.submit("cut", SPEC | {"replicas": 3, "restarts": 5})
    for attempt in (1, 2, 3):
        await web.cluster.reaches("cut", Phase.RUNNING, attempt=attempt)
        await web.cluster.until(lambda: proxy.open_watches >= 3, "the parts watch again")
        proxy.break_watches()
        if attempt < 3:
            await web.cluster.behave(f"cut-{attempt}-1", exit_code="1")
            await asyncio.sleep(0.05)
            proxy.break_watches()
    await web.cluster.succeed("cut")
    status = await web.cluster.reaches("cut", Phase.SUCCEEDED)
    assert (status.restarts, status.attempts) == (2, 3)


async def test_every_kind_of_outage_is_survived(web: WebApi) -> None:
    """While every request fails (0: the connection is closed), the Web API answers with typed errors. The runs recover
    afterwards."""
    proxy = proxy_of(web)
    await web.submit("outage", SPEC | {"replicas": 2, "restarts": 5})
    await web.cluster.reaches("outage", Phase.RUNNING)
    before = proxy.writes
    try:
        for status, wanted in ((500, {503}), (429, {429}), (401, {401, 503}), (0, {503})):
            proxy.status, proxy.accepts = status, bool(status)
            proxy.break_watches()
            if status == 500:
                await web.cluster.behave("outage-1-1", exit_code="1")  # directly at the server, past the proxy
            answers = await _answers_during_outage(web)
            assert (answers["/healthz"], answers["/metrics"], answers["/readyz"]) == (200, 200, 503), status
            assert answers["/v1/runs"] in wanted, (status, answers)
    finally:
        proxy.status, proxy.accepts = 0, True
    assert proxy.writes - before < 100, "nobody hammers a server that is down"
    await web.cluster.reaches("outage", Phase.RUNNING, attempt=2)
    assert web.cluster.status("outage").restarts == 1
    await web.submit("after", SPEC)
    await web.cluster.reaches("after", Phase.RUNNING)
    for _ in range(round(SOON_SECONDS * 10)):
        ready = await web.http.get("/readyz")
        if ready.status_code == 200:
            break
        await asyncio.sleep(0.1)
    assert ready.status_code == 200, ready.text


async def _answers_during_outage(web: WebApi) -> dict[str, int]:
    """Return the status codes of the Web API during an outage. Every error must be a problem document."""

    async def ask(method: str, path: str) -> int:
        body = {"json": {"name": "never", "spec": SPEC}} if method == "POST" else {}
        answer: httpx2.Response = await web.http.request(method, path, **body)  # type: ignore[arg-type]
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] != "Internal", answer.text
        return answer.status_code

    asked = {"/healthz": "GET", "/readyz": "GET", "/metrics": "GET", "/v1/runs": "POST"}
    answers = await asyncio.gather(*(ask(method, path) for path, method in asked.items()))
    return dict(zip(asked, answers, strict=True))


MOMENTS = {
    "its attempt is stored": ("PUT", "/runs/{name}/status", 1),
    "its Service is made": ("POST", "/services", 1),
    "its third Pod is made": ("POST", "/pods", 3),
    "its last Pod is made": ("POST", "/pods", 4),
}


KINDS = {
    "500": list(MOMENTS),
    "loses answers": list(MOMENTS),
    "429": ["its third Pod is made"],
    "forgets": ["its third Pod is made", "its last Pod is made"],
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_gang_that_starts_during_an_outage_starts_once_and_whole(web: WebApi, kind: str) -> None:
    """There are four members, all of the first attempt, whenever the outage begins and whether or not the request was
    carried out. The same holds for a busy API server, and for one that no longer has (410) the changes of that time."""
    proxy, cluster = proxy_of(web), web.cluster
    made = PodsEverMade(cluster)
    for number, moment in enumerate(KINDS[kind]):
        method, path_end, count = MOMENTS[moment]
        name = f"met-{number}-{kind.replace(' ', '-')}"
        await cluster.until(lambda: proxy.open_watches >= 3, "the parts watch")
        begun = proxy.fail_at(method, path_end.format(name=name), count, kind)
        try:
            await cluster.submit(name, replicas=4)
            await asyncio.wait_for(begun.wait(), 60)
            await asyncio.sleep(0 if kind == "forgets" else 0.5)
        finally:
            proxy.fail("no")
        status = await cluster.reaches(name, Phase.RUNNING, seconds=SOON_SECONDS)
        assert (status.attempts, status.interruptions, status.restarts) == (1, 0, 0), moment
        if kind == "forgets":
            listed = 3 * (number + 1)
            await cluster.until(lambda wanted=listed: proxy.answered[410] >= wanted, "each kind is listed anew")  # type: ignore[misc]
        assert sorted(made.of(name)) == [f"{name}-1-{rank}" for rank in range(4)], moment
        await cluster.client.delete(RUNS, name, cluster.namespace)


@pytest.mark.usefixtures("changes_count_at_once")
async def test_members_are_neither_late_nor_lost_while_the_view_is_stale(
    web: WebApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror shows no Pods for longer than a start may take. Members are judged at the time of the mirror's last
    state."""
    proxy, cluster = proxy_of(web), web.cluster
    monkeypatch.setattr(reconciler, "UNSEEN_PATIENCE", timedelta(seconds=1))
    monkeypatch.setattr(health, "STALE_SECONDS", 1.0)
    before = web.cluster.policy_path.read_text()
    made = PodsEverMade(cluster)
    begun = proxy.fail_at("POST", "/pods", 4, "shows no Pods")
    try:
        web.cluster.policy_path.write_text(yaml.safe_dump(POLICY | {"start": POLICY["start"] | {"deadline": "2s"}}))
        await cluster.submit("unseen", replicas=4)
        await asyncio.wait_for(begun.wait(), 60)
        await asyncio.sleep(3)
        ready = await web.http.get("/readyz")
        assert (ready.status_code, "pods" in ready.json()["hint"]) == (503, True), ready.text
    finally:
        web.cluster.policy_path.write_text(before)
        proxy.fail("no")
    status = await cluster.reaches("unseen", Phase.RUNNING, seconds=SOON_SECONDS)
    assert (status.attempts, status.interruptions, len(made.of("unseen"))) == (1, 0, 4)


async def test_a_lost_answer_says_how_to_check_what_was_done(web: WebApi) -> None:
    """The error says that the request may have been carried out, and how to find out. It was carried out, and there is
    one gang."""
    proxy, cluster = proxy_of(web), web.cluster
    made = PodsEverMade(cluster)
    for asked in ("http", "kaji"):
        name = f"lost-{asked}"
        proxy.fail_at("POST", "/runs", 1, "loses answers")
        try:
            if asked == "http":
                answer = await web.http.post("/v1/runs", json={"name": name, "spec": SPEC | {"replicas": 2}})
                assert answer.status_code == 503 and int(answer.headers["Retry-After"]) >= 1
                said = answer.json()["hint"]
            else:
                told = await web.kaji("run", "-d", "--name", name, "-n", "2", "--restarts", "0", "bert:3", "train")
                assert told.returncode == 125 and "Traceback" not in told.stderr
                said = told.stderr
        finally:
            proxy.fail("no")
        assert f"kaji describe {name}" in said, said
        await cluster.reaches(name, Phase.RUNNING, seconds=SOON_SECONDS)
        assert sorted(made.of(name)) == [f"{name}-1-0", f"{name}-1-1"]


class PodsEverMade:
    """Records every Pod that exists from now on, by its run. A second Pod of the same name counts twice."""

    def __init__(self, cluster: Cluster) -> None:
        self._world = cluster
        self._seen: dict[str, str] = {}
        cluster.mirror.on_change(self._note)
        for namespace, name in cluster.mirror.pods:
            self._note(PODS, namespace, name)

    def of(self, run: str) -> list[str]:
        """Return the names of the run's Pods."""
        return [name for name in self._seen.values() if name.rsplit("-", 2)[0] == run]

    def _note(self, resource: Resource, namespace: str, name: str) -> None:
        pod = self._world.mirror.pods.get((namespace, name))
        if resource is PODS and pod is not None and namespace == self._world.namespace:
            self._seen[pod.metadata.uid] = name


async def test_an_unreachable_web_api_is_named(web: WebApi) -> None:
    """Exit code 125, the address, and what to do."""
    result = await web.kaji("ps", KAJI_SERVER="http://127.0.0.1:1")
    assert result.returncode == 125 and "127.0.0.1:1" in result.stderr and "Traceback" not in result.stderr
