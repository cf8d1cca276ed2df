"""`kaji network bench`: the runs it creates, its output, and that it deletes its runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.helpers.output_schemas import check_output
from tests.unit.cli.fake_web_api import Call, FakeWebApi, frame, invoke, view

from kajitori.cli.network.bench import Measured, conclusions, program


def node(name: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": f"host-{name}"}
    amount = {"total": gpus, "used": 0}
    known = {"name": name, "ready": True, "schedulable": True, "taints": [], "labels": labels, "gpus": amount}
    return known | {"gpuType": "h100" if gpus else ""} | more


class FakeCluster(FakeWebApi):
    """A Web API whose runs start at once; `found` has the bits per second, MTU and address of each network."""

    def __init__(self, found: dict[str, tuple[int, int, str]], *nodes: dict[str, Any], **policy: Any) -> None:
        rules = {"start": {"image": "kajitori:1"}, "security": {"allowHostNetwork": True}, "gpu": {}, "defaults": {}}
        rules |= {"ceilings": {"run": {}}} | policy
        super().__init__(answers={"GET /v1/policy": {"policy": rules}, "GET /v1/nodes": {"items": list(nodes)}})
        self.answers["POST /v1/runs"] = self._create
        self.found = found
        self.specs: dict[str, dict[str, Any]] = {}

    def _create(self, call: Call) -> tuple[int, Any]:
        name, spec = call.body["name"], call.body["spec"]
        _, kind, end, _ = name.split("-")
        self.specs[f"{kind} {end}"] = spec
        made = view(name, "Running" if end == "to" else "Succeeded", namespace=call.body.get("namespace", "vision"))
        self.runs.append(made)
        path = f"/v1/runs/{made['namespace']}/{name}"
        bits, mtu, address = self.found[kind]
        result = json.dumps({"mtu": mtu, "bitsPerSecond": bits}) if bits else "no client came within 5 s"
        self.answers[f"GET {path}/members"] = {"items": [{"rank": 0, "address": address}]}
        log_text = f"listening on 4{len(kind)}" if end == "to" else result
        self.answers[f"GET {path}/logs"] = [frame(log_text)]
        return 201, made


PODS, HOSTS = (9_400_000_000, 1450, "10.8.0.4"), (10_000_000_000, 1500, "10.1.0.4")


def test_both_networks_between_two_nodes_are_measured() -> None:
    """One run at each end is created on its node, for each network; all are deleted afterwards."""
    api = FakeCluster({"pods": PODS, "hosts": HOSTS}, node("a"), node("b"), node("c"))
    words = ("--seconds", "2", "--streams", "4", "--wait", "100", "--cpus", "2")
    result = invoke(api, "network", "bench", "b", "c", *words, "-N", "ops")
    assert [line.split() for line in result.stdout.splitlines()[:3]] == [
        ["WHAT", "FROM", "TO", "THROUGHPUT", "PATH", "MTU"],
        ["pods", "b", "c", "9.40", "Gbit/s", "1450"],
        ["hosts", "b", "c", "10.00", "Gbit/s", "1500"],
    ]
    assert result.stdout.splitlines()[3:] == [
        "Pods get 94 % of what their nodes get.",
        "Packets of Pods are 50 bytes smaller than those of their nodes, the overhead of VXLAN or Geneve.",
    ]
    assert [line for line in result.stderr.splitlines() if line.startswith("measuring")] == [
        "measuring pods: b to c",
        "measuring hosts: b to c",
    ]
    server, client = api.specs["pods to"], api.specs["pods from"]
    assert server["nodeSelector"] == {"kubernetes.io/hostname": "host-c"}
    assert server["command"][:4] == ["python3", "-I", "-c", program()]
    assert server["command"][4:] == ["serve", "164"], "as long as the other end may take: to start, to send, and more"
    assert server["resources"] == {"cpu": "2", "memory": "256Mi"}
    assert (server["restarts"], server["timeLimit"]) == (0, "10m")
    assert client["nodeSelector"] == {"kubernetes.io/hostname": "host-b"}
    assert client["command"][4:] == ["measure", "10.8.0.4", "44", "2", "4"]
    assert "hostNetwork" not in server
    assert api.specs["hosts to"]["hostNetwork"] and api.specs["hosts from"]["hostNetwork"]
    assert api.specs["hosts from"]["command"][5] == "10.1.0.4"
    assert sorted(call.path for call in api.calls_to("DELETE")) == sorted(
        f"/v1/runs/ops/{run['name']}" for run in api.runs
    )


def test_only_pods_are_measured_if_policy_forbids_the_hosts_network() -> None:
    """A note says why. Nodes without taints are chosen."""
    busy = node("a", taints=["x=y:NoSchedule"])
    simulated = node("s", labels={"sim.kajitori.dev/pool": "pool"})
    closed = (node("dead", ready=False), node("cordoned", schedulable=False))
    api = FakeCluster({"pods": PODS}, busy, simulated, *closed, node("b"), node("c"), node("d"), security={})
    result = invoke(api, "network", "bench", "-o", "json")
    found = json.loads(result.stdout)
    check_output(found, "verbs/network bench", complete=True)
    assert [(item["kind"], item["source"], item["target"], item["mtu"]) for item in found["items"]] == [
        ("pods", "b", "c", 1450)
    ]
    assert found["items"][0]["bitsPerSecond"] == 9_400_000_000
    assert found["conclusions"] == []
    assert "allowHostNetwork" in result.stderr
    assert all("namespace" not in call.body for call in api.calls_to("POST"))


def test_a_cluster_without_suitable_nodes_is_refused() -> None:
    api = FakeCluster({}, node("a", taints=["x=y:NoSchedule"]), node("b", ready=False))
    result = invoke(api, "network", "bench")
    assert result.exit_code == 2 and "no node is ready, open and without taints" in result.stderr


def test_a_measurement_within_one_node_is_named_as_such() -> None:
    api = FakeCluster({"pods": (10**9, 65535, "127.0.0.1"), "hosts": (10**9, 0, "127.0.0.1")}, node("a"))
    assert invoke(api, "network", "bench").stdout.splitlines()[3:] == [
        "Both ends are on a: this is the way within one node, no network between two.",
        "If no path MTU is shown, no UDP packet came back.",
        "Pods have their node's own address here: both lines are the same network.",
    ]


def test_runs_ask_for_a_gpu_and_for_network_access_if_they_need_them() -> None:
    restricted = {"network": {"to": ["storage"]}}
    api = FakeCluster({"pods": PODS, "hosts": HOSTS}, node("a", gpus=8), node("b"), defaults=restricted)
    assert invoke(api, "network", "bench", "a", "b").exit_code == 0
    assert api.specs["pods from"]["resources"] == {"cpu": "1", "memory": "256Mi", "gpu": 1, "gpuType": "h100"}
    assert "gpu" not in api.specs["pods to"]["resources"]
    assert api.specs["pods to"]["network"] == {"from": ["namespace"], "to": ["namespace"]}
    assert "network" not in api.specs["hosts to"]


@pytest.mark.parametrize(
    ("policy", "restricted", "gpu"),
    [
        ({"gpu": {"cpuRunsOnGpuNodes": "always"}}, False, {}),
        ({"gpu": {"cpuRunsOnGpuNodes": "never"}}, False, {"gpu": 1}),
        ({"ceilings": {"run": {"network": {"from": []}}}}, True, {"gpu": 1}),
        ({"ceilings": {"run": {"network": {"from": None, "to": None}}}}, False, {"gpu": 1}),
        ({"ceilings": {}, "defaults": {"network": None}}, False, {"gpu": 1}),
        ({"ceilings": {"run": None}, "defaults": None, "gpu": None}, False, {"gpu": 1}),
    ],
)
def test_gpus_and_network_rules_are_requested_only_if_policy_needs_them(
    policy: dict[str, Any], restricted: bool, gpu: dict[str, Any]
) -> None:
    """A GPU is requested if CPU runs may not use the node, network access if policy restricts it."""
    api = FakeCluster({"pods": PODS}, node("a", gpus=8, gpuType=""), **policy, security={})
    assert invoke(api, "network", "bench").exit_code == 0
    assert api.specs["pods to"]["resources"] == {"cpu": "1", "memory": "256Mi", **gpu}
    assert ("network" in api.specs["pods to"]) is restricted


@pytest.mark.parametrize(
    ("words", "policy", "message"),
    [
        (("a",), {}, "a way has two ends"),
        (("a", "z"), {}, "there is no node z"),
        (("--seconds", "61"), {}, "at most 60"),
        ((), {"start": {}}, "policy names no image"),
    ],
)
def test_wrong_arguments_and_a_missing_image_are_refused(
    words: tuple[str, ...], policy: dict[str, Any], message: str
) -> None:
    api = FakeCluster({"pods": PODS}, node("a"), **policy)
    result = invoke(api, "network", "bench", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not api.calls_to("POST")


def test_runs_are_deleted_after_a_failure() -> None:
    """The other end was not reached, or a run never starts; the error repeats the run's message."""
    api = FakeCluster({"pods": (0, 0, "10.8.0.4")}, node("a"), security={})
    result = invoke(api, "network", "bench")
    assert result.exit_code == 125
    assert "a was not reached from a: no client came within 5 s" in result.stderr
    assert len(api.calls_to("DELETE")) == 2
    waiting = view("waits", "Queued", status={"message": "nothing fits now"})
    api = FakeCluster({}, node("a"))
    api.answers |= {"POST /v1/runs": (201, waiting)}
    api.runs.append(waiting)
    result = invoke(api, "network", "bench", "--wait", "2")
    assert "waits does not run after 2 s: nothing fits now" in result.stderr
    assert len(api.naps) == 4
    assert len(api.calls_to("DELETE")) == 1


def test_a_run_that_ends_early_is_reported_with_its_last_line() -> None:
    """Without output, with the reason of its end. Each run is deleted."""
    failed = view("fails", "Failed", status={"message": "exit code 1"})
    for lines, message in (
        ([frame("no python3 here\n")], "fails ended: no python3 here"),
        ([], "fails ended: exit code 1"),
    ):
        api = FakeCluster({}, node("a"))
        api.answers |= {
            "POST /v1/runs": (201, failed),
            "GET /v1/runs/vision/fails/logs": lambda _, expected=lines: expected,
        }
        api.runs.append(failed)
        result = invoke(api, "network", "bench")
        assert result.exit_code == 125 and message in result.stderr, result.stderr
        assert len(api.calls_to("DELETE")) == 1 and not api.naps


@pytest.mark.parametrize(
    ("status", "message"),
    [({"message": "nothing fits"}, "nothing fits"), ({"reason": "WaitingForGPU"}, "WaitingForGPU"), ({}, "Queued")],
)
def test_a_run_that_does_not_start_is_reported_with_its_reason(status: dict[str, Any], message: str) -> None:
    api = FakeCluster({}, node("a"))
    waiting = view("waits", "Queued", status=status)
    api.answers |= {"POST /v1/runs": (201, waiting)}
    api.runs.append(waiting)
    result = invoke(api, "network", "bench", "--wait", "1")
    assert f"waits does not run after 1 s: {message}" in result.stderr, result.stderr


def test_a_run_that_ends_without_output_is_reported() -> None:
    silent = view("silent", "Succeeded", status={"message": "all is over"})
    api = FakeCluster({}, node("a"))
    api.answers |= {
        "POST /v1/runs": (201, silent),
        "GET /v1/runs/vision/silent/members": {"items": [{"rank": 0, "address": "10.8.0.4"}]},
    }
    api.runs.append(silent)
    result = invoke(api, "network", "bench")
    assert "silent ended without a word: all is over" in result.stderr


def measured(kind: str, bits: int, mtu: int) -> Measured:
    return Measured(kind, "a", "b", f"of {kind}", bits, mtu)


@pytest.mark.parametrize(
    ("pods", "hosts", "expected"),
    [
        ((5, 1500), (10, 1500), ["Pods get 50 % of what their nodes get."]),
        ((10, 1500), (10, 1450), ["Pods get 100 % of what their nodes get."]),
        ((1, 1490), (0, 1500), ["Packets of Pods are 10 bytes smaller than those of their nodes."]),
        ((1, 1430), (0, 1500), ["…70 bytes smaller than those of their nodes, the overhead of VXLAN or Geneve."]),
        ((1, 1480), (0, 1500), ["…20 bytes smaller than those of their nodes, the overhead of IP-in-IP."]),
        ((1, 1420), (0, 1500), ["…80 bytes smaller than those of their nodes, the overhead of WireGuard."]),
        ((1, 0), (0, 1500), ["If no path MTU is shown, no UDP packet came back."]),
    ],
)
def test_conclusions_compare_the_two_networks(
    pods: tuple[int, int], hosts: tuple[int, int], expected: list[str]
) -> None:
    """They name the loss and the encapsulation that explains the smaller packets; nothing is concluded from missing
    figures."""
    found = conclusions([measured("pods", *pods), measured("hosts", *hosts)])
    assert found == conclusions([measured("hosts", *hosts), measured("pods", *pods)])
    assert len(found) == len(expected)
    assert all(one.endswith(words.removeprefix("…")) for one, words in zip(found, expected, strict=True)), found
