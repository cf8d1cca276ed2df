"""Rules for Pods that people create without Kajitori: what they refuse, and that both of their forms agree."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.helpers.scenes.deciding import decided

from kajitori.core.admission.plain_pods.expressions import IMAGE_IN_FULL, is_plain_image, regex_of
from kajitori.core.admission.plain_pods.pod_view import VARIABLES, PodView
from kajitori.core.admission.plain_pods.rules import Circumstances, applies_in, faults_of, rules_of
from kajitori.core.kubernetes.cel import Expression, Scope
from kajitori.core.kubernetes.image_names import full_image_name
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.model import Policy

GPU = "nvidia.com/gpu"
ALL_RULES = (
    *("memoryLimit", "gpuNodes", "gpuType", "images", "ceilings", "privileged", "hostNamespaces", "hostFolders"),
    *("capabilities", "tolerations", "nodeSelector", "root", "privilegeEscalation"),
)


def policy(**sections: Any) -> Policy:
    pods = {"namespaces": ["*"], "rules": list(ALL_RULES)} | sections.pop("pods", {})
    return parse_policy({"memoryWithoutLimit": "refuse", "pods": pods, **sections})


STRICT = policy(
    images={"allow": ["python:*", "registry.example.org/*", "lab/*:v?"], "deny": ["*:latest"]},
    ceilings={"member": {"memory": "8Gi", "cpu": 4, "gpu": 2}},
    mounts={"hostPaths": ["/data"]},
    security={"addCapabilities": ["IPC_LOCK"]},
    inject={"nodeSelector": {"pool": "ml"}},
    pods={"reasons": {"privileged": "ask ops@example.org"}},
)


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "containers": [{"name": f"c{i}", "image": "python:3", **c} for i, c in enumerate(containers or ({},))]
    } | spec


def limits(**amounts: Any) -> dict[str, Any]:
    return {"resources": {"limits": {name.replace("gpu", GPU): amount for name, amount in amounts.items()}}}


def broken(rules: Policy, spec: dict[str, Any], **circumstances: bool) -> set[str]:
    """Return the names of the rules that a Pod breaks."""
    return {name for name, _ in faults_of(PodView(spec), rules_of(rules, Circumstances(**circumstances)))}


@pytest.mark.parametrize(
    ("rule", "spec"),
    [
        ("memoryLimit", pod({})),
        ("memoryLimit", pod(limits(memory="1Gi"), initContainers=[{"name": "init", "image": "python:3"}])),
        ("gpuNodes", pod(nodeSelector={"nvidia.com/gpu.product": "H100"})),
        ("gpuNodes", pod(tolerations=[{"key": GPU, "operator": "Exists"}])),
        ("gpuNodes", pod(tolerations=[{"operator": "Exists"}])),
        ("gpuType", pod(limits(gpu=1))),
        ("images", pod({"image": "evil/python:3"})),
        ("images", pod({"image": "python"})),
        ("images", pod({"image": "index.docker.io/library/python:3"})),
        ("images", pod(ephemeralContainers=[{"name": "debug", "image": "busybox"}])),
        ("ceilings", pod(limits(memory="5Gi"), limits(memory="5Gi"))),
        ("ceilings", pod(limits(gpu="4"))),
        ("ceilings", pod(limits(cpu="4001m"))),
        ("ceilings", pod({}, resources={"limits": {"memory": "9Gi"}})),
        ("ceilings", pod({}, resources={"requests": {"cpu": "5"}})),
        ("ceilings", pod({"resources": {"requests": {"cpu": "5"}}})),
        ("ceilings", pod({}, initContainers=[{"name": "init", "image": "python:3"} | limits(gpu=4)])),
        ("privileged", pod({"securityContext": {"privileged": True}})),
        ("hostNamespaces", pod(hostPID=True)),
        ("hostNamespaces", pod(hostNetwork=True)),
        ("hostFolders", pod(volumes=[{"name": "v", "hostPath": {"path": "/database"}}])),
        ("capabilities", pod({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}})),
        ("tolerations", pod(tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}])),
        ("nodeSelector", pod(nodeSelector={"pool": "web"})),
        ("root", pod({})),
        ("root", pod({"securityContext": {"runAsUser": 0, "runAsNonRoot": True}})),
        ("privilegeEscalation", pod({})),
    ],
)
def test_each_rule_refuses_what_the_policy_refuses_for_runs(rule: str, spec: dict[str, Any]) -> None:
    assert rule in broken(STRICT, spec)


def test_a_pod_that_meets_all_demands_breaks_no_rule() -> None:
    secure = {"securityContext": {"runAsUser": 1000, "allowPrivilegeEscalation": False}}
    volumes = [{"name": "v", "hostPath": {"path": "/data/sets"}}, {"name": "w", "emptyDir": {}}]
    selector = {"pool": "ml"}
    assert not broken(STRICT, pod(secure | limits(memory="4Gi", cpu=2), nodeSelector=selector, volumes=volumes))
    with_gpus = secure | limits(memory="4Gi", cpu="2", gpu=2) | {"image": "lab/train:v2"}
    selector |= {"kajitori.dev/gpu-type": "h100"}
    assert not broken(STRICT, pod(with_gpus, nodeSelector=selector, tolerations=[{"key": GPU, "operator": "Exists"}]))


def test_a_limit_of_the_whole_pod_is_a_memory_limit() -> None:
    assert "memoryLimit" not in broken(STRICT, pod({}, resources={"limits": {"memory": "1Gi"}}))


def test_the_limit_of_the_whole_pod_counts_rather_than_those_of_its_containers() -> None:
    containers = (limits(memory="5Gi"), limits(memory="5Gi"))
    assert "ceilings" not in broken(STRICT, pod(*containers, resources={"limits": {"memory": "8Gi"}}))


def test_a_message_names_container_rule_and_the_operators_reason() -> None:
    spec = pod({"securityContext": {"privileged": True}})
    messages = [
        text for name, text in faults_of(PodView(spec), rules_of(STRICT, Circumstances())) if name == "privileged"
    ]
    assert messages == [
        "container c0 is privileged: leave out securityContext.privileged [privileged: ask ops@example.org]"
    ]


def test_defaults_count_as_filled_in_only_if_the_api_server_does_so() -> None:
    rules = policy(memoryWithoutLimit="default")
    assert "memoryLimit" not in broken(rules, pod({}))
    assert "memoryLimit" in broken(rules, pod({}), is_completed=True)
    assert "gpuNodes" not in broken(rules, pod({}))
    assert "gpuNodes" in broken(rules, pod({}), is_completed=True)


def test_pods_without_gpus_may_be_anywhere_if_all_nodes_have_gpus() -> None:
    spec = pod(tolerations=[{"key": GPU, "operator": "Exists"}])
    assert "gpuNodes" in broken(STRICT, spec)
    assert "gpuNodes" not in broken(STRICT, spec, has_cpu_nodes=False)
    never = policy(gpu={"cpuRunsOnGpuNodes": "never"})
    assert "gpuNodes" in broken(never, spec, has_cpu_nodes=False)


def test_pods_of_daemon_sets_may_be_on_all_nodes() -> None:
    everywhere = PodView(pod(tolerations=[{"operator": "Exists"}]), from_daemon_set=True)
    assert not {"gpuNodes", "tolerations", "nodeSelector"} & {
        name for name, _ in faults_of(everywhere, rules_of(STRICT, Circumstances()))
    }


def test_tolerations_that_kubernetes_adds_are_no_fault() -> None:
    added = [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert "tolerations" not in broken(STRICT, pod(tolerations=added))


def test_rules_apply_to_the_named_namespaces_only() -> None:
    rules = policy(pods={"namespaces": ["team-*", "lab"], "exceptNamespaces": ["team-ops"]})
    wanted = {"team-vision": True, "lab": True, "team-ops": False, "kube-system": False}
    assert {name: applies_in(rules, name) for name in wanted} == wanted
    assert not applies_in(parse_policy({}), "team-vision")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"replicas": 4, "resources": {"gpu": 2, "gpuType": "h100"}},
        {"array": "0-9", "user": "1000"},
        {"replicas": 2, "launcher": "mpi", "command": ["mpirun", "x"]},
        {"code": {"digest": "sha256:" + "0" * 64}, "image": "registry.example.org/mpi:1"},
    ],
)
def test_members_of_runs_meet_the_rules(spec: dict[str, Any]) -> None:
    rules = policy(
        memoryWithoutLimit="default",
        images={"allow": ["bert:*", "registry.example.org/*"]},
        start={"image": "kajitori/member:1", "server": "https://server.kajitori.svc:8600"},
        ceilings={"member": {"memory": "8Gi", "cpu": 4, "gpu": 2}},
        inject={"nodeSelector": {"pool": "h"} if "resources" in spec else {}},
    )
    member = dict(decided(spec, rules).template["spec"])
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    member["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    assert not broken(rules, member)


# ------------------------------------------------------------------------------------------ both forms agree


@cache
def compiled(circumstances: Circumstances) -> tuple[list[tuple[str, Expression]], list[Expression]]:
    """Return the expressions of the variables and of the strict policy's rules, compiled as in the admission policy."""
    scope = Scope(("object", "request", "variables.spec", "variables.fromDaemonSet"))
    variables = []
    for name, text in VARIABLES:
        variables.append((name, expression := scope.compile(text)))
        scope = scope.with_variable(name, expression)
    return variables, [scope.compile(rule.expression) for rule in rules_of(STRICT, circumstances)]


def in_cel(circumstances: Circumstances, view: PodView) -> list[str]:
    """Return the messages of the strict policy as the API server evaluates it."""
    values: dict[str, Any] = {"variables.spec": view.spec, "variables.fromDaemonSet": view.from_daemon_set}
    variables, expressions = compiled(circumstances)
    for name, expression in variables:
        values[f"variables.{name}"] = expression.evaluate(values)
    return [message for expression in expressions for message in expression.evaluate(values)]


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


IMAGES = st.sampled_from(
    (
        *("python:3", "python", "lab/x:v1", "lab/x:v12", "registry.example.org/a/b:1", "registry.example.org:443/a:1"),
        *("docker.io/python:3", "docker.io/library/python:3", "DOCKER.IO/python:3", "python:5000/evil:1", "a" * 64),
        *(
            "python:3@sha256:" + "a" * 64,
            "python@sha256:" + "a" * 64,
            "python:latest@sha256:" + "b" * 64,
            "localhost/a:1",
        ),
    )
)
AMOUNTS = st.sampled_from(["0", "1", "500m", "2500m", "1Gi", "3Gi", "9Gi", "8Gi"])
SECURITY = optional(
    privileged=st.booleans(),
    runAsUser=st.sampled_from([0, 1000]),
    runAsNonRoot=st.booleans(),
    allowPrivilegeEscalation=st.booleans(),
    capabilities=optional(add=st.lists(st.sampled_from(["IPC_LOCK", "SYS_ADMIN"]), max_size=2)),
)
MIG = "nvidia.com/mig-1g.10gb"
RESOURCES = optional(
    limits=st.dictionaries(st.sampled_from(["memory", "cpu", GPU, f"{GPU}.shared", MIG]), AMOUNTS, max_size=3),
    requests=st.dictionaries(st.sampled_from(["memory", "cpu"]), AMOUNTS, max_size=2),
)
CONTAINER = st.fixed_dictionaries(
    {"image": IMAGES},
    optional={
        "resources": RESOURCES,
        "securityContext": SECURITY,
        "restartPolicy": st.just("Always"),
    },
)
TOLERATION = optional(
    key=st.sampled_from([GPU, "node.kubernetes.io/not-ready", "kajitori.dev/x", "other", "node.kubernetes.io/y"]),
    effect=st.sampled_from(["NoSchedule", "NoExecute"]),
    operator=st.just("Exists"),
)
LABELS = ["kajitori.dev/gpu-type", "nvidia.com/gpu.product", "amd.com/gpu.product-name", "pool"]
EXPRESSION = st.fixed_dictionaries(
    {"key": st.sampled_from(LABELS), "operator": st.sampled_from(["DoesNotExist", "Exists"])}
)
FIELDS = st.lists(st.fixed_dictionaries({"key": st.just("metadata.name")}), max_size=1)
TERMS = st.lists(optional(matchExpressions=st.lists(EXPRESSION, max_size=4), matchFields=FIELDS), max_size=2)
AFFINITY = optional(
    nodeAffinity=optional(
        requiredDuringSchedulingIgnoredDuringExecution=st.fixed_dictionaries({"nodeSelectorTerms": TERMS})
    )
)
SPEC = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=3)},
    optional={
        "initContainers": st.lists(CONTAINER, max_size=2),
        "ephemeralContainers": st.lists(CONTAINER, max_size=1),
        "tolerations": st.lists(TOLERATION, max_size=3),
        "nodeSelector": st.dictionaries(st.sampled_from(LABELS), st.sampled_from(["ml", "h100"]), max_size=2),
        "affinity": AFFINITY,
        "hostPID": st.booleans(),
        "resourceClaims": st.lists(st.just({"name": "gpus"}), max_size=1),
        "hostNetwork": st.booleans(),
        "securityContext": SECURITY.filter(lambda context: "capabilities" not in context),
        "resources": RESOURCES,
        "volumes": st.lists(
            st.fixed_dictionaries(
                {},
                optional={"hostPath": st.fixed_dictionaries({"path": st.sampled_from(["/data", "/data/x", "/etc"])})},
            ),
            max_size=2,
        ),
    },
)


@given(SPEC, st.booleans(), st.booleans())
def test_the_api_server_refuses_the_same_pods_with_the_same_words(
    spec: dict[str, Any], from_daemon_set: bool, is_completed: bool
) -> None:
    for part in ("containers", "initContainers", "ephemeralContainers"):
        for number, container in enumerate(spec.get(part, ())):
            container["name"] = f"{part}-{number}"
    view, circumstances = PodView(spec, from_daemon_set), Circumstances(is_completed=is_completed)
    found = [message for _, message in faults_of(view, rules_of(STRICT, circumstances))]
    assert in_cel(circumstances, view) == found


@given(st.from_regex(r"([A-Za-z0-9.:\-]{1,12}/)?[a-z0-9_./\-]{1,12}(:[a-z0-9.]{1,4})?", fullmatch=True))
@example("docker.io/python")
@example("localhost:443/a")
@example("foo:80/a")
@example("[::1]:5000/a")
def test_names_of_images_that_cel_compares_are_completed_as_in_python(image: str) -> None:
    """Other spellings are refused, whatever the policy allows."""
    if is_plain_image(image):
        expression = Scope(("c",)).compile(IMAGE_IN_FULL)
        assert expression.evaluate({"c": {"image": image}}) == full_image_name(image)


@given(
    st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[a-z]", "[b0-9]", ".", "-", "!"]), max_size=6).map(
        "".join
    ),
    st.text("ab1.-!", max_size=6),
)
def test_patterns_match_in_cel_as_in_python(pattern: str, text: str) -> None:
    assert bool(re.fullmatch(regex_of(pattern), text)) == fnmatchcase(text, pattern)
