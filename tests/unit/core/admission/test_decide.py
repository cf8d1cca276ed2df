"""Admission of a spec: template, request, limits and findings, or all reasons for a refusal."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.scenes.deciding import CLUSTER, FACTS, GI, codes, container, decided, env, node, refused

from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.admission.resolve import promised_restarts
from kajitori.core.placement.snapshot import NodeFacts, NodeTable
from kajitori.core.policy.file import default_policy, on_own_cluster, parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.status import Finding
from kajitori.core.words import first_step
from kajitori.core.words.nodes.taints import Taint
from kajitori.embedded.apiserver.certificates import ensure_certificates
from kajitori.errors import Refused


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


REFUSALS: list[tuple[str, dict[str, Any], dict[str, Any], str, str, str]] = [
    (
        "unknown type",
        {"resources": {"gpu": 1, "gpuType": "z9"}},
        {},
        "resources.gpuType",
        "UnknownGpuType",
        "a100, h100",
    ),
    ("too many GPUs", {"resources": {"gpu": 9}}, {}, "resources.gpu", "LargerThanAnyNode", "at most 8"),
    ("of a type", {"resources": {"gpu": 8, "gpuType": "a100"}}, {}, "resources.gpu", "LargerThanAnyNode", "at most 4"),
    ("memory", {"resources": {"memory": "1Ti"}}, {}, "resources.memory", "LargerThanAnyNode", "64Gi"),
    ("gang", {"replicas": 6, "resources": {"gpu": 8}}, {}, "replicas", "LargerThanTheCluster", "at most 5"),
    ("label", {"nodeSelector": {"disk": "tape"}}, {}, "nodeSelector", "NoSuchNode", "kaji nodes"),
    ("privileged", {"privileged": True}, {}, "privileged", "Privileged", "leave it out"),
    ("root", {"user": "0:0"}, {}, "user", "Root", "1000"),
    ("host network", {"hostNetwork": True}, {}, "hostNetwork", "HostNetwork", "leave it out"),
    ("no volumes", {"volumes": [{"name": "x", "path": "/x"}]}, {}, "volumes[0].name", "UnknownVolume", "no volumes"),
    (
        "unknown volume",
        {"volumes": [{"name": "imagnet", "path": "/x"}]},
        {"volumes": {"imagenet": {"claim": "c"}}},
        "volumes[0].name",
        "UnknownVolume",
        "imagenet",
    ),
    ("host path", {"volumes": [{"hostPath": "/etc", "path": "/x"}]}, {}, "volumes[0].hostPath", "HostPathRefused", ""),
    (
        "a neighbour's folder",
        {"volumes": [{"hostPath": "/home/ab", "path": "/x"}]},
        {"mounts": {"hostPaths": ["/home/a"]}},
        "volumes[0].hostPath",
        "HostPathRefused",
        "/home/a",
    ),
    ("no limit", {}, {"memoryWithoutLimit": "refuse"}, "resources.memory", "MemoryLimitRequired", "16Gi"),
    (
        "burstable",
        {"qos": "burstable", "resources": {"cpuRequest": 1}},
        {"allowBurstable": False},
        "qos",
        "Burstable",
        "",
    ),
    ("image", {"image": "evil"}, {"images": {"allow": ["good/*"]}}, "image", "ImageRefused", "good/*"),
    ("ceiling", {"resources": {"gpu": 4}}, {"ceilings": {"member": {"gpu": 2}}}, "resources.gpu", "AboveCeiling", "2"),
    ("together", {"replicas": 3}, {"ceilings": {"run": {"cpu": 2}}}, "resources.cpu", "AboveCeiling", "2"),
    ("time", {"timeLimit": "2d"}, {"ceilings": {"run": {"timeLimit": "1d"}}}, "timeLimit", "AboveCeiling", "1d"),
    (
        "selector",
        {"nodeSelector": {"pool": "h"}},
        {"inject": {"nodeSelector": {"pool": "c"}}},
        "nodeSelector['pool']",
        "NodeSelectorFixed",
        "leave it out",
    ),
    (
        "everything tolerated",
        {"tolerations": [{"operator": "Exists"}]},
        {},
        "tolerations[0].key",
        "TolerationRefused",
        "list the taints by key",
    ),
    (
        "control plane",
        {"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]},
        {},
        "tolerations[0].key",
        "TolerationRefused",
        "leave it out",
    ),
    (
        "somebody else's Secret",
        {"secrets": [{"name": "db"}]},
        {"security": {"allowSecrets": ["run-*"]}},
        "secrets[0].name",
        "SecretRefused",
        "run-*",
    ),
    ("shm", {"resources": {"shm": "3Gi"}}, {}, "resources.shm", "ShmAboveMemory", "resources.memory"),
    ("no checkpoints", {"checkpoint": {"path": "/c"}}, {"checkpoint": {"kind": "none"}}, "checkpoint", "", ""),
]


@pytest.mark.parametrize(
    ("document", "policy", "field", "code", "hint"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS]
)
def test_each_refusal_names_its_field_and_a_remedy(
    document: dict[str, Any], policy: dict[str, Any], field: str, code: str, hint: str
) -> None:
    faults = refused(document, policy)
    fault = faults[f"spec.{field}"]
    assert hint in fault.hint
    assert not code or fault.code == code


def test_all_reasons_for_a_refusal_are_reported_at_once() -> None:
    faults = refused(
        {
            "privileged": True,
            "user": 0,
            "image": "evil",
            "volumes": [{"name": "nope", "path": "/a"}, {"hostPath": "/etc", "path": "/b"}],
            "resources": {"gpu": 64},
            "secrets": [{"name": "wandb"}],
        },
        {"images": {"deny": ["evil*"]}},
        Facts(table=CLUSTER, secrets=frozenset({"wand"})),
    )
    assert set(faults) == {
        "spec.privileged",
        "spec.user",
        "spec.image",
        "spec.volumes[0].name",
        "spec.volumes[1].hostPath",
        "spec.resources.gpu",
        "spec.secrets[0].name",
    }
    assert faults["spec.secrets[0].name"].hint == "did you mean wand?"


def test_the_texts_that_are_copied_into_all_pods_have_a_limit() -> None:
    """Each Pod has a copy: 20 members with a megabyte each once took 108 MB of etcd."""
    words = {"replicas": 2000, "args": ["x" * 50_000]}
    fault = refused(words, facts=Facts())["spec"]
    assert fault.code == "AboveCeiling" and "95.5Mi for 2000 members" in fault.message
    assert decided(words | {"replicas": 1000}, facts=Facts())
    assert "spec" in refused(words | {"replicas": 2}, {"ceilings": {"run": {"podText": "90Ki"}}})
    sweep = {"args": words["args"], "array": "0-1999%16"}
    assert decided(sweep, facts=Facts()), "of a sweep as many as are there at once"


def test_a_lack_of_resources_refuses_only_new_runs() -> None:
    """An admitted run waits instead. If the cluster can grow, a new run waits as well."""
    huge = {"replicas": 100, "resources": {"gpu": 8, "gpuType": "h100"}}
    assert "spec.replicas" in refused(huge)
    assert decided(huge, facts=Facts(table=CLUSTER, admitted=True)).request.gpus == 8
    assert decided(huge, {"nodesOnDemand": True}).request.gpus == 8
    assert decided(huge, facts=Facts()).request.gpus == 8
    assert decided(huge, facts=Facts(table=NodeTable([]))).request.gpus == 8


CONTROL_PLANE = Taint("node-role.kubernetes.io/control-plane")
NOT_A_NODE_FOR_RUNS_YET = {
    "no node at all": (),
    "a node that has not said what it has": (NodeFacts("new", 0, 0, 0, 110),),
    "a control plane alone": (NodeFacts("master", 4000, 8 * GI, 0, 110, taints=(CONTROL_PLANE,)),),
    "one that has not said it beside one that has": (NodeFacts("new", 0, 0, 0, 110), NodeFacts("c1", 500, GI, 0, 110)),
}


@pytest.mark.parametrize("nodes", NOT_A_NODE_FOR_RUNS_YET.values(), ids=NOT_A_NODE_FOR_RUNS_YET)
def test_a_run_waits_while_the_cluster_has_no_nodes(nodes: tuple[NodeFacts, ...]) -> None:
    """It would be wrong to refuse it for good because the cluster has just started."""
    facts = Facts(table=NodeTable(nodes))
    assert decided({"resources": {"cpu": 8, "memory": "16Gi"}}, facts=facts).request.cpu_millis == 8000
    assert decided({"replicas": 9, "resources": {"gpu": 8, "gpuType": "h100"}}, facts=facts).request.gpus == 8
    whole = decided({"resources": {"wholeNode": True, "gpuType": "h100"}}, facts=facts)
    assert whole.request.gpus and whole.request.gpu_type == "h100", "no node without GPUs will do"


def test_a_refusal_mentions_only_taints_that_a_run_may_tolerate() -> None:
    """Taints of control planes are not mentioned."""
    facts = Facts(table=NodeTable([NodeFacts("a", 4000, 8 * GI, 0, 110, taints=(Taint("team", "other"),))]))
    assert refused({}, facts=facts)["spec.tolerations"].code == "NotTolerated"


def test_broken_nodes_count_for_what_a_cluster_can_hold() -> None:
    """The gang may fit once they are repaired, so it waits."""
    assert decided({"replicas": 5, "resources": {"gpu": 8, "gpuType": "h100"}}).request.gpus == 8


def test_gpu_nodes_do_not_count_for_cpu_runs_if_policy_keeps_them_free() -> None:
    faults = refused(
        {"replicas": 4, "resources": {"cpu": 16, "memory": "1Gi"}}, {"gpu": {"cpuRunsOnGpuNodes": "never"}}
    )
    assert "at most 3" in faults["spec.replicas"].hint
    only_gpus = Facts(table=NodeTable([node("h", gpus=8, gpu_type="h100")]))
    assert refused({}, {"gpu": {"cpuRunsOnGpuNodes": "never"}}, only_gpus)["spec.resources.gpu"].code == "NoCpuNodes"
    assert decided({}, None, only_gpus).request.gpus == 0


def test_a_cluster_without_gpus_is_named_as_the_reason() -> None:
    cpus = Facts(table=NodeTable([node("c")]))
    fault = refused({"resources": {"gpu": 1}}, None, cpus)["spec.resources.gpu"]
    assert fault.code == "NoGpus"
    assert fault.message == "this cluster has no GPUs: its only node is c, with 64 cores and 512Gi of memory"
    assert fault.hint == "leave GPUs out, or ask the operators of the cluster"
    of_type = refused({"resources": {"gpu": 1, "gpuType": "h100"}}, None, cpus)["spec.resources.gpuType"]
    assert of_type.hint == f"{fault.message}; {fault.hint}"
    many = Facts(table=NodeTable([node("c"), node("d")]))
    fault = refused({"resources": {"gpu": 1}}, {"operators": "the ML team (#gpus)"}, many)["spec.resources.gpu"]
    assert "none of its 2 nodes has any" in fault.message
    assert fault.hint == "leave GPUs out, or ask the ML team (#gpus)"


def test_on_a_cluster_of_ones_own_nobody_is_to_be_asked() -> None:
    """Whoever called `kaji up` is its operator."""
    cpus = Facts(table=NodeTable([node("c")]))
    own = on_own_cluster(parse_policy({"images": {"deny": ["*"]}}), "kajitori", "http://127.0.0.1:1")
    found = refused({"resources": {"gpu": 1}}, own, cpus)
    assert "nvidia-smi lists" in found["spec.resources.gpu"].hint
    assert found["spec.image"].hint == "change the policy of this cluster: kaji policy show"
    told = on_own_cluster(parse_policy({"operators": "Ada"}), "kajitori", "http://127.0.0.1:1")
    assert refused({"resources": {"gpu": 1}}, told, cpus)["spec.resources.gpu"].hint == "leave GPUs out, or ask Ada"


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


def test_an_invalid_name_is_refused() -> None:
    """A Run created with kubectl may have a name that no host name can have."""
    for name in ("1a", "a" * 49, "a.b"):
        with pytest.raises(Refused) as caught:
            decide(parse_spec({"image": "a:1"}), default_policy(), FACTS, run=RunIdentity(name, "vision"))
        assert [fault.field for fault in caught.value.faults] == ["metadata.name"]


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


@pytest.mark.parametrize("written", ["h1000", "h10", "x-H100-y"])
def test_an_unknown_gpu_type_is_refused_with_the_known_ones(written: str) -> None:
    """The policy's patterns are for labels of nodes, not for what users type."""
    faults = refused({"resources": {"gpu": 1, "gpuType": written}})
    assert "h100" in faults["spec.resources.gpuType"].hint


def test_a_gpu_type_may_be_written_as_in_the_nodes_label() -> None:
    labelled = node("n", gpus=8, gpu_type="h100", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    document = {"resources": {"gpu": 1, "gpuType": "nvidia-h100-80gb-hbm3"}}
    assert decided(document, facts=Facts(table=NodeTable([labelled]))).request.gpu_type == "h100"


def test_code_is_refused_without_a_first_step() -> None:
    """There is no first step if the policy has no start.image."""
    digest = "sha256:" + "a" * 64
    faults = refused({"code": {"digest": digest}, "files": {"digest": digest, "items": [{"path": "/x"}]}})
    expected = {"spec.code": "NoFirstStep", "spec.files": "NoFirstStep"}
    assert {field: fault.code for field, fault in faults.items()} == expected
    assert faults["spec.code"].hint.startswith("ask the operators to set start.image"), "a function has no other way"


def test_a_restart_of_hung_gangs_needs_restarts() -> None:
    """The user's wish is refused then; the policy's action applies to runs with restarts only."""
    faults = refused({"onStuck": "restart"})
    assert {field: fault.code for field, fault in faults.items()} == {"spec.onStuck": "NoRestarts"}
    assert decided({"onStuck": "restart", "restarts": 1}).limits.restarts_stuck
    assert not decided({"restarts": 1}).limits.restarts_stuck
    policy = parse_policy({"stuck": {"action": "restart"}})
    asked: tuple[dict[str, Any], ...] = ({"restarts": 1}, {}, {"restarts": 1, "onStuck": "tell"})
    assert [decided(fields, policy=policy).limits.restarts_stuck for fields in asked] == [True, False, False]


@pytest.mark.parametrize(
    ("known", "named", "hint"),
    [
        (frozenset({"slack"}), ["slack"], None),
        (frozenset({"slack"}), ["slak"], "did you mean slack?"),
        (frozenset(), ["faild"], "did you mean failed?"),
        (frozenset(), ["zzz"], "known: drained, ended"),
        (None, ["zzz"], None),
    ],
)
def test_a_channel_that_does_not_exist_is_refused(
    known: frozenset[str] | None, named: list[str], hint: str | None
) -> None:
    """Otherwise its messages would arrive nowhere. Without the names of all channels nothing is known."""
    spec, facts = {"notify": {"channels": named}}, replace(FACTS, channels=known)
    if hint is None:
        decided(spec, facts=facts)
    else:
        (fault,) = refused(spec, facts=facts).values()
        assert (fault.field, fault.code) == ("spec.notify.channels[0]", "ChannelNotFound")
        assert fault.hint.startswith(f"see your channels: kaji notify ls; {hint}")
