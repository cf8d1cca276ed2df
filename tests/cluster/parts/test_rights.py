"""Each part has the rights that it uses and no others, as the audit log tells."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

from tests.harness.deployed import Right, rights
from tests.harness.installation import CONTROLLERS, POLICY, RELAY, RUNS, SERVER, SMALL, TOGETHER, Installation
from tests.helpers.autoscaler import POOL, definition

from kajitori.core.pods.tickets import Ticket, sign
from kajitori.core.words import names
from kajitori.core.words.times import format_time

INSTALLING = ("scheduling.k8s.io", "priorityclasses", "patch", "")
"""What each part tries first in case that it may; `kajitori-installer` may."""
ON_PURPOSE = {INSTALLING, ("", "namespaces", "create", ""), ("", "nodes/proxy", "get", "")}
"""What a controller does without where it may not: the last is granted by a role of its own."""
BLOCKS_ITS_OWNER = (names.GROUP, "runs/finalizers", "update", "")
"""What the API server asks itself when a member is made, of whoever makes it: no request, so no line in a log."""
CORE = "/api/v1/namespaces/vision"
POLICY_GROUP = "/apis/policy/v1/namespaces/vision/poddisruptionbudgets"
NETWORK_GROUP = "/apis/networking.k8s.io/v1/namespaces/vision/networkpolicies"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/vision/provisioningrequests"

pytestmark = TOGETHER


def test_what_is_not_installed_is_said(installed: Installation) -> None:
    """Without the right to install, and with nobody who has: exit code 2, and what to do."""
    answer = installed.before_installation
    assert answer.returncode == 2 and "not installed" in answer.stderr and "deploy/rbac.yaml" in answer.stderr


def test_the_web_api_has_the_rights_that_it_uses_and_no_others(installed: Installation) -> None:
    """All that deploy/server.yaml lets its account do, it has done by now, as the audit log tells; what else it asked
    for everybody may, or it was refused, as the right to install."""
    assert installed.kaji("events").returncode == 0
    token = installed.kubectl("create", "token", "ada", "-n", "kajitori", "--audience=kajitori").stdout.strip()
    assert installed.refusal("/v1/nodes/here/traffic", token, b"{}") == 401, (
        "no agent's token, and none of the cluster's"
    )
    ticket = sign(Ticket("vision", "nobody", "uid", 1, 2), b"another key")
    assert installed.refusal("/v1/members/hosts", ticket) in (401, 503), "503 where the key was read a moment ago"
    may = rights("server.yaml")
    used, beyond = installed.used_by(SERVER, of=may)
    assert (used, beyond) == (may, {INSTALLING})


def test_the_relay_has_the_rights_that_it_uses_and_no_others(installed: Installation) -> None:
    """Those of deploy/relay.yaml: it reads what agents are told of, and asks whose their tokens are."""
    url = installed.log("relay").split("relay: ")[1].split()[0]
    token = installed.kubectl("create", "token", "ada", "-n", "kajitori", "--audience=kajitori").stdout.strip()
    assert installed.refusal("/v1/nodes/here/pods", token, url=url) == 401
    may = rights("relay.yaml")
    assert installed.used_by(RELAY, of=may) == (may, set())


def test_a_controller_has_the_rights_that_it_uses_and_no_others(installed: Installation) -> None:
    """All that deploy/controller.yaml lets its account do, the two have done by now or do it here, as the audit log
    tells; what else they tried is for whoever installs, or granted on purpose."""
    installed.change("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    installed.until(lambda: installed.api.get(REQUESTS).status_code == 200, "the kind is served")
    rules: dict[str, Any] = {"nodePools": {"spot": POOL}, "checkpoint": {"kind": "claim"}}
    installed.use_policy(POLICY | rules)
    try:
        an_earlier_run_left_what_it_had(installed, "again", "grow")
        members_nodes_and_rules_are_meddled_with(installed, "again")
        members_end_in_every_way(installed)
        a_gang_asks_for_nodes(installed, "grow")
        the_api_server_refuses(installed)
        may = rights("controller.yaml")
        missing: set[Right] = set()

        def all_is_used() -> bool:
            missing.clear()
            missing.update(may - {BLOCKS_ITS_OWNER} - installed.used_by(*CONTROLLERS, of=may)[0])
            return not missing

        with contextlib.suppress(AssertionError):
            installed.until(all_is_used, "all is used")
        assert not missing
        assert installed.used_by(*CONTROLLERS, of=may)[1] == ON_PURPOSE
    finally:
        installed.use_policy(POLICY)
    for name in ("again", "hog", "sweep", "grow", "kept"):
        installed.change("DELETE", f"{RUNS}/{name}")
    installed.until(
        lambda: not any(installed.run(name) for name in ("again", "hog", "sweep", "grow", "kept")), "they are gone"
    )


def an_earlier_run_left_what_it_had(installed: Installation, run: str, grown: str) -> None:
    """Of the same name, and nobody has collected it yet: its successor makes it way."""
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


def members_nodes_and_rules_are_meddled_with(installed: Installation, run: str) -> None:
    """Somebody takes a member's owner away, edits what restricts the gang, cordons a node of it: all is put right."""
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


def members_end_in_every_way(installed: Installation) -> None:
    """A gang that starts anew says again what it said; the kernel ends a member; of a sweep each goes when it is done;
    a run is removed after its end; a Pod is left of a run that nobody knows."""
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


def ends(how: str, value: str) -> dict[str, Any]:
    """What a simulated Pod's metadata say to it."""
    return {"metadata": {"annotations": {f"sim.kajitori.dev/{how}": value}}}


def a_gang_asks_for_nodes(installed: Installation, run: str) -> None:
    """Of a kind that only comes when somebody asks; it is taken back when nobody wants it any more."""
    installed.submit(run, resources=SMALL | {"gpu": 8, "gpuType": "a100", "wholeNode": True})

    def asked_for() -> bool:
        (owner,) = installed.get(f"{REQUESTS}/{run}-1-1").get("metadata", {}).get("ownerReferences", [{}])
        return bool(owner.get("controller"))

    installed.until(asked_for, "it asks")
    installed.change("PATCH", f"{RUNS}/{run}", {"spec": {"stopped": True}})
    installed.until(lambda: not installed.get(f"{REQUESTS}/{run}-1-1"), "it is taken back")


def the_api_server_refuses(installed: Installation) -> None:
    """A member that is larger than a LimitRange allows, which is named; then its checkpoint's claim finds no volume, as
    whoever provides storage would report it."""
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
