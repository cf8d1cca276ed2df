"""The Kubernetes objects of a request for nodes."""

from __future__ import annotations

from typing import Any

from kajitori.core.naming import names
from kajitori.core.nodes.provisioning_objects import CLASS_NAME, CONSUMES, pod_template, provisioning_request, using
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.nodes.pools import NodePool
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState

REQUEST = NodeRequest(pool="spot", nodes=3, attempt=2, number=1, state=RequestState.PROVISIONED)
WHOSE: dict[str, str] = {"run": "bert", "namespace": "vision", "uid": "u-1"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"team": "vision"}, "annotations": {"note": "mine"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "bert:3",
                "command": ["train"],
                "env": [{"name": "TOKEN", "value": "secret"}],
                "resources": {"limits": {"nvidia.com/gpu": "8"}},
            }
        ],
        "initContainers": [{"name": "first", "image": "kaji:1", "restartPolicy": "Always", "env": []}],
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "restartPolicy": "Never",
    },
}


def rules(**fields: Any) -> NodePool:
    pool = {"nodeSelector": {"pool": "spot"}, "node": {"cpu": 8, "memory": "8Gi"}, "maxNodes": 8, **fields}
    return parse_policy({"nodePools": {"spot": pool}}).node_pools["spot"]


def test_the_pod_template_has_only_what_members_ask_of_nodes() -> None:
    """Neither program nor environment, which may hold secrets. Only nodes of the pool match."""
    made = pod_template(REQUEST, rules(), TEMPLATE, **WHOSE)
    assert made["template"]["spec"] == {
        "containers": [{"name": "main", "image": "bert:3", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        "initContainers": [{"name": "first", "image": "kaji:1", "restartPolicy": "Always"}],
        "nodeSelector": {"zone": "a", "pool": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "restartPolicy": "Never",
    }


def test_members_with_whole_nodes_have_an_anti_affinity() -> None:
    """Otherwise an autoscaler would put several small ones on one node."""
    template = TEMPLATE | {"metadata": {"labels": {names.LABEL_WHOLE_NODE: "true"}}}
    made = pod_template(REQUEST, rules(), template, **WHOSE)["template"]
    (apart,) = made["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchLabels"].items() <= made["metadata"]["labels"].items()


def test_both_objects_belong_to_the_run_and_the_attempt() -> None:
    """By name and owner, so that objects of an earlier run with that name are not mistaken for them."""
    template = pod_template(REQUEST, rules(), TEMPLATE, **WHOSE)
    made = provisioning_request(REQUEST, rules(), 4, api_version="autoscaling.x-k8s.io/v1beta1", **WHOSE)
    assert made["metadata"] == template["metadata"]
    assert made["metadata"]["name"] == "bert-2-1" and made["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert made["spec"]["podSets"] == [{"count": 4, "podTemplateRef": {"name": "bert-2-1"}}]
    assert made["apiVersion"] == "autoscaling.x-k8s.io/v1beta1"


def test_members_consume_the_provided_nodes() -> None:
    """Their own annotations stay."""
    used = using(TEMPLATE, REQUEST, "mine.example.com", "bert")
    assert used["metadata"]["annotations"] == {"note": "mine", CONSUMES: "bert-2-1", CLASS_NAME: "mine.example.com"}
    assert used["spec"] is TEMPLATE["spec"] and TEMPLATE["metadata"]["annotations"] == {"note": "mine"}
