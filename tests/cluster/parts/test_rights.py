"""Each part has exactly the rights that it uses, as the audit log shows."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.harness.platform.deployed import Right, rights
from tests.harness.platform.installation import CONTROLLERS, POLICY, RELAY, RUNS, SERVER, SMALL, TOGETHER, Installation
from tests.helpers.gpus import nvidia_slices as nvidia
from tests.helpers.objects.autoscaler import POOL, definition

from kajitori.core.formats.times import format_time
from kajitori.core.naming import names
from kajitori.core.pods.tickets import Ticket, sign

INSTALLING = ("scheduling.k8s.io", "priorityclasses", "patch", "")
"""Each part first tries to install the priority class. Only `kajitori-installer` has the right."""
ADMISSION = ("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "get", "")
TEAMS = ("rbac.authorization.k8s.io", "rolebindings", "list", "")
ON_PURPOSE = {INSTALLING, ("", "namespaces", "create", ""), ("", "nodes/proxy", "get", ""), ADMISSION, TEAMS}
"""Rights that the controller works without. Separate roles grant the last three."""
BLOCKS_ITS_OWNER = (names.GROUP, "runs/finalizers", "update", "")
"""The API server checks this right itself when a member is created. That is no request, so the audit log has no line
about it."""
NOT_SERVED = ("resource.k8s.io", "devicetaintrules", "watch", "")
"""This kind is not served by default. A part lists it to find out whether it is."""
CORE = "/api/v1/namespaces/vision"
POLICY_GROUP = "/apis/policy/v1/namespaces/vision/poddisruptionbudgets"
NETWORK_GROUP = "/apis/networking.k8s.io/v1/namespaces/vision/networkpolicies"
DEVICES = "/apis/resource.k8s.io/v1"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/vision/provisioningrequests"

MAIL = "mailtos://ada:s3cr3t@10.0.0.1?from=kaji@example.org&to=ada@example.org"
"""URL of a channel whose host the policy does not allow."""

pytestmark = TOGETHER


@pytest.fixture
def after_all_others(request: pytest.FixtureRequest) -> None:
    """Skip the test unless the modules before this one run too: a part has used all of its rights only after them."""
    here = Path(__file__)
    before = {path for path in here.parent.glob("test_*.py") if path < here}
    if not before <= {item.path for item in request.session.items}:
        pytest.skip("compares rights to what the whole folder used: run all of tests/cluster/parts")


def test_a_part_that_may_not_install_says_what_is_missing(installed: Installation) -> None:
    """It ends with exit code 2 and names the manifest to apply."""
    answer = installed.before_installation
    assert answer.returncode == 2 and "not installed" in answer.stderr and "deploy/rbac.yaml" in answer.stderr


@pytest.mark.usefixtures("after_all_others")
def test_the_web_api_has_exactly_the_rights_that_it_uses(installed: Installation) -> None:
    """By now the Web API has used every right of deploy/server.yaml. Its other requests are open to all users, or were
    refused, such as installing."""
    assert installed.kaji("events").returncode == installed.kaji("whoami").returncode == 0
    token = installed.kubectl("create", "token", "ada", "-n", "kajitori", "--audience=kajitori").stdout.strip()
    assert installed.refusal("/v1/nodes/here/traffic", token, b"{}") == 401, (
        "no agent's token, and none of the cluster's"
    )
    ticket = sign(Ticket("vision", "nobody", "uid", 1, 2), b"another key")
    assert installed.refusal("/v1/members/hosts", ticket) in (401, 503), "503 where the key was read a moment ago"
    for kinds in ("failed", "ended"):
        added = installed.kaji("notify", "add", "mail", "--on", kinds, "--no-test", stdin=MAIL)
        assert (added.returncode, added.stdout.strip()) == (0, "mail"), added
    may = rights("server.yaml")
    used, beyond = installed.used_by(SERVER, of=may)
    assert (used, beyond) == (may - {NOT_SERVED}, {INSTALLING})


def test_the_relay_has_exactly_the_rights_that_it_uses(installed: Installation) -> None:
    """The rights of deploy/relay.yaml allow it to read what agents need and to check their tokens."""
    token = installed.kubectl("create", "token", "ada", "-n", "kajitori", "--audience=kajitori").stdout.strip()
    assert installed.refusal("/v1/nodes/here/pods", token, url=installed.relay_url) == 401
    may = rights("relay.yaml")
    assert installed.used_by(RELAY, of=may) == (may, set())


@pytest.mark.usefixtures("after_all_others")
def test_the_controllers_have_exactly_the_rights_that_they_use(installed: Installation) -> None:
    """The two controllers have used every right of deploy/controller.yaml before this test, or use it here. Their other
    attempts need the installer's rights, or rights that operators grant separately."""
    installed.change("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    installed.until(lambda: installed.api.get(REQUESTS).status_code == 200, "the kind is served")
    rules: dict[str, Any] = {"nodePools": {"spot": POOL}, "checkpoint": {"kind": "claim"}}
    installed.use_policy(POLICY | rules)
    try:
        leave_objects_of_an_earlier_run(installed, "again", "grow")
        change_members_nodes_and_rules(installed, "again")
        let_members_end_in_every_way(installed)
        let_a_gang_request_nodes(installed, "grow")
        let_the_api_server_refuse_a_member(installed)
        let_a_message_be_refused(installed)
        let_a_run_ask_for_devices(installed)
        let_runs_find_each_other(installed)
        may = rights("controller.yaml")
        missing: set[Right] = set()

        def all_is_used() -> bool:
            missing.clear()
            missing.update(may - {BLOCKS_ITS_OWNER, NOT_SERVED} - installed.used_by(*CONTROLLERS, of=may)[0])
            return not missing

        with contextlib.suppress(AssertionError):
            installed.until(all_is_used, "all is used")
        assert not missing, sorted(missing)
        assert installed.used_by(*CONTROLLERS, of=may)[1] == ON_PURPOSE
    finally:
        installed.use_policy(POLICY)
        installed.change("DELETE", f"{DEVICES}/resourceslices/here-gpu.nvidia.com-0")
        installed.change("DELETE", f"{DEVICES}/deviceclasses/gpu.nvidia.com")
    names_of_runs = ("devices", "again", "hog", "sweep", "grow", "kept", "blog", "shop")
    for name in names_of_runs:
        installed.change("DELETE", f"{RUNS}/{name}")
    installed.until(lambda: not any(installed.run(name) for name in names_of_runs), "they are gone")


def let_a_run_ask_for_devices(installed: Installation) -> None:
    """Let a run request a GPU that only a claim can get, on a node whose process kubelet starts no member with claims.
    The first attempt loses its member, and the second one finds the existing claim template."""
    installed.change("POST", f"{DEVICES}/deviceclasses", nvidia.driver_classes(extended=False)[0])
    installed.change("POST", f"{DEVICES}/resourceslices", nvidia.slices("here", [nvidia.gpu(0, "NVIDIA L4")])[0])
    installed.submit("devices", resources=SMALL | {"gpu": 1, "gpuType": "l4"})
    member = f"{CORE}/pods/devices-1-0"
    installed.until(lambda: bool(installed.get(member)), "the first attempt has its member")
    installed.change("DELETE", member)


def let_runs_find_each_other(installed: Installation) -> None:
    """Put two runs into one network, replace a member of one, and stop it: its names follow."""
    for run in ("blog", "shop"):
        installed.submit(run, type="service", replicas=2, networks=[{"name": "net"}])
    installed.until(lambda: {installed.phase(run) for run in ("blog", "shop")} == {"Running"}, "both run")
    member = f"{CORE}/pods/shop-1-1"
    installed.change("DELETE", member)
    installed.until(lambda: not installed.get(member), "it is replaced")
    installed.until(lambda: installed.phase("shop") == "Running", "it runs again")
    installed.change("PATCH", f"{RUNS}/shop", {"spec": {"stopped": True}})
    installed.until(lambda: installed.phase("shop") == "Stopped", "it ends")


def leave_objects_of_an_earlier_run(installed: Installation, run: str, grown: str) -> None:
    """Create objects of a deleted run of the same name that were not garbage-collected. The next run of that name
    replaces them."""
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": run, "uid": "gone"}

    def left(path: str, name: str, **rest: Any) -> None:
        installed.change("POST", path, {"metadata": {"name": name, "ownerReferences": [owner]}, **rest})

    left(f"{CORE}/services", run, spec={"clusterIP": "None", "ports": [{"port": 1}]})
    left(POLICY_GROUP, run, spec={"minAvailable": 1, "selector": {"matchLabels": {"of": "gone"}}})
    left(NETWORK_GROUP, run, spec={"podSelector": {"matchLabels": {"of": "gone"}}})
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    left(f"{CORE}/podtemplates", f"{grown}-1-1", template=template)
    left(
        REQUESTS,
        f"{grown}-1-1",
        apiVersion="autoscaling.x-k8s.io/v1",
        kind="ProvisioningRequest",
        spec={
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "podSets": [{"count": 1, "podTemplateRef": {"name": f"{grown}-1-1"}}],
        },
    )
    installed.submit(run, replicas=2, resources=SMALL | {"gpu": 5}, network={"from": [], "to": []}, restarts=3)
    installed.until(lambda: installed.phase(run) == "Running", f"{run} runs")


def change_members_nodes_and_rules(installed: Installation, run: str) -> None:
    """Remove a member's owner, edit the gang's NetworkPolicy and cordon one of its nodes: the controller repairs
    each."""
    installed.change("PATCH", f"{CORE}/pods/{run}-1-0", {"metadata": {"ownerReferences": None}})
    restricts = installed.get(f"{NETWORK_GROUP}/{run}")["spec"]
    installed.change("PATCH", f"{NETWORK_GROUP}/{run}", {"spec": {"ingress": [{}]}})
    member = installed.get(f"{CORE}/pods/{run}-1-1")
    node = f"/api/v1/nodes/{member['spec']['nodeName']}"
    installed.change("PATCH", node, {"spec": {"unschedulable": True}})
    installed.until(
        lambda: bool(installed.get(f"{CORE}/pods/{run}-1-0")["metadata"].get("ownerReferences")), "its owner is back"
    )
    installed.until(
        lambda: installed.get(f"{NETWORK_GROUP}/{run}")["spec"] == restricts, "what restricts it is as it was"
    )
    installed.until(lambda: installed.get(f"{POLICY_GROUP}/{run}")["spec"]["minAvailable"] == 1, "one may be evicted")
    installed.change("PATCH", node, {"spec": {"unschedulable": None}})


def let_members_end_in_every_way(installed: Installation) -> None:
    """Let a gang restart and report its events again, a member end for lack of memory, members of a sweep be deleted as
    they end, a run be removed after its end, and a Pod of an unknown run be deleted."""
    installed.change("PATCH", f"{CORE}/pods/again-1-0", ends("exit-code", "1"))
    installed.submit("hog")
    installed.submit("sweep", array="0-1")
    installed.submit("brief", removeAfter="0s")
    wanted = ("hog", "sweep", "brief")
    installed.until(lambda: {installed.phase(name) for name in wanted} == {"Running"}, "all run")
    installed.change("PATCH", f"{CORE}/pods/brief-1-0", ends("exit-code", "0"))
    installed.until(lambda: not installed.run("brief"), "it is removed")
    installed.change("PATCH", f"{CORE}/pods/hog-1-0", ends("oom", "true"))
    installed.change("PATCH", f"{CORE}/pods/sweep-1-0", ends("exit-code", "0"))
    installed.until(lambda: not installed.get(f"{CORE}/pods/sweep-1-0"), "it went")
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY} | names.member_labels("ghost", "gone", 1, 0)
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "ghost", "uid": "gone", "controller": True}
    ghost = {"metadata": {"name": "ghost-1-0", "labels": labels, "ownerReferences": [owner]}}
    installed.change("POST", f"{CORE}/pods", ghost | {"spec": {"containers": [{"name": "main", "image": "x"}]}})
    installed.until(lambda: not installed.get(f"{CORE}/pods/ghost-1-0"), "nothing is left of it")
    installed.until(lambda: installed.attempt("again") == (2, "Running"), "again runs again")


def let_a_message_be_refused(installed: Installation) -> None:
    """Let the leading controller test a channel whose address inside the cluster it may not connect to."""
    assert installed.kaji("notify", "add", "mail", "--no-test", stdin=MAIL).returncode == 0
    answer = installed.kaji("notify", "test", "mail")
    assert answer.returncode == 1 and "notifications.networks does not allow the address 10.0.0.1" in answer.stderr
    assert "s3cr3t" not in answer.stderr + installed.kaji("notify", "ls", "-o", "json").stdout
    assert not any("s3cr3t" in installed.log(part) for part in installed.processes)


def ends(how: str, value: str) -> dict[str, Any]:
    """Metadata that make a simulated Pod end like this."""
    return {"metadata": {"annotations": {f"sim.kajitori.dev/{how}": value}}}


def let_a_gang_request_nodes(installed: Installation, run: str) -> None:
    """Nodes that an autoscaler adds on request. The request is deleted when the run is stopped."""
    installed.submit(run, resources=SMALL | {"gpu": 8, "gpuType": "a100", "wholeNode": True})

    def asked_for() -> bool:
        (owner,) = installed.get(f"{REQUESTS}/{run}-1-1").get("metadata", {}).get("ownerReferences", [{}])
        return bool(owner.get("controller"))

    installed.until(asked_for, "it asks")
    installed.change("PATCH", f"{RUNS}/{run}", {"spec": {"stopped": True}})
    installed.until(lambda: not installed.get(f"{REQUESTS}/{run}-1-1"), "it is taken back")


def let_the_api_server_refuse_a_member(installed: Installation) -> None:
    """Submit a member that is larger than a LimitRange allows: the run's message names the LimitRange. Then no volume
    can be made for the checkpoint's claim, which an event reports as a provisioner would."""
    limits = [{"type": "Container", "max": {"memory": "2Gi"}}]
    installed.change("POST", f"{CORE}/limitranges", {"metadata": {"name": "small"}, "spec": {"limits": limits}})
    checkpoint = {"path": "/ckpt", "size": "1Gi"}
    installed.submit("kept", resources=SMALL | {"memory": "3Gi"}, checkpoint=checkpoint)
    installed.until(lambda: "LimitRange small" in str(installed.run("kept").get("message")), "it is named")
    claim = {"kind": "PersistentVolumeClaim", "namespace": "vision", "name": "kept-checkpoint"}
    event = {"metadata": {"name": "kept-checkpoint.1"}, "involvedObject": claim, "type": "Warning"}
    event |= {
        "reason": "ProvisioningFailed",
        "message": "no disks left",
        "lastTimestamp": format_time(datetime.now(UTC)),
    }
    installed.change("POST", f"{CORE}/events", event)
    installed.until(
        lambda: "kept-checkpoint: no disks left" in str(installed.run("kept").get("message")), "the claim is named"
    )
    installed.change("DELETE", f"{CORE}/limitranges/small")
