"""The API server's answers as typed errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kajitori import errors as ours
from kajitori.kube import errors
from kajitori.kube.errors import ApiError, error_from_status, raise_for_status


def status(code: int, reason: str = "", **more: Any) -> bytes:
    """A Status object as an API server sends it."""
    return json.dumps({"kind": "Status", "message": "it says no", "reason": reason, "code": code, **more}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "kind", "base", "exit_code"),
    [
        (400, "BadRequest", errors.InvalidError, ours.InvalidInput, 2),
        (401, "Unauthorized", errors.UnauthorizedError, ours.Unauthenticated, 125),
        (403, "Forbidden", errors.ForbiddenError, ours.Forbidden, 2),
        (404, "NotFound", errors.NotFoundError, ours.NotFound, 2),
        (405, "MethodNotAllowed", errors.UnsupportedError, ours.Unsupported, 125),
        (409, "AlreadyExists", errors.AlreadyExistsError, ours.AlreadyExists, 2),
        (409, "Conflict", errors.ConflictError, ours.Conflict, 125),
        (410, "Expired", errors.GoneError, ours.Conflict, 125),
        (413, "RequestEntityTooLarge", errors.TooLargeError, ours.TooLarge, 2),
        (415, "UnsupportedMediaType", errors.UnsupportedError, ours.Unsupported, 125),
        (422, "Invalid", errors.InvalidError, ours.InvalidInput, 2),
        (429, "TooManyRequests", errors.TooManyRequestsError, ours.Unavailable, 125),
        (500, "InternalError", errors.ServerError, ours.Unavailable, 125),
        (504, "Timeout", errors.ServerError, ours.Unavailable, 125),
        (507, "InternalError", errors.StorageFullError, ours.StorageFull, 125),
        (418, "Teapot", ApiError, ours.KajitoriError, 125),
    ],
)
def test_each_http_status_has_its_error_type(
    code: int, reason: str, kind: type[ApiError], base: type[ours.KajitoriError], exit_code: int
) -> None:
    """The error has both the API's and the platform's type, and the server's message, reason and status."""
    with pytest.raises(kind) as caught:
        raise_for_status(code, status(code, reason), {})
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, base)
    assert (error.status, error.reason, error.message, error.exit_code) == (code, reason, "it says no", exit_code)


def test_a_successful_status_is_no_error() -> None:
    """Whatever the body is."""
    raise_for_status(201, status(500), {})


def test_causes_become_faults() -> None:
    """All invalid fields of an object are reported at once."""
    causes = [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"},
        {"reason": "FieldValueInvalid", "message": "Invalid value: -1", "field": "spec.replicas"},
    ]
    with pytest.raises(errors.InvalidError) as caught:
        raise_for_status(422, status(422, "Invalid", details={"causes": causes}), {})
    assert [(fault.field, fault.message) for fault in caught.value.faults] == [
        ("spec.containers", "Required value"),
        ("spec.replicas", "Invalid value: -1"),
    ]


@pytest.mark.parametrize(
    ("headers", "details", "seconds"),
    [
        ({"Retry-After": "3"}, {}, 3.0),
        ({}, {"retryAfterSeconds": 7}, 7.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {}, None),
        ({"Retry-After": "-1"}, {}, 0.0),
        ({}, {}, None),
    ],
)
def test_retry_after_is_read_from_the_header_or_the_body(
    headers: dict[str, str], details: dict[str, int], seconds: float | None
) -> None:
    """The header takes precedence; an invalid value is ignored."""
    with pytest.raises(errors.TooManyRequestsError) as caught:
        raise_for_status(429, status(429, details=details), headers)
    assert caught.value.retry_after_seconds == seconds


@pytest.mark.parametrize("body", [b"", b"<html>\n<h1>Bad gateway</h1></html>", b"[1]", b'{"error": "x"}', b"\xff\xfe"])
def test_the_text_of_a_proxy_is_kept_on_one_line(body: bytes) -> None:
    with pytest.raises(errors.ServerError) as caught:
        raise_for_status(502, body, {})
    assert caught.value.message.startswith("HTTP 502")
    assert "\n" not in caught.value.message


def test_a_missing_kind_differs_from_a_missing_object() -> None:
    """The custom resource definition is not installed."""
    with pytest.raises(errors.NotFoundError, match="does not serve this kind") as caught:
        raise_for_status(404, b"404 page not found\n", {})
    assert "custom resource definition" in caught.value.hint


def test_an_error_always_has_a_message() -> None:
    assert error_from_status({"kind": "Status", "code": 500, "details": None}).message == "the API server answered 500"


@pytest.mark.parametrize(
    ("said", "told", "check"),
    [
        (
            'runs.kajitori.dev is forbidden: User "eve" cannot create resource "runs" in API group "kajitori.dev" '
            'in the namespace "vision"',
            "eve may not create runs.kajitori.dev in namespace vision",
            "kubectl auth can-i create runs.kajitori.dev -n vision",
        ),
        (
            'pods "bert-1-0" is forbidden: User "eve" cannot get resource "pods/exec" in API group "" in the namespace '
            '"vision": RBAC: role.rbac.authorization.k8s.io "shell" not found',
            "eve may not get pods/exec bert-1-0 in namespace vision: RBAC: role.rbac.authorization.k8s.io "
            '"shell" not found',
            "kubectl auth can-i get pods/exec -n vision",
        ),
        (
            'nodes is forbidden: User "eve" cannot list resource "nodes" in API group "" at the cluster scope',
            "eve may not list nodes in all namespaces",
            "kubectl auth can-i list nodes -A",
        ),
    ],
)
def test_a_missing_right_is_told_in_one_sentence_with_a_way_out(said: str, told: str, check: str) -> None:
    """RBAC's own words are long, and name API groups."""
    rbac = error_from_status({"kind": "Status", "code": 403, "reason": "Forbidden", "message": said})
    assert isinstance(rbac, errors.ForbiddenError)
    assert rbac.message == told
    assert rbac.hint == f"ask the cluster's operators for a role there; yours: kaji whoami; to check: {check}"


def test_a_missing_right_of_a_service_account_is_checked_as_that_account() -> None:
    """Its operator has the right, so the bare command would say yes."""
    account = "system:serviceaccount:kajitori:kajitori-server"
    said = f'nodes is forbidden: User "{account}" cannot list resource "nodes" in API group "" at the cluster scope'
    rbac = error_from_status({"kind": "Status", "code": 403, "reason": "Forbidden", "message": said})
    assert rbac.message == f"{account} may not list nodes in all namespaces"
    assert "kaji install" in rbac.hint
    assert rbac.hint.endswith(f"kubectl auth can-i list nodes -A --as {account}")


def test_the_refusal_of_a_quota_explains_itself() -> None:
    """It is a 403, too, and has no hint."""
    quota = {
        "kind": "Status",
        "code": 403,
        "reason": "Forbidden",
        "message": 'pods "x" is forbidden: exceeded quota: q',
    }
    assert error_from_status(quota).hint == ""
