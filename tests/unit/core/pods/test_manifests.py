"""The Kubernetes objects of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.naming import first_step, names
from kajitori.core.pods.manifests import MemberPods, checkpoint_claim, headless_service, launcher_of, priority_class
from kajitori.core.pods.tickets import Ticket, verify
from kajitori.core.policy.file import parse_policy
from kajitori.core.spec.reading.parsing import parse_spec

METRICS = {"name": "kajitori-metrics", "emptyDir": {}}
METRICS_MOUNT = {"name": "kajitori-metrics", "mountPath": "/kajitori-metrics"}
"""The folder in which programs write their figures."""


DELIVERING = {"start": {"image": "kajitori:1", "server": "http://kajitori:8600"}}


def members(
    document: dict[str, Any] | None = None, *, port: int = 20001, policy: dict[str, Any] | None = None, **more: Any
) -> MemberPods:
    """Return the Pods of the third attempt of a run named bert with these fields."""
    spec = parse_spec({"image": "bert:3", "replicas": 4} | (document or {}))
    rules = {"inject": {"labels": {"cost": "42"}, "annotations": {"note": "x"}}, **(policy or {})}
    decision = decide(spec, parse_policy(rules), Facts(), run=RunIdentity("bert", "vision"))
    return MemberPods(
        decision.template,
        run_name="bert",
        namespace="vision",
        run_uid="u-1",
        attempt=3,
        world_size=spec.replicas,
        port=port,
        launcher=launcher_of(spec),
        **more,
    )


def env(pod: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in pod["spec"]["containers"][0]["env"]}


def test_a_members_pod_has_run_attempt_and_rank() -> None:
    """They are in its name, host name, labels and environment; the Pod belongs to the Run."""
    pod = members().pod(2, "gpu-7")
    assert pod["metadata"] == {
        "name": "bert-3-2",
        "namespace": "vision",
        "labels": {
            "cost": "42",
            "app.kubernetes.io/managed-by": "kajitori",
            "kajitori.dev/run": "bert",
            "kajitori.dev/run-uid": "u-1",
            "kajitori.dev/attempt": "3",
            "kajitori.dev/rank": "2",
        },
        "annotations": {"note": "x", "kajitori.dev/own-folders": "kajitori-metrics"},
        "ownerReferences": [
            {
                "apiVersion": "kajitori.dev/v1alpha1",
                "kind": "Run",
                "name": "bert",
                "uid": "u-1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert pod["spec"]["hostname"] == "bert-3-2"
    assert pod["spec"]["subdomain"] == "bert"
    assert env(pod) == {
        "PYTHONUNBUFFERED": "1",
        "KAJI_RUN": "bert",
        "KAJI_RANK": "2",
        "KAJI_WORLD_SIZE": "4",
        "KAJI_ATTEMPT": "3",
        "MASTER_ADDR": "bert-3-0.bert",
        "MASTER_PORT": "20001",
        "KAJI_METRICS": "/kajitori-metrics/metrics.jsonl",
    }


def test_a_member_is_pinned_by_node_name_or_bound_directly() -> None:
    """The pin is a field selector, which the scheduler resolves at once."""
    pinned = members().pod(0, "gpu-7")["spec"]
    terms = pinned["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-7"]}]}]
    assert "nodeName" not in pinned
    bound = members(bind_direct=True).pod(0, "gpu-7")["spec"]
    assert bound["nodeName"] == "gpu-7"
    assert "affinity" not in bound


def test_torchruns_members_have_all_variables_that_it_reads() -> None:
    pod = members({"launcher": "torchrun", "resources": {"gpu": 8}}).pod(3, "n")
    found = env(pod)
    assert found["MASTER_ADDR"] == found["PET_MASTER_ADDR"] == "bert-3-0.bert"
    assert found["MASTER_PORT"] == found["PET_MASTER_PORT"] == "20001"
    assert found["NODE_RANK"] == found["PET_NODE_RANK"] == "3"
    assert found["NNODES"] == found["PET_NNODES"] == "4"
    assert found["NPROC_PER_NODE"] == found["PET_NPROC_PER_NODE"] == "8"


def test_torchrun_can_meet_with_c10d() -> None:
    """`torchrun --rdzv-backend c10d` meets at the same place. Rank 0 knows that it is the host, under a name that
    others can resolve. Another attempt never joins."""
    first, last = (env(members({"launcher": "torchrun"}).pod(rank, "n")) for rank in (0, 3))
    assert first["PET_RDZV_ENDPOINT"] == last["PET_RDZV_ENDPOINT"] == "bert-3-0.bert:20001"
    assert first["PET_RDZV_ID"] == last["PET_RDZV_ID"] == "bert-3"
    assert (first["PET_RDZV_CONF"], last["PET_RDZV_CONF"]) == ("is_host=True", "is_host=False")
    assert (first["PET_LOCAL_ADDR"], last["PET_LOCAL_ADDR"]) == ("bert-3-0.bert", "bert-3-3.bert")
    assert env(members({"launcher": "torchrun", "env": {"PET_RDZV_BACKEND": "c10d"}}).pod(0, "n"))["PET_RDZV_BACKEND"]


@pytest.mark.parametrize("document", [{"replicas": 1}, {"type": "service"}])
def test_a_single_member_and_a_service_have_no_meeting_point(document: dict[str, Any]) -> None:
    assert "MASTER_ADDR" not in env(members(document).pod(0, "n"))


def test_without_a_launcher_the_users_meeting_point_is_kept() -> None:
    found = env(members({"env": {"MASTER_ADDR": "elsewhere"}}).pod(1, "n"))
    assert found["MASTER_ADDR"] == "elsewhere"
    assert found["MASTER_PORT"] == "20001"


def test_no_variable_is_repeated_in_a_pod() -> None:
    """Whatever policy and launcher add."""
    pod = members({"launcher": "torchrun", "env": {"A": "b"}, "checkpoint": {"path": "/c"}}).pod(1, "n")
    listed = [variable["name"] for variable in pod["spec"]["containers"][0]["env"]]
    assert len(listed) == len(set(listed))


def test_members_differ_only_in_rank_and_node() -> None:
    """Creating a Pod does not change those created before."""
    pods = members()
    first = json.dumps(pods.pod(0, "a"))
    other = json.dumps(pods.pod(1, "b"))
    assert json.dumps(pods.pod(0, "a")) == first
    assert first.replace("bert-3-0", "bert-3-1") != other
    swapped = first.replace('"name": "bert-3-0"', '"name": "bert-3-1"').replace(
        '"hostname": "bert-3-0"', '"hostname": "bert-3-1"'
    )
    swapped = swapped.replace('"KAJI_RANK", "value": "0"', '"KAJI_RANK", "value": "1"')
    swapped = swapped.replace('"kajitori.dev/rank": "0"', '"kajitori.dev/rank": "1"').replace(
        '"values": ["a"]', '"values": ["b"]'
    )
    assert swapped == other


def test_members_of_a_sweep_know_only_their_index() -> None:
    """Each has world size 1 and its own checkpoint folder. The first step knows its Pod's name."""
    document = {
        "replicas": 1,
        "array": "5-9",
        "checkpoint": {"path": "/ckpt"},
        "code": {"digest": "sha256:" + "0" * 64},
    }
    pod = members(document, policy=DELIVERING | {"defaults": {"timeLimit": "1h"}}).pod(7, "gpu-7")
    assert pod["metadata"]["name"] == "bert-3-7"
    assert pod["metadata"]["labels"]["kajitori.dev/rank"] == "7"
    assert env(pod) == {
        "PYTHONUNBUFFERED": "1",
        "KAJI_RUN": "bert",
        "KAJI_RANK": "0",
        "KAJI_WORLD_SIZE": "1",
        "KAJI_ATTEMPT": "3",
        "KAJI_ARRAY_INDEX": "7",
        "KAJI_ARRAY_COUNT": "5",
        "KAJI_ARRAY_MIN": "5",
        "KAJI_ARRAY_MAX": "9",
        "KAJI_RESULT": "/dev/termination-log",
        "KAJI_METRICS": "/kajitori-metrics/metrics.jsonl",
        "KAJI_CHECKPOINT_DIR": "/ckpt/7",
        "KAJI_CODE_DIR": "/code",
        "KAJI_CALLS_SERVER": "http://kajitori:8600",
    }
    step = {variable["name"]: variable["value"] for variable in pod["spec"]["initContainers"][0]["env"]}
    assert (step["KAJI_RANK"], step["KAJI_WORLD_SIZE"]) == ("7", "1")
    assert pod["spec"]["activeDeadlineSeconds"] == 3600


def test_files_are_mounts_of_what_the_first_step_fetches() -> None:
    """So any image has them, also one without a shell. A gang's own /etc/hosts is not mounted over the user's."""
    digest = "sha256:" + "0" * 64
    items = [{"path": "/etc/app.conf", "mode": "600"}, {"path": "/etc/hosts"}]
    pod = members({"files": {"digest": digest, "items": items}}, policy=DELIVERING).pod(0, "gpu-7")["spec"]
    mounts = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "kajitori-files"]
    assert mounts == [
        {"name": "kajitori-files", "mountPath": "/etc/app.conf", "subPath": "files/000"},
        {"name": "kajitori-files", "mountPath": "/etc/hosts", "subPath": "files/001"},
    ]
    step = pod["initContainers"][0]
    assert step["volumeMounts"][-1] == {"name": "kajitori-files", "mountPath": "/kajitori-files"}
    assert {variable["name"]: variable["value"] for variable in step["env"]}["KAJI_START_FILE_MODES"] == "600 644"
    paths = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
    assert len(paths) == len(set(paths)) and pod["volumes"].count({"name": "kajitori-files", "emptyDir": {}}) == 1


def test_the_longest_run_name_gives_a_valid_host_name() -> None:
    """At most 63 characters."""
    assert len(names.pod_name("a" * names.RUN_NAME_MAX_LENGTH, 99_999, 99_998)) <= 63


def test_the_service_resolves_members_before_they_are_ready() -> None:
    """It is deleted with the run."""
    service = headless_service(run_name="bert", namespace="vision", run_uid="u-1", ports=[80])
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"kajitori.dev/run-uid": "u-1"},
        "ports": [{"name": "port-80", "port": 80}],
    }
    assert service["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert "ports" not in headless_service(run_name="b", namespace="v", run_uid="u", ports=[])["spec"]


def test_the_checkpoint_claim_has_no_owner_and_outlives_the_run() -> None:
    claim = checkpoint_claim(
        run_name="bert", namespace="vision", size_bytes=2**30, access_mode="ReadWriteMany", storage_class="fast"
    )
    assert claim["metadata"]["name"] == "bert-checkpoint"
    assert "ownerReferences" not in claim["metadata"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }


def test_our_priority_class_never_preempts() -> None:
    """Its value is that of Pods without a class."""
    assert priority_class()["preemptionPolicy"] == "Never"
    assert priority_class()["value"] == 0


START = {"start": {"image": "registry/kajitori:1", "server": "http://kajitori.kajitori.svc:8600/", "deadline": "100s"}}


def starting(document: dict[str, Any] | None = None, **policy: Any) -> dict[str, Any]:
    """Return the spec of a member's Pod under a policy with a first step."""
    spec: dict[str, Any] = members(document, policy=START | policy, key=b"k" * 32).pod(2, "gpu-7")["spec"]
    return spec


def test_a_member_of_a_gang_has_a_first_step() -> None:
    """It knows server, ticket and files, and writes to a folder that the program can only read."""
    spec = starting({"resources": {"gpu": 8, "cpu": 8, "memory": "64Gi"}})
    (step,) = spec["initContainers"]
    said = {variable["name"]: variable["value"] for variable in step["env"]}
    ticket = said.pop("KAJI_START_TICKET")
    assert verify(ticket, b"k" * 32) == Ticket("vision", "bert", "u-1", 3, 4)
    assert said == {
        "KAJI_RUN": "bert",
        "KAJI_RANK": "2",
        "KAJI_WORLD_SIZE": "4",
        "KAJI_ATTEMPT": "3",
        "KAJI_START_SERVER": "http://kajitori.kajitori.svc:8600",
        "KAJI_START_FOLDER": "/kajitori",
        "KAJI_START_SLOTS": "8",
        "KAJI_START_DEADLINE": "90",
    }
    assert (step["image"], step["volumeMounts"]) == (
        "registry/kajitori:1",
        [{"name": "kajitori", "mountPath": "/kajitori"}],
    )
    assert step["resources"] == {
        "requests": {"cpu": "7999m", "memory": "64Gi"},
        "limits": {"cpu": "7999m", "memory": "64Gi"},
    }
    (main,) = spec["containers"]
    assert {"name": "KAJI_HOSTS", "value": "/kajitori/hosts"} in main["env"]
    assert "KAJI_START_TICKET" not in {variable["name"] for variable in main["env"]}
    assert main["volumeMounts"] == [
        {"name": "kajitori", "mountPath": "/kajitori", "readOnly": True},
        {"name": "kajitori", "mountPath": "/etc/hosts", "readOnly": True, "subPath": "etc-hosts"},
        METRICS_MOUNT,
    ]
    assert spec["volumes"] == [{"name": "kajitori", "emptyDir": {}}, METRICS]


def test_every_leader_creates_the_same_pods() -> None:
    """Tickets depend only on the attempt and the key (rule 2)."""
    one, other = (members(policy=START, key=b"k" * 32).pod(1, "gpu-7") for _ in range(2))
    assert one == other
    assert one != members(policy=START, key=b"l" * 32).pod(1, "gpu-7")


@pytest.mark.parametrize(
    ("document", "policy"),
    [({"replicas": 1}, START), ({"type": "service", "restarts": 0}, START), ({}, {})],
    ids=["alone", "service", "no image in the policy"],
)
def test_a_run_that_needs_no_other_member_has_no_first_step(document: dict[str, Any], policy: dict[str, Any]) -> None:
    """Nor the volumes and variables that belong to it."""
    pod = members(document, policy=policy, key=b"k" * 32).pod(0, "gpu-7")
    assert "initContainers" not in pod["spec"] and pod["spec"]["volumes"] == [METRICS]
    assert "KAJI_HOSTS" not in env(pod)
    assert pod["metadata"]["annotations"][first_step.ANNOTATION_OWN_FOLDERS] == "kajitori-metrics"


def test_the_first_step_does_not_change_the_pods_qos_class() -> None:
    """It requests no resource that the member does not request, and no whole cores, which a static CPU manager would
    reserve for good."""
    burstable = {"qos": "burstable", "resources": {"cpu": 4, "cpuRequest": 2, "memory": "64Mi"}}
    assert starting(burstable)["initContainers"][0]["resources"] == {
        "requests": {"cpu": "2", "memory": "64Mi"},
        "limits": {"cpu": "4", "memory": "64Mi"},
    }
    half = starting({"resources": {"cpu": 0.5, "memory": "1Gi"}})["initContainers"][0]["resources"]
    assert half["requests"] == half["limits"] == {"cpu": "500m", "memory": "1Gi"}
    unlimited = starting({}, memoryWithoutLimit="unlimited")["initContainers"][0]["resources"]
    assert unlimited == {"requests": {"cpu": "999m", "memory": "2Gi"}, "limits": {"cpu": "999m"}}


def test_the_first_step_has_only_the_rights_that_it_needs() -> None:
    """It is admitted wherever the member is, and is not privileged even if the member is."""
    security = {"allowPrivileged": True, "allowRoot": True, "addCapabilities": ["IPC_LOCK"], "readOnlyRoot": True}
    step = starting({"privileged": True, "user": "1000"}, security=security)["initContainers"][0]
    assert step["securityContext"] == {
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "readOnlyRootFilesystem": True,
    }


def test_the_users_own_etc_hosts_is_kept() -> None:
    """Two volumes cannot be mounted at one path."""
    volumes = {"volumes": {"names": {"configMap": "names", "subPath": "hosts"}}}
    spec = starting({"volumes": [{"name": "names", "path": "/etc/hosts"}]}, **volumes)
    assert [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]] == [
        *("/etc/hosts", "/kajitori", "/kajitori-metrics")
    ]


CODE = {"digest": "sha256:" + "a" * 64, "path": "/work"}


@pytest.mark.parametrize("document", [{"replicas": 1}, {"type": "service", "replicas": 3}])
def test_the_first_step_fetches_the_code(document: dict[str, Any]) -> None:
    """A single member gets it as well, without waiting for others. The ticket is valid for this code only."""
    pod = {"spec": starting({"code": CODE, **document})}
    (step,) = pod["spec"]["initContainers"]
    said = {variable["name"]: variable["value"] for variable in step["env"]}
    assert (said[first_step.CODE_ENV], said[first_step.ALONE_ENV]) == (CODE["digest"], "1")
    ticket = verify(said[first_step.TICKET_ENV], b"k" * 32)
    assert ticket is not None and ticket.code == CODE["digest"]
    main = pod["spec"]["containers"][0]
    assert main["workingDir"] == "/work"
    assert env(pod)["KAJI_CODE_DIR"] == "/work"
    assert "KAJI_HOSTS" not in env(pod)
    assert main["volumeMounts"] == [
        {"name": "kajitori", "mountPath": "/kajitori", "readOnly": True},
        {"name": "kajitori", "mountPath": "/work", "subPath": "code"},
        METRICS_MOUNT,
    ]


def test_a_gang_with_code_also_waits_for_its_members() -> None:
    pod = {"spec": starting({"code": CODE, "workingDir": "/elsewhere"})}
    assert first_step.ALONE_ENV not in {variable["name"] for variable in pod["spec"]["initContainers"][0]["env"]}
    assert pod["spec"]["containers"][0]["workingDir"] == "/elsewhere"
    assert {"KAJI_HOSTS", "KAJI_CODE_DIR"} <= env(pod).keys()


@pytest.mark.parametrize(
    ("document", "given"),
    [
        ({"stdin": True, "tty": True}, {"stdin": True, "tty": True}),
        ({"stdin": True}, {"stdin": True, "stdinOnce": True}),
        ({"tty": True}, {"tty": True}),
        ({}, {}),
    ],
)
def test_a_member_has_the_input_of_its_run(document: dict[str, Any], given: dict[str, Any]) -> None:
    """Input from a pipe ends with its client; at a terminal, clients come and go."""
    container = members({"replicas": 1, **document}).pod(0, "n")["spec"]["containers"][0]
    assert {name: container[name] for name in ("stdin", "stdinOnce", "tty") if name in container} == given


def test_a_health_check_is_a_readiness_probe() -> None:
    """Readiness neither restarts nor ends a program. No `$` of the command is a variable of Kubernetes."""
    container = members({"health": {"command": "test $(cat /x) = $$", "timeout": 2}}).pod(0, "n")["spec"]["containers"][
        0
    ]
    assert container["readinessProbe"] == {
        "exec": {"command": ["/bin/sh", "-c", "test $$(cat /x) = $$$$"]},
        "periodSeconds": 30,
        "timeoutSeconds": 2,
        "failureThreshold": 3,
    }
    assert "startupProbe" not in container and "livenessProbe" not in container


def test_a_start_period_has_a_pace_of_its_own() -> None:
    """Until the first success. The startup probe, which would end the program, never reaches its threshold."""
    check = {"command": ["/probe"], "interval": "1m", "retries": 2, "startPeriod": "10m", "startInterval": "3s"}
    container = members({"health": check}).pod(0, "n")["spec"]["containers"][0]
    probe = {"exec": {"command": ["/probe"]}, "timeoutSeconds": 30}
    assert container["readinessProbe"] == probe | {"periodSeconds": 60, "failureThreshold": 2}
    assert container["startupProbe"] == probe | {"periodSeconds": 3, "failureThreshold": 2**31 - 1}
