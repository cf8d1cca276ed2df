"""Why lists are empty for a person without a role."""

from __future__ import annotations

import warnings
from typing import Any

from kajitori.client.views import View
from kajitori.client.web_api import Api
from kajitori.errors import KajitoriError


def missing_role(who: View) -> str:
    """Return what a person without any role has to do, from the answer of `/v1/whoami`; empty for others."""
    if who["namespaces"] or who["operator"]:
        return ""
    groups = [group for group in who["groups"] if not group.startswith("system:")]
    told = f"you are {who['user']}" + (f", and your groups are {', '.join(groups)}" if groups else "")
    return (
        "you have no role in any namespace yet, so you see no runs. Ask the operators for one, and tell them: " + told
    )


def who_am_i(api: Api, namespace: str | None = None) -> dict[str, Any]:
    """Return the server's answer about the caller. It looks for a role in `namespace`, too; without one in that of the
    context."""
    namespace = namespace or api.target.namespace
    found: dict[str, Any] = api.get("/v1/whoami", {"namespace": namespace} if namespace else None)
    return found


def role_missing_now(api: Api, namespace: str | None = None) -> str:
    """Ask the server for the caller's roles and return `missing_role`; empty if the server does not answer."""
    try:
        return missing_role(who_am_i(api, namespace))
    except KajitoriError:
        return ""


def has_role(api: Api) -> bool:
    """Whether the caller of `Client.list` has a role, as far as the server tells; warn one who has none."""
    missing = role_missing_now(api)
    if missing:
        warnings.warn(missing, stacklevel=3)
    return not missing
