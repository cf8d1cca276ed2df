"""Refusals of runs: each names its field and a way out, and all are reported at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.scenes.deciding import CLUSTER, FACTS, GI, decided, node, refused

from kajitori.core.admission.decide import Facts, RunIdentity, decide
from kajitori.core.kubernetes.taints import Taint
from kajitori.core.placement.snapshot import NodeFacts, NodeTable
from kajitori.core.policy.file import default_policy, on_own_cluster, parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import Refused

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


def test_taints_of_the_nodes_with_the_wanted_labels_are_named() -> None:
    """It was said that no node has these labels, although only a taint kept the run out. A taint that policy lets no
    run tolerate is not suggested."""
    labels, wanted = {"pool": "spot"}, {"nodeSelector": {"pool": "spot"}}

    def facts(*taints: Taint) -> Facts:
        tainted = NodeFacts("a", 4000, 8 * GI, 0, 110, labels=labels, taints=taints)
        return Facts(table=NodeTable([tainted, NodeFacts("b", 4000, 8 * GI, 0, 110)]))

    fault = refused(wanted, facts=facts(Taint("spot", "true"), Taint("cloud", effect="NoExecute")))["spec.tolerations"]
    assert "pool=spot has taints" in fault.message and "spot=true:NoSchedule, cloud:NoExecute" in fault.message
    assert "--toleration spot=true:NoSchedule" in fault.hint
    policy = {"security": {"refuseTolerations": ["cloud"]}}
    barred = refused(wanted, policy, facts(Taint("spot", "true"), Taint("cloud")))
    assert barred["spec.nodeSelector"].code == "NoSuchNode"


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


def test_a_run_names_its_command_where_images_do_not_run() -> None:
    """Without a container engine `kaji up` starts programs of its machine. Notebooks have a command; the file may allow
    it, for nodes with an engine that join; and a run that was admitted before goes on."""

    def faults(spec: dict[str, Any], policy: dict[str, Any], *, own_command: bool = False, **facts: Any) -> set[str]:
        own = on_own_cluster(parse_policy(policy), "kajitori", "http://127.0.0.1:1", own_command=own_command)
        return set(refused(spec | {"privileged": True}, own, replace(FACTS, **facts)))

    assert "spec.command" in faults({}, {})
    assert "spec.command" not in faults({"args": ["nvidia-smi"]}, {})
    assert "spec.command" not in faults({"command": ["bash"]}, {})
    assert "spec.command" not in faults({"type": "notebook"}, {})
    assert "spec.command" not in faults({}, {}, own_command=True)
    assert "spec.command" not in faults({}, {"images": {"ownCommand": True}})
    assert "spec.command" not in faults({}, {}, admitted=True)


def test_an_invalid_name_is_refused() -> None:
    """A Run created with kubectl may have a name that no host name can have."""
    for name in ("1a", "a" * 49, "a.b"):
        with pytest.raises(Refused) as caught:
            decide(parse_spec({"image": "a:1"}), default_policy(), FACTS, run=RunIdentity(name, "vision"))
        assert [fault.field for fault in caught.value.faults] == ["metadata.name"]


@pytest.mark.parametrize("written", ["h1000", "h10", "x-H100-y"])
def test_an_unknown_gpu_type_is_refused_with_the_known_ones(written: str) -> None:
    """The policy's patterns are for labels of nodes, not for what users type."""
    faults = refused({"resources": {"gpu": 1, "gpuType": written}})
    assert "h100" in faults["spec.resources.gpuType"].hint


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
