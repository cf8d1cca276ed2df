"""Properties of every decision."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.scenes.deciding import BERT, CLUSTER, HOME, container

from kajitori.core.admission.decide import Facts, decide
from kajitori.core.formats.quantities import parse_cpu_millis, parse_memory_bytes
from kajitori.core.placement.planner import GangRequest, Placement, place
from kajitori.core.placement.snapshot import NodeFacts, NodeTable, Snapshot
from kajitori.core.pods.template import literal
from kajitori.core.policy.file import Policy, default_policy, parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.core.spec.run import RunSpec
from kajitori.errors import InvalidInput


def _expanded(text: str) -> str:
    """Expand a text without variables as a kubelet does: `$$` is `$`; `$(NAME)` of an unknown name stays as it is."""
    out, i = "", 0
    while i < len(text):
        if text[i] == "$" and i + 1 < len(text):
            if text[i + 1] == "$":
                out, i = out + "$", i + 2
                continue
            if text[i + 1] == "(" and ")" in text[i + 2 :]:
                end = text.index(")", i + 2)
                out, i = out + "<replaced>", end + 1
                continue
        out, i = out + text[i], i + 1
    return out


@given(st.text(alphabet="$()ab", max_size=20))
def test_arguments_reach_the_program_unchanged(text: str) -> None:
    """Docker expands nothing in commands and values, so Kubernetes must not either."""
    assert _expanded(literal(text)) == text


_AMOUNT = st.sampled_from([None, "500m", 1, 8, 64, 1000])
_SIZE = st.sampled_from([None, "64m", "1Gi", "64g", "4Ti"])
_SPECS = st.fixed_dictionaries(
    {"image": st.sampled_from(["a", "evil", "a:1"])},
    optional={
        "type": st.sampled_from(["batch", "service"]),
        "replicas": st.integers(1, 8),
        "launcher": st.sampled_from(["none", "torchrun"]),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "cpu": _AMOUNT,
                "memory": _SIZE,
                "cpuRequest": _AMOUNT,
                "memoryRequest": _SIZE,
                "gpu": st.integers(0, 10),
                "gpuType": st.sampled_from([None, "h100", "a100", "NVIDIA-H100-80GB-HBM3", "zz"]),
                "shm": _SIZE,
                "wholeNode": st.booleans(),
            },
        ),
        "qos": st.sampled_from(["guaranteed", "burstable"]),
        "env": st.dictionaries(st.sampled_from(["A", "B_TOKEN"]), st.text(max_size=5)),
        "volumes": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["v", "w", "x"]), "path": st.sampled_from(["/a", "/b"])}),
            max_size=2,
        ),
        "checkpoint": st.fixed_dictionaries({"path": st.sampled_from(["/c", "/a"])}, optional={"size": _SIZE}),
        "restarts": st.integers(0, 5),
        "privileged": st.booleans(),
        "user": st.sampled_from([0, 1000, "1:2"]),
        "nodeSelector": st.dictionaries(st.sampled_from(["disk", "pool"]), st.sampled_from(["ssd", "h"])),
    },
)
_POLICIES = st.sampled_from(
    [
        default_policy(),
        HOME,
        parse_policy({"memoryWithoutLimit": "unlimited", "nodesOnDemand": True}),
        parse_policy({"memoryWithoutLimit": "refuse", "security": {"allowPrivileged": True, "allowRoot": True}}),
        parse_policy({"volumes": {"v": {"claim": "v"}, "w": {"emptyDir": {}}}, "images": {"deny": ["evil*"]}}),
        parse_policy({"defaults": {"shm": "8Gi", "memory": "4Gi"}, "ceilings": {"run": {"gpu": 16}}}),
    ]
)


@settings(max_examples=200)
@given(_SPECS, _POLICIES, st.booleans(), st.sampled_from([CLUSTER, None]))
def test_every_spec_gets_a_consistent_decision_or_faults(
    document: dict[str, Any], policy: Policy, admitted: bool, table: NodeTable | None
) -> None:
    """No other exception is raised."""
    try:
        spec: RunSpec = parse_spec(document)
        decision = decide(spec, policy, Facts(table, admitted), run=BERT)
    except InvalidInput as error:
        assert all(fault.field.startswith("spec") and fault.message for fault in error.faults)
        return
    assert decision == decide(spec, policy, Facts(table, admitted), run=BERT), "deterministic"
    resources = container(decision)["resources"]
    for name, parse in (("cpu", parse_cpu_millis), ("memory", parse_memory_bytes)):
        if name in resources["limits"]:
            assert parse(resources["requests"][name]) <= parse(resources["limits"][name])
            if spec.qos == "guaranteed" and "memory" in resources["limits"]:
                assert resources["requests"][name] == resources["limits"][name]
    assert parse_cpu_millis(resources["requests"]["cpu"]) == decision.request.cpu_millis
    assert parse_memory_bytes(resources["requests"]["memory"]) == decision.request.memory_bytes
    assert resources["limits"].get("nvidia.com/gpu", "0") == str(decision.request.gpus)
    if "memory" not in resources["limits"]:
        assert decision.limits.restarts == 0
    told, is_batch = {finding.field for finding in decision.findings}, spec.type == "batch"
    for field in ("restarts", "priority", "timeLimit"):
        given_value = getattr(spec, {"timeLimit": "time_limit_seconds"}.get(field, field))
        used = decision.limits.time_limit_seconds if field == "timeLimit" else field != "restarts" or is_batch
        assert given_value is not None or not used or f"spec.{field}" in told
    names = [mount["mountPath"] for mount in container(decision).get("volumeMounts", [])]
    assert len(set(names)) == len(names)
    if table is not None and not admitted and not policy.nodes_on_demand:
        repaired = NodeTable(
            NodeFacts(n.name, n.cpu_millis, n.memory_bytes, n.gpus, n.pods, n.gpu_type, n.labels) for n in table.nodes
        )
        gang = GangRequest("k", decision.request, tuple(range(spec.replicas)))
        assert isinstance(place(Snapshot.empty(repaired), gang), Placement), "admitted, so an empty cluster holds it"
