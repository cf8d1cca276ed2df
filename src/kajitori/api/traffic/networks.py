"""Show the address registry in force and the use of addresses, and check a new registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.requests.bodies import yaml_body
from kajitori.api.views.configuration import NetworkRange, NetworksCheck, NetworksView, NetworkUse, NodeNetwork
from kajitori.cluster.mirror.usage import amount_of
from kajitori.cluster.objects import Node
from kajitori.core.network.registry.findings import findings
from kajitori.core.network.registry.model import Networks
from kajitori.core.network.registry.parsing import parse_networks
from kajitori.core.network.use.nodes import NodeUse, shortages

router = APIRouter(tags=["network"])


@router.get("/v1/networks", responses=describes(NetworksView), summary="Addresses of all clusters")
async def get_networks(api: Shared, user: Caller) -> Response:
    """Open to every authenticated user, so that all can look up the owner of an address and the free ranges."""
    current = api.traffic.networks.current()
    path = str(current.path) if current.path is not None else ""
    networks = current.networks
    view = NetworksView(
        path=path,
        version=current.version,
        networks=_document(networks),
        ranges=list(_ranges(networks)),
        faults=list(current.faults),
        findings=findings(networks),
    )
    return answer(view)


@router.get("/v1/networks/use", responses=describes(NetworkUse), summary="Addresses for Pods on each node")
async def get_use(api: Shared, user: Caller) -> Response:
    """Marks the nodes that have run out of addresses, or will before they reach their limit of Pods."""
    body = api.remembered.get("networks/use", lambda: msgspec.json.encode(_use(api)))
    return Response(body, media_type="application/json")


def _use(api: Api) -> NetworkUse:
    nodes = [node_use(api, node) for node in api.mirror.nodes.values()]
    short = {shortage.node.name: shortage.why for shortage in shortages(nodes)}
    items = [
        NodeNetwork(
            name=node.name,
            pod_cidrs=list(node.pod_cidrs),
            addresses=node.addresses,
            most_pods=node.max_pods,
            pods=node.pods,
            runs_out=short.get(node.name, ""),
        )
        for node in sorted(nodes, key=lambda node: node.name)
    ]
    return NetworkUse(items=items)


def node_use(api: Api, node: Node) -> NodeUse:
    spec, amounts = node.spec, node.status.allocatable or node.status.capacity
    cidrs = spec.pod_cidrs or ((spec.pod_cidr,) if spec.pod_cidr else ())
    pods = [pod for pod in api.mirror.pods_on_node(node.metadata.name) if not pod.is_finished]
    node_addresses = {address.address for address in node.status.addresses}
    count = sum(pod.status.pod_ip not in node_addresses for pod in pods)  # the rest use the node's network
    return NodeUse(node.metadata.name, cidrs, amount_of("pods", amounts.get("pods", "0")), count)


@router.post(
    "/v1/networks/check",
    responses=describes(NetworksCheck),
    openapi_extra={"requestBody": {"required": True, "content": {"application/yaml": {"schema": {"type": "string"}}}}},
    summary="Check an address registry",
)
async def check_networks(user: Caller, request: Request) -> Response:
    """Lists every fault with its line. The registry in force does not change."""
    networks = parse_networks(await yaml_body(request))
    return answer(NetworksCheck(networks=_document(networks), findings=findings(networks)))


def _document(networks: Networks) -> dict[str, Any]:
    return networks.model_dump(mode="json", by_alias=True, exclude_none=True)


def _ranges(networks: Networks) -> Iterator[NetworkRange]:
    for cidr in networks.researchers:
        yield NetworkRange(cidr=str(cidr), kind="researchers")
    hosts = {host.name: host for host in networks.nat_hosts}
    for cluster in networks.clusters:
        for kind in ("nodes", "pods"):
            for cidr in getattr(cluster, kind):
                via = [str(address) for address in cluster.gateways if address.version == cidr.version]
                yield NetworkRange(cidr=str(cidr), kind=kind, cluster=cluster.name, via=via)
        public = {inside: outside for outside, inside in cluster.translations}
        for cidr in cluster.services:
            outside, host = public.get(cidr), hosts.get(cluster.nat_host or "")
            if outside is None or host is None:
                yield NetworkRange(cidr=str(cidr), kind="services", cluster=cluster.name)
                continue
            via = [str(address) for address in host.addresses if address.version == cidr.version]
            yield NetworkRange(
                cidr=str(cidr), kind="services", cluster=cluster.name, public=str(outside), via=via, nat_host=host.name
            )
