"""Admission of a spec: template, request, limits and findings, or all reasons for a refusal."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.scenes.deciding import FACTS, GI, codes, container, decided, env, node, refused

from kajitori.core.admission.decide import Facts
from kajitori.core.admission.resolve import promised_restarts
from kajitori.core.naming import first_step
from kajitori.core.placement.snapshot import NodeTable
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.status import Finding
from kajitori.embedded.apiserver.certificates import ensure_certificates


def test_a_run_with_only_an_image_gets_every_default() -> None:
    """Each default is a finding."""
    decision = decided()
    assert codes(decision) == {
        "CpuDefaulted",
        "MemoryDefaulted",
        "QosGuaranteed",
        "RestartsDefaulted",
        "GraceDefaulted",
        "PriorityDefaulted",
        "EnvDefaulted",
        "MustNotBeRoot",
        "SecurityRestricted",
    }
    amounts = {"cpu": "1", "memory": "2Gi"}
    assert container(decision)["resources"] == {"requests": amounts, "limits": amounts}
    assert decision.request.cpu_millis == 1000
    assert decision.request.memory_bytes == 2 * GI
    assert decision.limits.restarts == 0
    assert decision.limits.grace_seconds == 30
    assert decision.limits.restart_grace_seconds == 5
    assert decision.limits.time_limit_seconds is None
    assert decision.claim is None
    assert not decision.bind_direct


def test_every_pod_has_the_fields_that_our_rules_need() -> None:
    """No preemption by the scheduler, node loss is decided by the controller, and the log's end is the termination
    message."""
    spec = decided().template["spec"]
    assert spec["preemptionPolicy"] == "Never"
    assert spec["priorityClassName"] == "kajitori"
    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert {(toleration["key"], toleration["effect"]) for toleration in spec["tolerations"]} == {
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    }
    assert all("tolerationSeconds" not in toleration for toleration in spec["tolerations"])
    assert spec["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert spec["containers"][0]["securityContext"] == {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert decided({"type": "service"}).template["spec"]["restartPolicy"] == "Always"


def test_a_full_spec_becomes_a_pod_template() -> None:
    """GPUs, shared memory, a checkpoint and a volume become the corresponding Kubernetes fields."""
    decision = decided(
        {
            "command": ["python", "train.py", "--price", "$(cat x)"],
            "env": {"LR": "3e-4", "PS1": "$$"},
            "replicas": 2,
            "launcher": "torchrun",
            "resources": {"cpu": 8, "memory": "64Gi", "gpu": 8, "gpuType": "H100", "shm": "16Gi"},
            "volumes": [{"name": "imagenet", "path": "/data"}],
            "secrets": [
                {"name": "wandb"},
                {"name": "hf", "key": "token", "env": "HF_TOKEN"},
                {"name": "s", "path": "/s"},
            ],
            "checkpoint": {"path": "/ckpt"},
            "priority": "high",
            "user": 1000,
            "grace": "2s",
            "ports": [80],
            "labels": {"project": "x"},
        },
        {"volumes": {"imagenet": {"nfs": {"server": "nas", "path": "/imagenet"}, "readOnly": True}}},
    )
    spec = decision.template["spec"]
    main = spec["containers"][0]
    assert main["resources"]["limits"] == {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}
    assert main["resources"]["requests"] == main["resources"]["limits"]
    assert main["command"][-1] == "$$(cat x)"
    assert main["envFrom"] == [{"secretRef": {"name": "wandb"}}]
    assert env(decision) == {
        "PYTHONUNBUFFERED": "1",
        "LR": "3e-4",
        "PS1": "$$$$",
        "HF_TOKEN": {"secretKeyRef": {"name": "hf", "key": "token"}},
        "NPROC_PER_NODE": "8",
        "PET_NPROC_PER_NODE": "8",
        "KAJI_METRICS": "/kajitori-metrics/metrics.jsonl",
        "KAJI_CHECKPOINT_DIR": "/ckpt",
    }
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
    assert volumes["checkpoint"]["persistentVolumeClaim"] == {"claimName": "bert-checkpoint"}
    assert volumes["volume-0"]["nfs"] == {"server": "nas", "path": "/imagenet"}
    mounts = {mount["mountPath"]: mount for mount in main["volumeMounts"]}
    assert set(mounts) == {"/dev/shm", "/ckpt", "/data", "/s", "/kajitori-metrics"}
    assert mounts["/data"]["readOnly"] is True
    assert decision.claim is not None
    assert decision.claim["spec"]["resources"]["requests"]["storage"] == "100Gi"
    assert decision.claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert {"VolumeReadOnly", "CheckpointSizeDefaulted", "TolerationsAdded"} <= codes(decision)
    assert decision.request.gpu_type == "h100"
    assert decision.priority == 100
    assert decision.limits.restart_grace_seconds == 2
    assert decision.template["metadata"]["labels"]["project"] == "x"
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]


def test_a_whole_node_gets_all_gpus_and_a_large_share_of_the_rest() -> None:
    decision = decided({"resources": {"wholeNode": True, "gpuType": "a100"}, "replicas": 2})
    assert decision.request.whole_node
    assert decision.template["metadata"]["labels"] == {"kajitori.dev/whole-node": "true"}
    assert decision.request.gpus == 4
    assert decision.request.cpu_millis == 28_800
    assert decision.request.memory_bytes == 256 * 1024 * 90 // 100 * 2**20
    assert {"WholeNodeGpus", "WholeNodeCpu", "WholeNodeMemory"} <= codes(decision)
    unknown = refused({"resources": {"wholeNode": True, "gpuType": "a100"}}, None, Facts())
    assert unknown["spec.resources.gpu"].code == "Unknown"


def test_requests_below_limits_are_allowed_with_a_finding_about_the_risk() -> None:
    decision = decided({"qos": "burstable", "resources": {"memory": "8g", "memoryRequest": "2g", "cpuRequest": "500m"}})
    resources = container(decision)["resources"]
    assert resources == {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "8Gi"}}
    assert "BurstableRisk" in codes(decision)
    assert "QosGuaranteed" not in codes(decision)
    assert decision.request.memory_bytes == 2 * GI


SAVES = {"checkpoint": {"path": "/ckpt"}}


@pytest.mark.parametrize(
    ("document", "policy", "restarts", "told"),
    [
        ({}, {}, 0, "no restarts without a checkpoint"),
        (SAVES, {}, 3, "3 restarts"),
        ({"restarts": 2}, {}, 2, ""),
        (SAVES | {"restarts": 0}, {}, 0, ""),
        ({"array": "0-9"}, {}, 0, "no restarts without a checkpoint"),
        (SAVES | {"array": "0-9"}, {}, 3, "3 restarts"),
        (SAVES, {"restarts": 1}, 1, "1 restart"),
        ({}, {"restarts": 5}, 0, "no restarts without a checkpoint"),
        ({}, {"restartsWithoutCheckpoint": 1}, 1, "1 restart without a checkpoint"),
    ],
)
def test_a_failing_program_restarts_only_from_a_checkpoint(
    document: dict[str, Any], policy: dict[str, int], restarts: int, told: str
) -> None:
    """Without a checkpoint it would begin again and fail again: four tracebacks for one typo. The run or policy may
    decide otherwise."""
    decision = decided(document, {"defaults": policy})
    assert decision.limits.restarts == restarts
    assert [finding.message for finding in decision.findings if finding.code == "RestartsDefaulted"] == [told] * bool(
        told
    )


@pytest.mark.parametrize(
    ("told", "policy", "restarts"),
    [
        ("3 restarts", {}, 3),
        ("3 restarts", {"restarts": 2}, 2),
        ("1 restart", {}, 1),
        ("no restarts without a checkpoint", {}, 0),
        ("2 restarts without a checkpoint", {}, 2),
        ("many restarts", {}, 0),
        ("", {}, 0),
    ],
)
def test_a_run_stored_by_an_earlier_version_keeps_its_restarts(
    told: str, policy: dict[str, int], restarts: int
) -> None:
    """Earlier versions restarted every run; policy's present limit still applies."""
    told_before = promised_restarts([Finding("CpuDefaulted", "9 cores"), Finding("RestartsDefaulted", told)])
    facts = replace(FACTS, promised_restarts=told_before)
    decision = decided({}, {"defaults": policy}, facts)
    assert decision.limits.restarts == restarts
    assert promised_restarts(decision.findings) == restarts
    assert decided({"restarts": 1}, {}, facts).limits.restarts == 1


def test_python_output_is_unbuffered_by_default() -> None:
    """Each line is in the log at once. The run and policy may decide otherwise, and a finding reports it."""
    asked, policy = {"env": {"PYTHONUNBUFFERED": ""}}, {"defaults": {"env": {"PYTHONUNBUFFERED": "0"}}}
    said = [
        env(decided(*arguments)).get("PYTHONUNBUFFERED")
        for arguments in (({},), (asked,), ({}, policy), (asked, policy))
    ]
    assert said == ["1", "", "0", ""]
    (told,) = (finding for finding in decided().findings if finding.code == "EnvDefaulted")
    assert (told.message, told.field) == ("env PYTHONUNBUFFERED", "spec.env")
    assert "EnvDefaulted" not in codes(decided(asked))


def test_no_memory_limit_means_no_restart() -> None:
    """A run without a memory limit is not restarted on another node."""
    decision = decided({"restarts": 10}, {"memoryWithoutLimit": "unlimited"})
    assert decision.limits.restarts == 0
    assert "memory" not in container(decision)["resources"]["limits"]
    assert "RestartsForcedToZero" in codes(decision)
    assert decision.request.unlimited and not decision.limits.memory_limited
    limited = decided({"restarts": 10, "resources": {"memory": "1g"}}, {"memoryWithoutLimit": "unlimited"})
    assert limited.limits.restarts == 10
    assert not limited.request.unlimited and limited.limits.memory_limited


def test_a_service_needs_a_memory_limit() -> None:
    """It is restarted however often it fails, so without a limit it would exhaust the memory of one node after the
    other."""
    rules = {"memoryWithoutLimit": "unlimited"}
    assert refused({"type": "service"}, rules)["spec.resources.memory"].code == "MemoryLimitRequired"
    assert decided({"type": "service", "resources": {"memory": "1g"}}, rules)


def test_everything_that_policy_adds_is_a_finding() -> None:
    """It is also in the template."""
    decision = decided(
        {"env": {"HTTP_PROXY": "mine", "DEBUG": "1", "WANDB_API_KEY": "x"}, "image": "bert"},
        {
            "inject": {
                "labels": {"cost": "42"},
                "annotations": {"note": "hello"},
                "env": {"HTTP_PROXY": "http://proxy", "NODE": "$(HOST)"},
                "tolerations": [{"key": "team", "operator": "Exists"}],
                "nodeSelector": {"disk": "ssd"},
                "runtimeClass": "nvidia",
                "schedulerName": "other",
                "resources": {"hugepages-1Gi": "2Gi"},
            },
            "images": {"pullSecrets": ["registry"], "pullPolicy": "Always"},
            "defaults": {"env": {"TZ": "UTC", "DEBUG": "0"}, "shm": "1Gi", "timeLimit": "7d"},
            "security": {
                "defaultUser": "1000:100",
                "fsGroup": 100,
                "addCapabilities": ["IPC_LOCK"],
                "readOnlyRoot": True,
            },
        },
    )
    spec = decision.template["spec"]
    annotations = {"note": "hello", "kajitori.dev/own-folders": "kajitori-metrics"}
    assert decision.template["metadata"] == {"labels": {"cost": "42"}, "annotations": annotations}
    assert env(decision) == {
        "PYTHONUNBUFFERED": "1",
        "TZ": "UTC",
        "DEBUG": "1",
        "WANDB_API_KEY": "x",
        "HTTP_PROXY": "http://proxy",
        "NODE": "$(HOST)",
        "KAJI_METRICS": "/kajitori-metrics/metrics.jsonl",
    }
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["schedulerName"] == "other"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["securityContext"] == {"fsGroup": 100}
    assert container(decision)["imagePullPolicy"] == "Always"
    assert container(decision)["securityContext"]["runAsUser"] == 1000
    assert container(decision)["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert container(decision)["resources"]["limits"]["hugepages-1Gi"] == "2Gi"
    assert decision.limits.time_limit_seconds == 7 * 86400
    assert {
        "LabelsAdded",
        "AnnotationsAdded",
        "EnvAdded",
        "EnvReplaced",
        "EnvDefaulted",
        "TolerationsAdded",
        "NodeSelectorAdded",
        "RuntimeClassSet",
        "SchedulerSet",
        "ResourcesAdded",
        "ShmDefaulted",
        "UserDefaulted",
        "TimeLimitDefaulted",
        "SecretInEnv",
        "ImageTagLatest",
        "SecurityRestricted",
    } <= codes(decision)


def test_the_servers_certificate_authority_reaches_the_first_step(tmp_path: Path) -> None:
    pem = ensure_certificates(tmp_path).ca.read_text()
    start = {"image": "kajitori:1", "server": "https://kaji:8600"}
    for more, expected in (({}, None), ({"serverCA": pem}, pem)):
        (step,) = decided({"replicas": 2}, {"start": start | more}).template["spec"]["initContainers"]
        said = {variable["name"]: variable["value"] for variable in step["env"]}
        assert said.get(first_step.CA_ENV) == expected


def test_a_program_that_was_taken_for_the_image_is_a_finding() -> None:
    """A newcomer leaves the image out, and waits for a pull that fails."""
    for image in ("python3", "train.py"):
        found = codes(decided({"image": image}))
        assert "ImageIsProgram" in found and "ImageTagLatest" not in found
    assert "ImageIsProgram" not in codes(decided({"image": "python"}))


def test_a_service_has_no_finding_about_restarts() -> None:
    """Its members are restarted without a limit."""
    assert "RestartsDefaulted" in codes(decided({}))
    assert "RestartsDefaulted" not in codes(decided({"type": "service"}))


def test_policy_binds_members_directly_everywhere_or_on_some_pools() -> None:
    pools = {"binding": {"directlyOn": [{"pool": "h"}]}}
    assert not decided({}, pools).bind_direct
    assert decided({"nodeSelector": {"pool": "h"}}, pools).bind_direct
    assert decided({}, {"binding": {"bind": "direct"}}).bind_direct


def test_changing_a_decision_changes_neither_policy_nor_spec() -> None:
    policy = parse_policy({"inject": {"labels": {"a": "b"}, "resources": {"x/y": "1"}}})
    before = copy.deepcopy(policy)
    first = decided({}, policy)
    first.template["metadata"]["labels"]["a"] = "changed"
    first.template["spec"]["containers"][0]["resources"]["limits"]["x/y"] = "9"
    assert policy == before
    assert decided({}, policy).template["metadata"]["labels"] == {"a": "b"}


def test_a_gpu_type_may_be_written_as_in_the_nodes_label() -> None:
    labelled = node("n", gpus=8, gpu_type="h100", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    document = {"resources": {"gpu": 1, "gpuType": "nvidia-h100-80gb-hbm3"}}
    assert decided(document, facts=Facts(table=NodeTable([labelled]))).request.gpu_type == "h100"
