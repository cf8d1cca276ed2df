"""The run that tests a node."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.kubernetes.taints import Taint
from kajitori.core.naming import names
from kajitori.core.nodes.preflight import EXPECTED_GPUS_ENV, name_of_test, policy_for_tests, run_of_test, spec_of_test
from kajitori.core.placement.snapshot import NodeFacts, NodeTable
from kajitori.core.policy.file import Policy, parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import name_fault
from kajitori.errors import InvalidInput, Refused

LABELS = {"kubernetes.io/hostname": "host-7"}
NODE = NodeFacts(
    "gpu-7.example", 64_000, 2**39, 8, 110, gpu_type="h100", labels=LABELS, taints=(Taint("team", "vision"),)
)
SCRATCH = {"hostPath": "/scratch", "path": "/scratch"}
STRICT = {
    "images": {"allow": ["registry/*"]},
    "ceilings": {"member": {"gpu": 1, "memory": "2Gi"}, "run": {"timeLimit": "1m"}},
    "inject": {"nodeSelector": {"pool": "runs"}},
    "security": {"refuseTolerations": ["team"]},
}


def policy(**preflight: Any) -> Policy:
    return parse_policy({**STRICT, "preflight": {"image": "tests/preflight:1", "command": ["check"], **preflight}})


def test_a_test_takes_the_whole_node_and_never_restarts() -> None:
    rules = policy()
    spec = parse_spec(spec_of_test(NODE, rules))
    assert (spec.resources.gpus, spec.resources.whole_node, spec.restarts) == (8, True, 0)
    assert spec.node_selector == LABELS
    decision = decide(spec, policy_for_tests(rules), Facts(NodeTable([NODE])), run=RunIdentity("test-a", "kajitori"))
    tolerated = {toleration.key for toleration in decision.request.tolerations}
    assert {names.TAINT_UNHEALTHY, names.TAINT_PREFLIGHT, "team"} <= tolerated
    assert (decision.limits.restarts, decision.limits.time_limit_seconds) == (0, 600)


def test_a_tests_spec_is_minimal() -> None:
    """It asks for no more than a small node has."""
    small = replace(NODE, cpu_millis=1500, memory_bytes=2**30, gpus=0, labels={}, taints=())
    assert spec_of_test(small, policy(command=[], env={"A": "1"}, gpu=2, shm="2Gi", volumes=[SCRATCH])) == {
        "image": "tests/preflight:1",
        "env": {EXPECTED_GPUS_ENV: "2", "A": "1"},
        "resources": {"cpu": "1500m", "memory": "1Gi", "gpu": 0, "wholeNode": True, "shm": "1Gi"},
        "volumes": [SCRATCH],
        "timeLimit": "10m",
        "grace": "10s",
        "restarts": 0,
        "priority": "high",
        "nodeSelector": {"kubernetes.io/hostname": "gpu-7.example"},
    }
    large = spec_of_test(NODE, policy(cpu="4", memory="8Gi"))
    assert (large["resources"]["cpu"], large["resources"]["memory"], large["command"]) == ("4", "8Gi", ["check"])


def test_policy_allows_only_the_tests_image() -> None:
    spec = parse_spec(spec_of_test(NODE, policy()) | {"image": "registry/bert:3"})
    with pytest.raises(Refused, match=r"no pattern of images\.allow"):
        decide(spec, policy_for_tests(policy()), Facts(), run=RunIdentity("test-a", "kajitori"))
    with pytest.raises(Refused, match="tests/preflight"):
        decide(parse_spec(spec_of_test(NODE, policy())), policy(), Facts(), run=RunIdentity("a", "team"))


def test_other_runs_cannot_use_nodes_that_are_out() -> None:
    """Whatever they tolerate."""
    spec = parse_spec({"image": "bert:3", "tolerations": [{"key": names.TAINT_UNHEALTHY, "operator": "Exists"}]})
    with pytest.raises(Refused, match=r"not allow runs to tolerate the taint kajitori\.dev/unhealthy"):
        decide(spec, parse_policy({}), Facts(), run=RunIdentity("bert", "team"))


def test_without_a_test_the_policy_is_unchanged() -> None:
    rules = parse_policy(STRICT)
    assert policy_for_tests(rules) is rules
    assert not policy_for_tests(policy()).security.allow_root
    anybody = policy().model_copy(update={"security": rules.security.model_copy(update={"allow_root": True})})
    assert policy_for_tests(anybody).security.allow_root


def test_a_missing_gpu_is_left_for_the_test_to_find() -> None:
    """A request for it would wait for ever."""
    spec = spec_of_test(NODE, policy(gpu=16))
    assert spec["resources"]["gpu"] == 8
    assert spec["env"][EXPECTED_GPUS_ENV] == "16"


def test_the_policy_of_tests_is_in_the_spec() -> None:
    rules = policy(user=0, privileged=True, shm="1Gi", volumes=[SCRATCH])
    spec = parse_spec(spec_of_test(NODE, rules))
    assert (spec.user, spec.privileged, spec.resources.shm_bytes) == ("0", True, 2**30)
    decision = decide(spec, policy_for_tests(rules), Facts(NodeTable([NODE])), run=RunIdentity("test-a", "kajitori"))
    assert decision.template["spec"]["volumes"][-2]["hostPath"]["path"] == "/scratch"


@pytest.mark.parametrize("node", ["gpu-7", "GPU_7.example.com", "9", "--", "x" * 253])
def test_a_tests_name_is_valid_for_a_run(node: str) -> None:
    assert name_fault(name_of_test(node, "uid", "")) is None
    assert name_of_test(node, "uid", "[]") != name_of_test(node, "uid", "")
    assert name_of_test(node, "uid", "") == name_of_test(node, "uid", "")


def test_only_a_tests_host_paths_are_added_to_policy() -> None:
    rules = policy(volumes=[{"name": "data", "path": "/data"}, SCRATCH])
    assert policy_for_tests(rules).mounts.host_paths == ["/scratch"]


def test_a_tests_name_begins_with_the_nodes_name_as_far_as_it_fits() -> None:
    for node, plain in (("GPU_7.example", "test-gpu-7-example-"), ("--", "test-"), ("x" * 253, "test-xxxx")):
        name = name_of_test(node)
        assert name.startswith(plain) and re.fullmatch(r"[0-9a-f]{8}", name[-8:])
    assert len(name_of_test("--")) == len("test-") + 8
    assert len(name_of_test("x" * 253)) == names.RUN_NAME_MAX_LENGTH


def test_the_run_names_its_node_and_who_requested_the_test() -> None:
    made = run_of_test(NODE, policy(namespace="ops"), "test-a", "ada")
    assert made["metadata"] == {
        "name": "test-a",
        "namespace": "ops",
        "annotations": {names.ANNOTATION_TESTED_NODE: "gpu-7.example", names.ANNOTATION_TEST_WANTED: "ada"},
    }
    by_itself = run_of_test(NODE, policy(), "test-a", "")
    assert by_itself["metadata"]["annotations"] == {names.ANNOTATION_TESTED_NODE: NODE.name}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"command": ["x"], "image": None}, "command needs image"),
        ({"shm": "8Gi", "memory": "4Gi"}, "shm is larger than memory"),
    ],
)
def test_contradicting_settings_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        policy(**wrong)
