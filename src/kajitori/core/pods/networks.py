"""Networks of runs, in which members find each other by name: their objects in the cluster, and the DNS settings of
Pods.

A network is a headless Service without selector. Each run in it has EndpointSlices of this Service, whose endpoints
have the run's names as host names. The cluster's DNS answers `NAME.SERVICE.NAMESPACE.svc`, and Pods of the network
search that domain first, so that a run outside of the network that has the same name does not answer for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kajitori.core.naming import names
from kajitori.core.pods.manifests import Manifest, owner_reference, put
from kajitori.core.spec.parts import RunNetwork
from kajitori.core.spec.run import RunSpec

LABEL_SERVICE = "kubernetes.io/service-name"
LABEL_HEADLESS = "service.kubernetes.io/headless"
"""Kubernetes' own controller marks slices of headless Services so, and kubelets of Kajitori's own read those alone."""
LABEL_SLICE_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
"""With another value than Kubernetes' own controllers use, these leave the slice alone."""
SLICE_MANAGED_BY = f"controller.{names.GROUP}"
MAX_MEMBERS = 100
"""Largest number of members of a service that a name leads to. Kubernetes' own controller puts as many into one
slice."""
NDOTS = "5"
"""Kubernetes' own setting: names with fewer dots are searched in the cluster's domains first."""


@dataclass(frozen=True, slots=True)
class ClusterDns:
    """The DNS of the cluster, as the controller's own Pod has it."""

    nameservers: tuple[str, ...] = ()
    """Empty if unknown: outside of a cluster. Pods then search the domains of their networks last."""
    domain: str = "cluster.local"
    site_searches: tuple[str, ...] = ()
    """Search domains of the node's own network."""


UNKNOWN_DNS = ClusterDns()


def read_cluster_dns(resolv_conf: str) -> ClusterDns:
    """Return the DNS settings of a Pod from its /etc/resolv.conf; the defaults if this is none of a Pod."""
    servers: list[str] = []
    searches: list[str] = []
    for line in resolv_conf.splitlines():
        match line.split():
            case ["nameserver", server, *_]:
                servers.append(server)
            case ["search", *found]:
                searches = [domain.rstrip(".") for domain in found]
    domain = next((search.removeprefix("svc.") for search in searches if search.startswith("svc.")), "")
    if not domain or not servers:
        return UNKNOWN_DNS
    site = (search for search in searches if search != domain and not search.endswith(f"svc.{domain}"))
    return ClusterDns(tuple(servers), domain, tuple(site))


def listed_networks(uses: Sequence[RunNetwork]) -> str:
    """Return the annotation of a Pod that says in which networks it is: the names of their Services."""
    return ",".join(names.network_service(use.name) for use in uses)


def has_own_service(spec: RunSpec) -> bool:
    """Whether a run has a Service of its own name, by which all Pods of its namespace find its members.

    Members of a sweep do not look up each other. A run in networks is found in these alone, unless its members
    need the Service to find each other.
    """
    if spec.array is not None:
        return False
    return not spec.networks or spec.launcher != "none" or (spec.replicas > 1 and spec.type == "batch")


def dns_settings(spec: RunSpec, namespace: str, dns: ClusterDns) -> Manifest:
    """Return the part of a Pod's spec by which its program finds the names in the run's networks."""
    if not spec.networks:
        return {}
    own = [f"{names.network_service(use.name)}.{namespace}.svc.{dns.domain}" for use in spec.networks]
    if not dns.nameservers:
        return {"dnsConfig": {"searches": own}}
    usual = [f"{namespace}.svc.{dns.domain}", f"svc.{dns.domain}", dns.domain, *dns.site_searches]
    settings = {"nameservers": list(dns.nameservers), "searches": [*own, *usual]}
    return {"dnsPolicy": "None", "dnsConfig": {**settings, "options": [{"name": "ndots", "value": NDOTS}]}}


def network_service(network: str, *, run_name: str, namespace: str, run_uid: str) -> Manifest:
    """Return the Service of a network for its first run. Every run in the network becomes an owner of it, and it is
    deleted with the last one."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.network_service(network),
            "namespace": namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "annotations": {names.ANNOTATION_NETWORK_NAME: network},
            "ownerReferences": [owner_reference(run_name, run_uid)],
        },
        "spec": {"clusterIP": "None"},
    }


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a member's Pod."""

    ip: str
    pod: str
    uid: str
    node: str


def reachable_ranks(spec: RunSpec) -> range:
    """Return the ranks to which the names of a run lead: rank 0 of a gang, all members of a service, none of a
    sweep."""
    if spec.array is not None:
        return range(0)
    return range(min(spec.replicas, MAX_MEMBERS)) if spec.type == "service" else range(1)


def network_slices(
    uses: Sequence[RunNetwork], addresses: Sequence[Address], *, run_name: str, namespace: str, run_uid: str
) -> dict[str, Manifest]:
    """Return the EndpointSlices of a run by name; none for a run without addresses. They are deleted with the run.

    Their names have dots, so that they are no names of Kubernetes' own controller for a run's Service.
    """
    found: dict[str, Manifest] = {}
    for use in uses:
        service = names.network_service(use.name)
        hosts = dict.fromkeys((run_name, *use.aliases))
        for family in ("IPv4", "IPv6"):
            of_family = [one for one in addresses if (":" in one.ip) == (family == "IPv6")]
            endpoints = [_endpoint(one, host, namespace) for one in of_family for host in hosts]
            if endpoints:
                name = f"{run_name}.{service[: len(names.NETWORK_PREFIX) + 12]}.{family.lower()}"
                labels = {
                    names.LABEL_MANAGED_BY: names.MANAGED_BY,
                    names.LABEL_RUN: run_name,
                    names.LABEL_RUN_UID: run_uid,
                    LABEL_SERVICE: service,
                    LABEL_HEADLESS: "",
                    LABEL_SLICE_MANAGED_BY: SLICE_MANAGED_BY,
                }
                metadata = {"name": name, "namespace": namespace, "labels": labels}
                found[name] = {
                    "apiVersion": "discovery.k8s.io/v1",
                    "kind": "EndpointSlice",
                    "metadata": metadata | {"ownerReferences": [owner_reference(run_name, run_uid)]},
                    "addressType": family,
                    "endpoints": endpoints,
                    "ports": [],
                }
    return found


def _endpoint(address: Address, host: str, namespace: str) -> Mapping[str, Any]:
    endpoint: Manifest = {
        "addresses": [address.ip],
        "hostname": host,
        "conditions": {"ready": True},
        "targetRef": {"kind": "Pod", "name": address.pod, "namespace": namespace, "uid": address.uid},
    }
    put(endpoint, "nodeName", address.node)
    return endpoint
