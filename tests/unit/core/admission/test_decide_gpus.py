"""How the members of a run ask for GPUs: by an extended resource or by a claim, all in one way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.helpers.scenes.deciding import FACTS, container, decided, node, refused

from kajitori.core.admission.decide import Facts
from kajitori.core.gpus.offers import GpuOffer
from kajitori.core.naming import names
from kajitori.core.placement.planner import GangRequest, Placement, eligible_nodes, occupy, place
from kajitori.core.placement.snapshot import GPU, NodeFacts, NodeTable, Snapshot
from kajitori.core.pods.manifests import MemberPods, gpu_claim_template

CLAIM = "claim:gpu.nvidia.com"
SLICE = "h100-mig-1g.10gb"
BOTH = ("", CLAIM)


def by_devices(name: str, *offers: GpuOffer) -> NodeFacts:
    whole = next((offer for offer in offers if offer.is_whole), None)
    count, word = (whole.count, whole.type) if whole else (0, "")
    return node(name, gpus=count, gpu_type=word, gpu_offers=offers)


def facts_of(*nodes: NodeFacts) -> Facts:
    return replace(FACTS, table=NodeTable(nodes))


GPUS = {"resources": {"cpu": 1, "memory": "1Gi", "gpu": 2}}
ONLY_CLAIMS = facts_of(by_devices("d-1", GpuOffer("h100", 8, ways=(CLAIM,), selector="is_h100")), node("cpu"))
MIXED = facts_of(
    node("plugin", gpus=8, gpu_type="h100"),
    by_devices("d-1", GpuOffer("h100", 8, ways=(CLAIM,), selector="one")),
    by_devices("d-2", GpuOffer("h100", 8, ways=(CLAIM,), selector="two")),
)


def test_without_an_extended_resource_members_have_claims() -> None:
    decision = decided(GPUS, facts=ONLY_CLAIMS)
    assert container(decision)["resources"]["claims"] == [{"name": "gpus"}]
    assert "nvidia.com/gpu" not in container(decision)["resources"]["limits"]
    assert decision.template["metadata"]["annotations"][names.ANNOTATION_GPU_REQUEST] == "2"
    assert decision.template["gpuClaim"]["devices"]["requests"] == [
        {
            "name": "gpu",
            "exactly": {
                "deviceClassName": "gpu.nvidia.com",
                "allocationMode": "ExactCount",
                "count": 2,
                "selectors": [{"cel": {"expression": "is_h100"}}],
            },
        }
    ]


def test_members_and_template_of_claims_name_each_other() -> None:
    """The name follows from the stored template, so the next leader finds the same one."""
    stored = decided(GPUS, facts=ONLY_CLAIMS).template
    run: dict[str, Any] = {"run_name": "bert", "namespace": "vision", "run_uid": "u"}
    template = gpu_claim_template(stored, **run)
    assert template is not None
    pods = MemberPods(stored, **run, attempt=3, world_size=1, port=0, launcher="none")
    assert pods.pod(0, "d-1")["spec"]["resourceClaims"] == [
        {"name": "gpus", "resourceClaimTemplateName": template["metadata"]["name"]}
    ]
    assert template["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert template["spec"]["spec"] == stored["gpuClaim"]
    assert gpu_claim_template(decided(GPUS).template, **run) is None


def test_an_extended_resource_is_preferred_to_a_claim() -> None:
    facts = facts_of(by_devices("d-1", GpuOffer("h100", 8, ways=BOTH)), node("plugin", gpus=8, gpu_type="h100"))
    decision = decided(GPUS, facts=facts)
    assert container(decision)["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert facts.table is not None
    assert int(eligible_nodes(facts.table, decision.request).sum()) == 2


def test_on_a_mixed_cluster_all_members_use_the_way_of_most_gpus() -> None:
    """Nodes that offer their GPUs in another way only are left out, so that no member is refused there."""
    decision = decided(GPUS, facts=MIXED)
    assert decision.request.gpu_way == CLAIM
    selectors = decision.template["gpuClaim"]["devices"]["requests"][0]["exactly"]["selectors"]
    assert selectors == [{"cel": {"expression": "(one) || (two)"}}]
    assert MIXED.table is not None
    names_of = [MIXED.table.nodes[row].name for row in eligible_nodes(MIXED.table, decision.request).nonzero()[0]]
    assert names_of == ["d-1", "d-2"]


def test_devices_are_never_bound_directly() -> None:
    """Only the scheduler allocates devices, also those that an extended resource stands for."""
    direct = {"binding": {"bind": "direct"}}
    extended = facts_of(by_devices("d-1", GpuOffer("h100", 8, ways=BOTH)))
    assert not decided(GPUS, direct, ONLY_CLAIMS).bind_direct
    assert not decided(GPUS, direct, extended).bind_direct
    assert decided(GPUS, direct).bind_direct
    assert decided({"resources": {"cpu": 1, "memory": "1Gi"}}, direct, ONLY_CLAIMS).bind_direct


PARTS = facts_of(
    by_devices(
        "d-1",
        GpuOffer("h100", 1, ways=(CLAIM,)),
        GpuOffer(SLICE, 7, is_whole=False, ways=("nvidia.com/mig-1g.10gb",)),
        GpuOffer("h100-shared", 8, is_whole=False, ways=(CLAIM,), most_per_pod=2),
    )
)


def asking(gpus: int, gpu_type: str | None = None) -> dict[str, object]:
    resources = {"cpu": 1, "memory": "1Gi", "gpu": gpus} | ({"gpuType": gpu_type} if gpu_type else {})
    return {"resources": resources}


def test_slices_have_a_number_of_their_own() -> None:
    """Whole GPUs and slices of one node are placed beside each other."""
    table = PARTS.table
    assert table is not None
    slices = decided(asking(3, SLICE), facts=PARTS)
    assert container(slices)["resources"]["limits"]["nvidia.com/mig-1g.10gb"] == "3"
    assert slices.template["metadata"]["annotations"][names.ANNOTATION_GPU_REQUEST] == f"3 {SLICE}"
    state = Snapshot.empty(table)
    occupy(state, slices.request, ["d-1", "d-1"])
    assert state.used[0, [GPU, table.gpu_column(SLICE)]].tolist() == [0, 6]
    assert not isinstance(place(state, GangRequest("more", slices.request, (0,))), Placement)
    whole = decided(asking(1), facts=PARTS)
    assert isinstance(place(state, GangRequest("whole", whole.request, (0,))), Placement)


def test_only_runs_that_name_a_part_of_a_gpu_get_it() -> None:
    parts = facts_of(by_devices("d-1", GpuOffer(SLICE, 7, is_whole=False, ways=(CLAIM,))))
    fault = refused(asking(1), facts=parts)["spec.resources.gpu"]
    assert (fault.code, fault.hint) == ("NoWholeGpus", f"name the type: --gpu-type {SLICE}")
    assert refused(asking(8, SLICE), facts=parts)["spec.resources.gpu"].code == "LargerThanAnyNode"
    assert f"known: {SLICE}" in refused(asking(1, "v100"), facts=parts)["spec.resources.gpuType"].hint


def test_one_pod_gets_each_shared_gpu_once() -> None:
    assert decided(asking(2, "h100-shared"), facts=PARTS).request.gpus == 2
    fault = refused(asking(3, "h100-shared"), facts=PARTS)["spec.resources.gpu"]
    assert fault.message == "3 GPUs per member, but no h100-shared node has more than 2"
