"""The address registry in force, and a check of one that is to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.views import NetworkRange, NetworksCheck, NetworksView
from kajitori.core.network.registry import Networks, findings, parse_networks

router = APIRouter(tags=["network"])


@router.get("/v1/networks", responses=describes(NetworksView), summary="Addresses of all clusters")
async def get_networks(api: Shared, user: Caller) -> Response:
    """Open to everybody who is authenticated: nobody has to guess whose an address is, or which range is free."""
    current = api.networks.current()
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


@router.post(
    "/v1/networks/check",
    responses=describes(NetworksCheck),
    openapi_extra={"requestBody": {"required": True, "content": {"application/yaml": {"schema": {"type": "string"}}}}},
    summary="Check an address registry",
)
async def check_networks(user: Caller, request: Request) -> Response:
    """Every fault at once, each with its line. The registry in force stays what it is."""
    networks = parse_networks(await request.body())
    return answer(NetworksCheck(networks=_document(networks), findings=findings(networks)))


def _document(networks: Networks) -> dict[str, Any]:
    return networks.model_dump(mode="json", by_alias=True, exclude_none=True)


def _ranges(networks: Networks) -> Iterator[NetworkRange]:
    for each in networks.researchers:
        yield NetworkRange(cidr=str(each), kind="researchers")
    hosts = {host.name: host for host in networks.nat_hosts}
    for cluster in networks.clusters:
        for kind in ("nodes", "pods"):
            for each in getattr(cluster, kind):
                via = [str(address) for address in cluster.gateways if address.version == each.version]
                yield NetworkRange(cidr=str(each), kind=kind, cluster=cluster.name, via=via)
        public = {inside: outside for outside, inside in cluster.translations}
        for each in cluster.services:
            outside, host = public.get(each), hosts.get(cluster.nat_host or "")
            if outside is None or host is None:
                yield NetworkRange(cidr=str(each), kind="services", cluster=cluster.name)
                continue
            via = [str(address) for address in host.addresses if address.version == each.version]
            yield NetworkRange(
                cidr=str(each), kind="services", cluster=cluster.name, public=str(outside), via=via, nat_host=host.name
            )
