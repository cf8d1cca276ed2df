"""Sends a request for a run to the server, and asks the server about it before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kajitori.client.submit.request import RunRequest
from kajitori.client.web_api import Api
from kajitori.core.suggestions import did_you_mean
from kajitori.errors import InvalidInput, KajitoriError


def template_spec(api: Api, name: str) -> Mapping[str, Any]:
    """Return the spec of a template of the policy. Raises InvalidInput for an unknown name."""
    templates = api.get("/v1/policy")["policy"].get("templates") or {}
    if name not in templates:
        hint = did_you_mean(name, templates) or "the operators write templates into the policy: kaji policy show"
        raise InvalidInput.one("--template", f"there is no template {name!r:.80}", value=name, hint=hint)
    spec: Mapping[str, Any] = templates[name]["spec"]
    return spec


def at_home(request: RunRequest, namespace: str) -> RunRequest:
    """Return the request with this namespace (empty: the server's default), unless it names one."""
    return replace(request, namespace=namespace) if request.namespace is None and namespace else request


def submit(api: Api, request: RunRequest, *, dry_run: bool = False) -> dict[str, Any]:
    """Send the request and return the run's view. Raises InvalidInput in the words of the options."""
    try:
        answer: dict[str, Any] = api.post("/v1/runs", request.body(), {"dryRun": dry_run})
    except InvalidInput as error:
        raise request.in_users_words(error) from None
    return answer


def what_if(api: Api, request: RunRequest) -> dict[str, Any]:
    """Return the outlook of the request without creating anything. Raises InvalidInput with faults that name the
    options."""
    try:
        answer: dict[str, Any] = api.post("/v1/what-if", request.body())
    except InvalidInput as error:
        raise request.in_users_words(error) from None
    return answer


def all_faults(api: Api, request: RunRequest) -> InvalidInput:
    """Return the error for a faulty request, with the server's faults if it answers. Nothing is created."""
    try:
        if request.whole:
            api.post("/v1/runs", request.body(), {"dryRun": True}, tries=1)
    except InvalidInput as error:
        return request.in_users_words(error)
    except KajitoriError:
        pass
    return InvalidInput(request.faults)
