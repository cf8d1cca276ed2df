"""The first step of members, the same on the embedded server and on a real kube-apiserver with its scheduler."""

from __future__ import annotations

import contextlib
import json
import sys

import pytest
from aiohttp import web
from tests.harness.cluster import Cluster, this_machine
from tests.harness.platform.parts import GPUS
from tests.harness.web_api import web_api
from tests.unit.kube.fake_api import serving

from kajitori.cluster.platform.ticket_key import ensure_ticket_key
from kajitori.configuration.options.shared import LEASE_NAMESPACE
from kajitori.core.naming import first_step
from kajitori.core.pods.tickets import Ticket, verify
from kajitori.core.policy.file import with_first_step
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.embedded.kubelet.machine.detection import try_mounts
from kajitori.errors import AlreadyExists
from kajitori.kube.resources import LIMIT_RANGES, NAMESPACES, PODS

SMALL = {"cpu": 0.1, "memory": "64Mi"}
LOOK = """
import json, os, socket
hosts = [line.split() for line in open(os.environ["KAJI_HOSTS"])]
known = {}
for name, slots in hosts:
    try:
        known[name] = socket.gethostbyname(name)
    except OSError as error:
        known[name] = str(error)
said = {"hosts": hosts, "known": known, "master": socket.gethostbyname(os.environ["MASTER_ADDR"])}
with open(f"{os.environ['FOLDER']}/{os.environ['KAJI_RANK']}", "w") as file:
    json.dump(said, file)
"""


async def views_of_members(cluster: Cluster, *, namespaces: bool = True) -> list[dict[str, object]]:
    """Return what two real members that start together know about each other, by rank."""
    folder = cluster.folder / "seen"
    folder.mkdir()
    async with this_machine(cluster, namespaces=namespaces) as selector, web_api(cluster, for_members=True):
        cluster.start_controller()
        await cluster.submit(
            "bert",
            replicas=2,
            command=[sys.executable, "-c", LOOK],
            env={"FOLDER": str(folder)},
            nodeSelector=selector,
            resources=SMALL,
        )
        status = await cluster.reaches("bert", Phase.SUCCEEDED)
        assert (status.attempts, status.interruptions) == (1, 0)
    return [json.loads((folder / str(rank)).read_text()) for rank in range(2)]


async def test_real_members_find_each_other_by_name(cluster: Cluster) -> None:
    """Both get the same list, and every name in it resolves before the program starts."""
    if why_not := try_mounts(cluster.folder / "probe" / "root").why_not:
        pytest.skip(f"member names need mount namespaces: run as root, or allow user namespaces ({why_not})")
    one, other = await views_of_members(cluster)
    assert one == other
    assert one == {
        "hosts": [["bert-1-0.bert", "slots=1"], ["bert-1-1.bert", "slots=1"]],
        "known": {"bert-1-0.bert": "127.0.0.1", "bert-1-1.bert": "127.0.0.1"},
        "master": "127.0.0.1",
    }


async def test_real_members_find_each_other_without_mounts(cluster: Cluster) -> None:
    """They find each other by address, because without mounts names cannot be made to resolve."""
    one, other = await views_of_members(cluster, namespaces=False)
    assert one == other
    assert one["hosts"] == [["127.0.0.1", "slots=1"]] * 2
    assert one["master"] == "127.0.0.1"


@pytest.mark.conformance
@pytest.mark.parametrize("host_network", [False, True])
async def test_the_api_server_admits_members_with_a_first_step(cluster: Cluster, host_network: bool) -> None:
    """The member mounts one volume twice, once at /etc/hosts. The Pod has the same QoS class and requests as without
    the first step, and a LimitRange that admits the member admits both."""
    limits = [{"type": "Container", "min": {"cpu": "2", "memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": "1"}}]
    await cluster.client.create(
        LIMIT_RANGES, {"metadata": {"name": "large"}, "spec": {"limits": limits}}, cluster.namespace
    )
    cluster.use_policy(security={"allowHostNetwork": True})
    async with web_api(cluster, for_members=True):
        cluster.start_controller()
        whole = {"cpu": 4, "memory": "8Gi", "gpu": GPUS, "gpuType": "h100"}
        await cluster.submit("bert", replicas=2, resources=whole, hostNetwork=host_network)
        await cluster.reaches("bert", Phase.RUNNING)
        pod = await cluster.client.get(PODS, "bert-1-0", cluster.namespace)
        assert [container["name"] for container in pod["spec"]["initContainers"]] == [first_step.CONTAINER]
        assert pod["status"]["qosClass"] == "Guaranteed"
        assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        usage = cluster.mirror.usage_of(pod["spec"]["nodeName"])
        assert usage is not None and (usage.cpu_millis, usage.memory_bytes) == (4000, 8 * 2**30)
        await cluster.succeed("bert")
        await cluster.reaches("bert", Phase.SUCCEEDED)


async def test_each_attempt_has_its_own_start_ticket(cluster: Cluster) -> None:
    """All members of an attempt get the same ticket, whichever controller makes them."""
    async with web_api(cluster, for_members=True):
        task = cluster.start_controller()
        await cluster.submit("bert", replicas=3, restarts=1)
        await cluster.reaches("bert", Phase.RUNNING)
        await cluster.kill_controller(task)
        cluster.start_controller()
        await cluster.behave("bert-1-0", exit_code="1")
        await cluster.reaches("bert", Phase.RUNNING, attempt=2)
        key = await ensure_ticket_key(cluster.client, LEASE_NAMESPACE)
        for rank in range(3):
            pod = await cluster.client.get(PODS, f"bert-2-{rank}", cluster.namespace)
            said = {variable["name"]: variable["value"] for variable in pod["spec"]["initContainers"][0]["env"]}
            uid = pod["metadata"]["ownerReferences"][0]["uid"]
            assert verify(said[first_step.TICKET_ENV], key) == Ticket(cluster.namespace, "bert", uid, 2, 3)


async def test_a_refused_first_step_counts_as_no_restart(cluster: Cluster) -> None:
    """The run's message names the member and the reason; the next attempt starts as usual."""
    first: list[str] = []

    async def hosts(request: web.Request) -> web.Response:
        ticket = request.headers["Authorization"]  # the same for all members of an attempt
        first.append(ticket)
        if ticket == first[0]:
            return web.json_response({"code": "NotStarting", "detail": "not for you"}, status=403)
        return web.json_response({"addresses": ["127.0.0.1", "127.0.0.1"]})

    app = web.Application()
    app.router.add_get("/v1/members/hosts", hosts)
    async with this_machine(cluster) as selector, serving(app) as url:
        with contextlib.suppress(AlreadyExists):
            await cluster.client.create(NAMESPACES, {"metadata": {"name": LEASE_NAMESPACE}})
        cluster.policy.complete(lambda policy: with_first_step(policy, "kajitori:1", url))
        cluster.start_controller()
        await cluster.submit("bert", replicas=2, command=["true"], nodeSelector=selector, resources=SMALL)
        seen = await cluster.until(
            lambda: status if (status := cluster.status("bert")).failed_starts else None, "a start that failed"
        )
        assert seen is not None and seen.reason is Reason.FIRST_STEP_REFUSED
        assert "refused: NotStarting: not for you" in seen.message and url in seen.message
        status = await cluster.reaches("bert", Phase.SUCCEEDED)
        assert (status.restarts, status.attempts) == (0, 2)
        assert not status.avoid_nodes
