"""Requests that ValidatingAdmissionPolicies match, and the effect of their results.

Validation of the kinds themselves is among the recorded cases. tests/cluster/admission/test_admission_policies.py
compares answers with a real API server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.harness.servers.embedded_server import MERGE, EmbeddedServer, embedded_server
from tests.helpers.objects.custom_resource import boat, definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


@pytest.fixture
async def api() -> AsyncIterator[EmbeddedServer]:
    async with embedded_server() as server:
        yield server


async def enforce(
    api: EmbeddedServer,
    expression: str,
    *,
    rule: dict[str, Any] | None = None,
    constraints: dict[str, Any] | None = None,
    actions: tuple[str, ...] = ("Deny",),
    name: str = "p",
    **validation: Any,
) -> None:
    """Create a policy of one rule, bound to everything that it matches."""
    matches = {"resourceRules": [EVERYTHING | (rule or {})], **(constraints or {})}
    spec = {"matchConstraints": matches, "validations": [{"expression": expression, "message": "no", **validation}]}
    made = await api.call("POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    assert made.code == 201, made.body
    bound = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": list(actions)}}
    made = await api.call("POST", f"{GROUP}/validatingadmissionpolicybindings", bound)
    assert made.code == 201, made.body


def config(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}


@pytest.mark.parametrize(
    ("rule", "refused"),
    [
        ({}, True),
        ({"apiGroups": [""]}, True),
        ({"apiGroups": ["apps"]}, False),
        ({"apiVersions": ["v2"]}, False),
        ({"operations": ["UPDATE", "DELETE"]}, False),
        ({"operations": ["CREATE"]}, True),
        ({"resources": ["configmaps"]}, True),
        ({"resources": ["configmaps/*"]}, True),
        ({"resources": ["*"]}, True),
        ({"resources": ["configmaps/status"]}, False),
        ({"resources": ["*/status"]}, False),
        ({"resources": ["pods"]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
        ({"resourceNames": ["a", "b"]}, True),
        ({"resourceNames": ["b"]}, False),
    ],
)
async def test_a_rule_selects_requests(api: EmbeddedServer, rule: dict[str, Any], refused: bool) -> None:
    await enforce(api, "false", rule=rule)
    assert (await api.call("POST", MAPS, config("a"))).code == (422 if refused else 201)


async def test_a_rule_can_match_a_subresource(api: EmbeddedServer) -> None:
    """To a policy, the status of a Node is a resource of its own."""
    await enforce(api, "false", rule={"resources": ["nodes/status"]})
    assert (await api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).code == 201
    status = {"status": {"phase": "Running"}}
    assert (await api.call("PATCH", "/api/v1/nodes/n/status", status, content_type=MERGE)).code == 422
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await api.call("PATCH", "/api/v1/nodes/n", labels, content_type=MERGE)).code == 200


@pytest.mark.parametrize(("policy", "code"), [("Equivalent", 422), ("Exact", 201)])
async def test_a_rule_matches_the_same_objects_in_another_version(api: EmbeddedServer, policy: str, code: int) -> None:
    """A policy about one version of a custom resource matches the others unless it says otherwise."""
    assert (await api.call("POST", DEFINITIONS, definition())).code == 201
    rule = {"apiGroups": ["sea.example"], "apiVersions": ["v1"], "resources": ["boats"]}
    await enforce(api, "request.name == ''", rule=rule, constraints={"matchPolicy": policy})
    path = "/apis/sea.example/v1alpha1/namespaces/default/boats"
    assert (await api.call("POST", path, boat("v1alpha1", size=1))).code == code


async def test_an_object_is_selected_by_its_labels_before_or_after_the_change(api: EmbeddedServer) -> None:
    """Otherwise a change that takes the label off would escape the policy."""
    assert (await api.call("POST", MAPS, config("labelled", labels={"guarded": "yes"}))).code == 201
    assert (await api.call("POST", MAPS, config("plain"))).code == 201
    await enforce(api, "false", constraints={"objectSelector": {"matchLabels": {"guarded": "yes"}}})

    async def patch(name: str, labels: dict[str, str | None]) -> int:
        body = {"metadata": {"labels": labels}}
        return (await api.call("PATCH", f"{MAPS}/{name}", body, content_type=MERGE)).code

    assert await patch("plain", {"x": "y"}) == 200
    assert await patch("labelled", {"guarded": None}) == 422
    assert await patch("plain", {"guarded": "yes"}) == 422
    assert (await api.call("DELETE", f"{MAPS}/plain")).code == 200
    assert (await api.call("DELETE", f"{MAPS}/labelled")).code == 422


async def test_namespaces_are_selected_by_their_labels(api: EmbeddedServer) -> None:
    """Objects in the namespace as well; objects that are not namespaced are always selected."""
    selector = {"namespaceSelector": {"matchLabels": {"strict": "yes"}}}
    await enforce(api, "request.operation != 'CREATE'", constraints=selector)
    strict = {"metadata": {"name": "strict", "labels": {"strict": "yes"}}}
    assert (await api.call("POST", "/api/v1/namespaces", strict)).code == 422
    assert (await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "later"}})).code == 201
    maps = "/api/v1/namespaces/later/configmaps"
    assert (await api.call("POST", maps, config("a"))).code == 201
    labels = {"metadata": {"labels": {"strict": "yes"}}}
    assert (await api.call("PATCH", "/api/v1/namespaces/later", labels, content_type=MERGE)).code == 200
    assert (await api.call("POST", maps, config("b"))).code == 422
    assert (await api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})).code == 422


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)])
async def test_the_reason_decides_the_code(api: EmbeddedServer, reason: str, code: int) -> None:
    await enforce(api, "false", reason=reason)
    answer = await api.call("POST", MAPS, config("a"))
    said = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"
    assert (answer.code, answer.body["reason"]) == (code, reason)
    assert answer.body["message"] == f'configmaps "a" is forbidden: {said}'
    assert answer.body["details"]["causes"] == [{"message": said}]


async def test_a_policy_may_warn_only(api: EmbeddedServer) -> None:
    await enforce(api, "false", actions=("Warn", "Audit"))
    answer = await api.call("POST", MAPS, config("a"))
    assert answer.code == 201
    assert "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': no" in answer.headers["Warning"]


async def test_a_denied_request_changes_nothing(api: EmbeddedServer) -> None:
    """Creation, change and deletion, of one object or of a collection."""
    assert (await api.call("POST", MAPS, config("a"))).code == 201
    await enforce(api, "false", rule={"resources": ["configmaps"]})
    changed = {"data": {"a": "b"}}
    assert (await api.call("PATCH", f"{MAPS}/a", changed, content_type=MERGE)).code == 422
    assert (await api.call("PUT", f"{MAPS}/a", config("a") | changed)).code == 422
    assert (await api.call("DELETE", f"{MAPS}/a")).code == 422
    assert (await api.call("DELETE", MAPS)).code == 422
    assert "data" not in (await api.call("GET", f"{MAPS}/a")).body


async def test_a_changed_policy_applies_at_once(api: EmbeddedServer) -> None:
    """A policy without a binding, or with a deleted one, does not apply."""
    await enforce(api, "false", rule={"resources": ["configmaps"]})
    assert (await api.call("POST", MAPS, config("a"))).code == 422
    spec = {"spec": {"validations": [{"expression": "object.metadata.name != 'b'"}]}}
    assert (await api.call("PATCH", f"{GROUP}/validatingadmissionpolicies/p", spec, content_type=MERGE)).code == 200
    assert (await api.call("POST", MAPS, config("a"))).code == 201
    assert (await api.call("POST", MAPS, config("b"))).code == 422
    assert (await api.call("DELETE", f"{GROUP}/validatingadmissionpolicybindings/p")).code == 200
    assert (await api.call("POST", MAPS, config("b"))).code == 201


async def test_unsupported_policies_are_refused_at_their_creation(api: EmbeddedServer) -> None:
    """A real server evaluates policies with parameters; here they would protect nothing."""
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [EVERYTHING]},
        "validations": [{"expression": "isURL('https://example.org')"}],
    }
    made = await api.call("POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    assert made.code == 422
    assert "spec.paramKind: Forbidden: policies with parameters are not served" in made.body["message"]
    assert "undeclared reference to 'isURL'" in made.body["message"]
    bound = {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "x"}}
    path = f"{GROUP}/validatingadmissionpolicybindings"
    assert (await api.call("POST", path, {"metadata": {"name": "b"}, "spec": bound})).code == 422


async def test_the_kinds_of_policies_have_printer_columns(api: EmbeddedServer) -> None:
    await enforce(api, "false")
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    policies = (await api.call("GET", f"{GROUP}/validatingadmissionpolicies", headers=table)).body
    assert policies["rows"][0]["cells"][:3] == ["p", 1, "<unset>"]
    bindings = (await api.call("GET", f"{GROUP}/validatingadmissionpolicybindings", headers=table)).body
    assert bindings["rows"][0]["cells"][:3] == ["p", "p", "<unset>"]
