"""Everything that a cluster needs, as objects in the order in which they can be applied."""

from __future__ import annotations

from collections.abc import Mapping

from kajitori.core.admission.member_policy import member_policy, member_policy_binding
from kajitori.core.admission.owner_policy import owner_policy, owner_policy_binding
from kajitori.core.pods.manifests import priority_class
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.install.parts import agents, monitoring, surroundings, workloads
from kajitori.install.parts.gateway import authentication, gateway
from kajitori.install.parts.objects import Object, as_yaml, made
from kajitori.install.parts.roles import roles
from kajitori.install.settings import TLS_SECRET, InstallSettings

EMPTY_POLICY = "{}\n"
EMPTY_NETWORKS = "clusters: []\n"


def render(
    settings: InstallSettings, policy: str = EMPTY_POLICY, networks: str = EMPTY_NETWORKS
) -> dict[str, list[Object]]:
    """Return all objects by subject, in the order in which they can be applied.

    `policy` and `networks` are the texts of the policy file and the address registry. Secrets with keys are not part of
    it: see `install.certificates`.
    """
    files = {
        "namespace": surroundings.namespaces(settings),
        "definition": [priority_class(), custom_resource_definition()],
        "owner-policy": [owner_policy(), owner_policy_binding()] if settings.admission_policies else [],
        "member-policy": [member_policy(), member_policy_binding()] if settings.admission_policies else [],
        "rbac": roles(settings),
        "flowcontrol": surroundings.flow_control(settings) if settings.flow_control else [],
        "certificates": certificates(settings),
        "policy": [policy_map(settings, policy, networks)],
        "alerts": monitoring.alerts(settings),
        "monitors": monitoring.monitors(settings),
        "dashboards": monitoring.dashboards(settings),
        "networkpolicies": surroundings.network_policies(settings),
        "controller": workloads.controller(settings),
        "server": workloads.server(settings),
    }
    if settings.gateway.enabled:
        files["gateway"] = gateway(settings)
    if settings.agents.enabled:
        files["relay"] = workloads.relay(settings)
        files["agent"] = [agent_policy(settings), *agents.agents(settings)]
    return {name: objects for name, objects in files.items() if objects}


def certificates(settings: InstallSettings) -> list[Object]:
    """Return the objects that provide the certificates: a CronJob that renews them, or Certificates of cert-manager."""
    if settings.tls.certificates == "own":
        return workloads.renewal(settings)
    issuer = settings.tls.issuer
    if issuer is None:
        return []
    wanted = {settings.namespace: settings.certificate_names}
    if settings.agents.enabled:  # for their metrics, and the authority for everything else
        wanted[settings.agents_namespace] = settings.agents_certificate_names
    return [
        made(
            "cert-manager.io/v1",
            "Certificate",
            TLS_SECRET,
            namespace,
            spec={
                "secretName": TLS_SECRET,
                "issuerRef": {"group": "cert-manager.io", "kind": issuer.kind, "name": issuer.name},
                "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
                "dnsNames": [name for name in wanted[namespace] if not _is_address(name)],
                "ipAddresses": [name for name in wanted[namespace] if _is_address(name)],
            },
        )
        for namespace in wanted
    ]


def policy_map(settings: InstallSettings, policy: str, networks: str) -> Object:
    """Return the ConfigMap with the policy file and the address registry, which operators edit, and the authorities of
    the OpenID provider."""
    data = {"policy.yaml": policy, "networks.yaml": networks}
    if settings.sign_in.ca:
        data[workloads.SIGN_IN_AUTHORITY] = settings.sign_in.ca
    if settings.gateway.enabled:
        data[workloads.GATEWAY_AUTHENTICATION] = authentication(settings)
    return made("v1", "ConfigMap", workloads.POLICY, settings.namespace, data=data)


def agent_policy(settings: InstallSettings) -> Object:
    """Return the ConfigMap with the agents' part of the policy."""
    text = as_yaml([settings.agents.policy])
    return made("v1", "ConfigMap", "kajitori-agent", settings.agents_namespace, data={"policy.yaml": text})


def in_order(files: Mapping[str, list[Object]]) -> list[Object]:
    """Return all objects of all files."""
    return [document for objects in files.values() for document in objects]


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()
