"""The ResourceQuotas of a namespace, and how much of them is in use."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from kajitori.api.answers.paging import Parameters
from kajitori.api.auth import Caller
from kajitori.api.context import Shared, answer, describes
from kajitori.api.views.configuration import QuotaList, QuotaView
from kajitori.core.admission.quota import quota_uses
from kajitori.core.documents.fields import DnsLabel
from kajitori.errors import Forbidden
from kajitori.kube.resources import RESOURCE_QUOTAS

router = APIRouter(tags=["policy"])


class QuotaParameters(Parameters):
    namespace: DnsLabel | None = None
    """Default: the server's own."""


@router.get("/v1/quotas", responses=describes(QuotaList), summary="Quotas of a namespace, and their use")
async def list_quotas(api: Shared, user: Caller, query: Annotated[QuotaParameters, Query()]) -> Response:
    """Kubernetes' ResourceQuotas, which also count Pods that are not members of runs. A run that they leave no room for
    waits. Needs the right to list the namespace's runs. Without the right to list ResourceQuotas, the answer has none,
    and `note` says so."""
    namespace = query.namespace or api.namespace
    await user.require("list", namespace)
    try:
        quotas, note = (await user.client.list(RESOURCE_QUOTAS, namespace)).items, ""
    except Forbidden:
        quotas, note = [], f"{user.name} may not list quotas in namespace {namespace}"
    items = [
        QuotaView(
            quota=use.quota,
            resource=use.resource,
            used=use.used,
            limit=use.limit,
            left=use.left,
            part=use.part,
            limited_to=use.limited_to,
        )
        for use in quota_uses(quotas)
    ]
    return answer(QuotaList(namespace=namespace, items=items, note=note))
