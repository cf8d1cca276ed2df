"""`kaji upgrade` by one version and back while 48 members run and 20 runs wait: nothing restarts and nothing is
lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.harness.platform.installation import CONTROLLERS, RELAY, RUNS, SERVER, TOGETHER, Installation

from kajitori.entrypoints.installation.planning import DEFINITION

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RECORD = "/api/v1/namespaces/kajitori/configmaps/kajitori-install"
CONTROLLER = "/apis/apps/v1/namespaces/kajitori/deployments/kajitori-controller"
BUDGETS = "/apis/policy/v1/namespaces/kajitori/poddisruptionbudgets"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kajitori-controller"
GANGS, MEMBERS, WAITING = 3, 16, 20
NODES = GANGS * MEMBERS // 8
ONE = {"cpu": 0.1, "memory": "64Mi", "gpu": 1, "gpuType": "a100"}

pytestmark = TOGETHER


@pytest.fixture
def busy(installed: Installation) -> Iterator[Installation]:
    """More simulated nodes, three gangs of 16 members on all of their GPUs, and 20 runs that wait for a whole node."""
    many = (
        "--nodes",
        str(NODES),
        "--gpus",
        "8",
        "--gpu-type",
        "a100",
        "--prefix",
        "new-",
        "--untaint",
        "--delete-nodes",
    )
    installed.start("new", "sim", "nodes", *many)
    installed.until(lambda: len(installed.get("/api/v1/nodes")["items"]) == 5 + NODES, "more nodes are there")
    for number in range(GANGS):
        installed.submit(f"gang-{number}", replicas=MEMBERS, resources=ONE, restarts=3)
    installed.until(lambda: phases(installed) == {"Running": GANGS}, "all gangs run")
    for number in range(WAITING):
        installed.submit(f"waits-{number}", resources=ONE | {"gpu": 8})
    installed.until(lambda: phases(installed) == {"Running": GANGS, "Queued": WAITING}, "the others wait")
    yield installed
    for run in runs(installed):
        installed.change("DELETE", f"{RUNS}/{run['metadata']['name']}")
    installed.until(lambda: not runs(installed), "nothing is left")
    process = installed.processes.pop("new")
    process.terminate()
    assert process.wait(60) == 0, installed.log("new")
    left = [node["metadata"]["name"] for node in installed.get("/api/v1/nodes")["items"]]
    assert len(left) == 5, (left, installed.log("new"))


def test_an_upgrade_and_a_downgrade_change_no_run(busy: Installation) -> None:
    """The upgrade is from 0.0.9 and the downgrade from 0.2.0; both change the definition, the role and the image. All
    parts are replaced."""
    before = members(busy)
    assert len(before) == GANGS * MEMBERS

    pretend_installed_by(busy, "0.0.9", "kajitori:0.0.9")
    schema = spec_schema(busy)
    fewer = {name: part for name, part in schema.items() if name != "timeLimit"}
    replace_spec_schema(busy, fewer)
    busy.change("PATCH", ROLE, {"rules": busy.get(ROLE)["rules"][:-1]})
    said = busy.as_administrator("upgrade", "--wait", "0").stderr
    assert "from 0.0.9 to 0.1.0" in said and "removed PodDisruptionBudget kajitori-old" in said
    assert spec_schema(busy) == schema and not busy.get(f"{BUDGETS}/kajitori-old")
    replace_parts(busy)
    assert_untouched(busy, before)

    pretend_installed_by(busy, "0.2.0", "kajitori:0.2.0")
    replace_spec_schema(busy, schema | {"later": {"type": "string"}})
    busy.change("PATCH", f"{RUNS}/gang-0/status", {"status": {"later": "a field of the newer version"}})
    said = busy.as_administrator("upgrade", "--wait", "0").stderr
    assert "Going back from 0.2.0 to 0.1.0" in said
    assert "later" in spec_schema(busy), "what the newer version stored is not dropped"
    replace_parts(busy)
    assert_untouched(busy, before)

    pretend_installed_by(busy, "0.3.0", "kajitori:0.3.0")
    refused = busy.as_administrator("upgrade", check=False)
    assert refused.returncode == 2 and "install kajitori 0.2" in refused.stderr
    pretend_installed_by(busy, "0.1.0", "kajitori:0.1.0")
    busy.as_administrator("upgrade", "--wait", "0")
    assert spec_schema(busy) == schema
    assert_untouched(busy, before)

    busy.change("PATCH", f"{RUNS}/gang-1", {"spec": {"stopped": True}})
    more = MEMBERS // 8  # each takes one of the nodes that the gang had
    wanted = {"Running": GANGS - 1 + more, "Queued": WAITING - more, "Stopped": 1}
    busy.until(lambda: phases(busy) == wanted, f"{more} more run")


def test_an_upgrade_that_would_break_a_stored_run_is_refused(installed: Installation) -> None:
    """A stored run uses a field that this version does not have: nothing is changed, and the run is named."""
    schema = spec_schema(installed)
    pretend_installed_by(installed, "0.0.9", "kajitori:0.0.9")
    replace_spec_schema(installed, schema | {"earlier": {"type": "string"}})
    installed.submit("old", earlier="value", stopped=True)
    try:
        refused = installed.as_administrator("upgrade", "--wait", "0", check=False)
        assert refused.returncode == 2 and "vision/old.spec.earlier is set, and is gone" in refused.stderr
        assert "earlier" in spec_schema(installed)
        assert installed.get(CONTROLLER)["spec"]["template"]["spec"]["containers"][0]["image"] == "kajitori:0.0.9"
    finally:
        installed.change("DELETE", f"{RUNS}/old")
        installed.until(lambda: not installed.get(f"{RUNS}/old"), "it is gone")
        installed.as_administrator("upgrade", "--wait", "0")
        installed.report_ready()


def pretend_installed_by(installed: Installation, version: str, image: str) -> None:
    """Change the record, a Deployment and a budget to what that version would have written."""
    record = installed.get(RECORD)["data"]
    objects = f"{record['objects']}policy/PodDisruptionBudget/kajitori/kajitori-old\n"
    installed.change("PATCH", RECORD, {"data": {"version": version, "objects": objects}})
    if not installed.get(f"{BUDGETS}/kajitori-old"):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"of": "nothing"}}}
        installed.change("POST", BUDGETS, {"metadata": {"name": "kajitori-old"}, "spec": spec})
    spec = installed.get(CONTROLLER)["spec"]
    spec["template"]["spec"]["containers"][0]["image"] = image
    installed.change("PATCH", CONTROLLER, {"spec": spec})


def spec_schema(installed: Installation) -> dict[str, Any]:
    """Return the properties of a Run's spec that the API server has."""
    (version,) = installed.get(f"{DEFINITIONS}/{DEFINITION}")["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return found


def replace_spec_schema(installed: Installation, properties: dict[str, Any]) -> None:
    found = installed.get(f"{DEFINITIONS}/{DEFINITION}")
    (version,) = found["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = properties
    installed.change("PUT", f"{DEFINITIONS}/{DEFINITION}", found)


def replace_parts(installed: Installation) -> None:
    """End each living process and start it with the current command line of its Deployment, one after the other."""
    address = {"server": urlsplit(installed.url).port, "relay": urlsplit(installed.relay_url).port}
    for name in (*CONTROLLERS, "server", "relay"):
        process = installed.processes[name]
        if process.poll() is not None:  # an earlier test killed this controller
            continue
        process.terminate()
        assert process.wait(60) == 0, installed.log(name)[-1500:]
        if name in CONTROLLERS:
            told = installed.arguments("controller", identity=name, **{"member-server": installed.url})
            installed.start(name, "controller", name, *told)
        else:
            user = SERVER if name == "server" else RELAY
            installed.start(name, name, user, *installed.arguments(name, port=str(address[name])))
            installed.until(lambda: installed.kaji("version").returncode == 0, "the Web API answers")
    installed.until(lambda: installed.leader() in CONTROLLERS, "a controller leads")
    installed.report_ready()
    installed.as_administrator("install", "--wait", "20")


def members(installed: Installation) -> dict[str, tuple[str, str, str]]:
    """Return the UID, node and phase of each member of the gangs."""
    selector = "labelSelector=kajitori.dev/run-uid"
    pods = installed.get(f"/api/v1/namespaces/vision/pods?{selector}")["items"]
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"]["nodeName"], pod["status"]["phase"])
        for pod in pods
        if pod["metadata"]["name"].startswith("gang-")
    }


def assert_untouched(installed: Installation, before: dict[str, tuple[str, str, str]]) -> None:
    """Check that the same Pods run on the same nodes, no run has another attempt, and all waiting runs still wait."""
    installed.until(lambda: phases(installed) == {"Running": GANGS, "Queued": WAITING}, "as before")
    assert members(installed) == before
    statuses = [run["status"] for run in runs(installed) if run["status"]["phase"] == "Running"]
    assert {(status["attempt"]["number"], status.get("restarts", 0)) for status in statuses} == {(1, 0)}


def runs(installed: Installation) -> list[dict[str, Any]]:
    """Return the runs of this test."""
    found = installed.get(RUNS)["items"]
    return [run for run in found if run["metadata"]["name"].startswith(("gang-", "waits-"))]


def phases(installed: Installation) -> Counter[str]:
    return Counter(run.get("status", {}).get("phase", "") for run in runs(installed))
