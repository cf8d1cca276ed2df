"""The environment of the parts: namespaces, reachable ports, and their share of the API server."""

from __future__ import annotations

from typing import Any

from kajitori.install.parts.objects import Object, made
from kajitori.install.settings import CONTROLLER_PORT, RELAY_PORT, SERVER_PORT, InstallSettings

_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"
_LEVELS = ("enforce", "warn", "audit")


def namespaces(settings: InstallSettings) -> list[Object]:
    """Return three namespaces.

    The namespace of the parts has Kubernetes' strictest Pod security standard unless settings say otherwise. The
    namespace of messages has no Pods. The namespace of agents allows the node's own network.
    """
    found = [
        _namespace_object(settings.namespace, settings.pod_security),
        _namespace_object(settings.messages_namespace, "restricted"),
    ]
    if settings.agents.enabled:
        found.append(_namespace_object(settings.agents_namespace, "privileged"))
    return found


def _namespace_object(name: str, standard: str) -> Object:
    found = made("v1", "Namespace", name)
    found["metadata"]["labels"] |= {f"pod-security.kubernetes.io/{level}": standard for level in _LEVELS}
    return found


def network_policies(settings: InstallSettings) -> list[Object]:
    """Return policies by which only the parts' own ports can be reached.

    Outgoing connections are not restricted, because API server, store and agents' nodes have different addresses in
    each cluster. Agents use their nodes' own network, which NetworkPolicies do not cover. Kubelets' probes come from
    the node and pass. The Web API is reached by people, by members of runs in every namespace, and by agents on nodes;
    the relay by agents, each with its own token. Controllers serve only metrics and probes.
    """
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.monitoring_namespace}}}
    found = [
        _network_policy(settings, "default", {}, None),
        _network_policy(settings, "server", _part_selector("server"), [{"ports": _tcp_ports(SERVER_PORT)}]),
        _network_policy(
            settings,
            "controller",
            _part_selector("controller"),
            [{"from": [prometheus], "ports": _tcp_ports(CONTROLLER_PORT)}],
        ),
    ]
    if settings.agents.enabled:
        found.append(_network_policy(settings, "relay", _part_selector("relay"), [{"ports": _tcp_ports(RELAY_PORT)}]))
    return found


def _network_policy(settings: InstallSettings, part: str, pods: Object, ingress: list[Any] | None) -> Object:
    spec: Object = {"podSelector": pods, "policyTypes": ["Ingress"]}
    if ingress is not None:
        spec["ingress"] = ingress
    return made("networking.k8s.io/v1", "NetworkPolicy", f"kajitori-{part}", settings.namespace, spec=spec)


def _part_selector(part: str) -> Object:
    return {"matchLabels": {"app.kubernetes.io/name": f"kajitori-{part}"}}


def _tcp_ports(port: int) -> list[Object]:
    return [{"protocol": "TCP", "port": port}]


def flow_control(settings: InstallSettings) -> list[Object]:
    """Return how the API server shares its capacity between Kajitori and all other clients.

    Without it, the parts share the priority level of all service accounts with every other controller of the cluster,
    and each waits behind the bursts of the others. With it, the parts have a level of their own with about a tenth of
    the API server's capacity, which others may borrow while it is idle. Each part is a flow of its own, so that a busy
    Web API does not delay the controller. The leader's Lease uses the level of Kubernetes' own Leases, so it never
    waits behind our own burst."""
    limited = {
        "nominalConcurrencyShares": 30,
        "lendablePercent": 80,
        "limitResponse": {"type": "Queue", "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 200}},
    }
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    leases = {
        "verbs": ["get", "create", "update"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": [settings.namespace],
    }
    return [
        made(_FLOW_CONTROL, "PriorityLevelConfiguration", "kajitori", spec={"type": "Limited", "limited": limited}),
        _flow_schema(settings, "kajitori", "kajitori", 800, everything),
        _flow_schema(settings, "kajitori-leader", "leader-election", 200, leases),
    ]


def _flow_schema(settings: InstallSettings, name: str, level: str, precedence: int, what: Object) -> Object:
    accounts = {"kind": "ServiceAccount", "serviceAccount": {"namespace": settings.namespace, "name": "*"}}
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [{"subjects": [accounts], "resourceRules": [what]}],
    }
    return made(_FLOW_CONTROL, "FlowSchema", name, spec=spec)
