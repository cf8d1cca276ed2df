"""An API server's error answers as typed errors: the one boundary between the wire and the rest.

KajitoriError
└── ApiError                         an answer with a status of 400 or more that has no class of its own
    ├── InvalidError                 also InvalidInput: 400, 422; the server's causes as faults
    ├── UnauthorizedError            also Unauthenticated: 401
    ├── ForbiddenError               also Forbidden: 403
    ├── NotFoundError                also NotFound: 404
    ├── AlreadyExistsError           also AlreadyExists: 409, the name is taken
    ├── ConflictError                also Conflict: 409, changed meanwhile
    ├── GoneError                    also Conflict: 410, the resource version or continue token is too old
    ├── TooLargeError                also TooLarge: 413
    ├── UnsupportedError             also Unsupported: 405, 406, 415, 501
    ├── TooManyRequestsError         also Unavailable: 429
    └── ServerError                  also Unavailable: 5xx
        └── StorageFullError         also StorageFull: 507, nothing was changed
Unavailable
├── ConnectionFailed                 no answer at all
└── PortUnreachable                  no program accepts connections at the port of a Pod
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kajitori import errors
from kajitori.errors import Fault, KajitoriError

_TEXT_LIMIT = 500


class ApiError(KajitoriError):
    """An API server refused a request or could not carry it out.

    `status` is the HTTP status, `reason` Kubernetes' word for it (`AlreadyExists`, `Expired`), `details` the Status
    object's details, `retry_after_seconds` the time that the server asks to wait (None if it does not ask).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
        hint: str = "",
    ) -> None:
        KajitoriError.__init__(self, message, hint=hint)
        self.status = status
        self.reason = reason
        self.details: Mapping[str, Any] = details or {}
        self.retry_after_seconds = retry_after_seconds


class InvalidError(ApiError, errors.InvalidInput):
    """400, 422: the object or the request is not valid; `faults` are the causes that the server named."""

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None, **rest: Any) -> None:
        ApiError.__init__(self, message, details=details, **rest)
        faults = [
            Fault(str(cause.get("field", "")), str(cause.get("message", "")), code=str(cause.get("reason", "Invalid")))
            for cause in self.details.get("causes") or ()
        ]
        self.faults = tuple(faults) or (Fault("", message),)


class UnauthorizedError(ApiError, errors.Unauthenticated):
    """401: no credentials, wrong or expired ones."""


class ForbiddenError(ApiError, errors.Forbidden):
    """403: authenticated, but not allowed; quotas and admission webhooks also answer this."""


class NotFoundError(ApiError, errors.NotFound):
    """404: no such object, or a kind that the server does not serve."""


class NotServedError(NotFoundError):
    """404 without a Status: the server does not serve this kind at all."""


class AlreadyExistsError(ApiError, errors.AlreadyExists):
    """409: the name is taken."""


class ConflictError(ApiError, errors.Conflict):
    """409: the object has changed since it was read, or a precondition does not hold."""


class GoneError(ApiError, errors.Conflict):
    """410: the server no longer knows the resource version or the continue token."""


class TooLargeError(ApiError, errors.TooLarge):
    """413: the body is over the server's limit."""


class UnsupportedError(ApiError, errors.Unsupported):
    """405, 406, 415, 501: the server does not serve this verb or format."""


class TooManyRequestsError(ApiError, errors.Unavailable):
    """429: the server asks to slow down, or a disruption budget forbids an eviction for now."""


class ServerError(ApiError, errors.Unavailable):
    """5xx: the server, or something between it and this client, failed."""


class StorageFullError(ServerError, errors.StorageFull):
    """507: the disk of the embedded API server is full; nothing was changed."""


class ConnectionFailed(errors.Unavailable):
    """No answer: the server could not be reached, or the connection broke.

    `maybe_applied` is False only if the request certainly never reached the server.
    """

    def __init__(self, message: str, *, hint: str = "", maybe_applied: bool = True) -> None:
        super().__init__(message, hint=hint)
        self.maybe_applied = maybe_applied


class PortUnreachable(errors.Unavailable):
    """The kubelet could not connect to the port of a Pod, most often because no program listens on it."""

    code = "PortUnreachable"

    def __init__(self, message: str, *, hint: str = "", is_refusal: bool = False) -> None:
        """`is_refusal`: the Pod answered that nothing listens on the port."""
        super().__init__(message, hint=hint)
        self.is_refusal = is_refusal


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    405: UnsupportedError,
    406: UnsupportedError,
    409: ConflictError,
    410: GoneError,
    413: TooLargeError,
    415: UnsupportedError,
    422: InvalidError,
    429: TooManyRequestsError,
    501: UnsupportedError,
    507: StorageFullError,
}

_NOT_SERVED = "404 page not found"
"""The body of an API server's answer, instead of a Status, for an unknown path."""

_MISSING_RIGHT = re.compile(
    r'(?:\S+ is|\S+ "(?P<name>[^"]*)" is) forbidden: User "(?P<user>[^"]*)" cannot (?P<verb>\S+) '
    r'resource "(?P<kind>[^"/]*)(?P<below>[^"]*)" in API group "(?P<group>[^"]*)" '
    r'(?:in the namespace "(?P<namespace>[^"]*)"|at the cluster scope)(?P<more>.*)',
    re.DOTALL,
)
"""The message of RBAC. Quotas and admission also answer 403, with other messages."""

_HINTS: dict[type[ApiError], str] = {
    UnauthorizedError: "the credentials are missing, wrong or expired; log in to the cluster again",
    TooManyRequestsError: "the API server is busy; try again later",
    ServerError: "the API server has trouble; try again later",
    StorageFullError: "nothing was changed; make room on the disk of the API server",
}


def missing_right(user: str, verb: str, what: str, namespace: str = "", name: str = "") -> tuple[str, str]:
    """Return the message and the hint for a user who may not do `verb` with objects of a kind.

    `what` is the kind as `kubectl auth can-i` takes it. Without a namespace, all namespaces or the cluster are meant.
    """
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    check = f"kubectl auth can-i {verb} {what}" + (f" -n {namespace}" if namespace else " -A")
    message = f"{user} may not {verb} {what}{f' {name}' if name else ''} {where}"
    if user.startswith("system:serviceaccount:"):
        roles = "kaji install gives Kajitori's parts their roles, kaji token create those of robots"
        return message, f"this service account lacks a role there: {roles}; to check: {check} --as {user}"
    return message, f"ask the cluster's operators for a role there; yours: kaji whoami; to check: {check}"


def error_from_status(
    document: Mapping[str, Any], *, status: int = 0, retry_after_seconds: float | None = None
) -> ApiError:
    """Return the error for a Kubernetes Status object, from a response's body or an ERROR event of a watch.

    `status` is the HTTP status; without it the document's `code` is used.
    """
    code = status or int(document.get("code") or 500)
    reason = str(document.get("reason") or "")
    details = document.get("details")
    if not isinstance(details, dict):
        details = {}
    message = str(document.get("message") or reason or f"the API server answered {code}")
    kind = _BY_STATUS.get(code, ServerError if code >= 500 else ApiError)
    if kind is ConflictError and reason == "AlreadyExists":
        kind = AlreadyExistsError
    if kind is UnauthorizedError and message == "Unauthorized":
        message = "the API server does not accept the credentials"
    hint = _HINTS.get(kind, "")
    if kind is ForbiddenError and (found := _MISSING_RIGHT.fullmatch(message)) is not None:
        message, hint = missing_right(
            found["user"],
            found["verb"],
            found["kind"] + (f".{found['group']}" if found["group"] else "") + found["below"],
            found["namespace"] or "",
            found["name"] or "",
        )
        message += found["more"]
    if retry_after_seconds is None and details.get("retryAfterSeconds"):
        retry_after_seconds = float(details["retryAfterSeconds"])
    return kind(
        message,
        status=code,
        reason=reason,
        details=details,
        retry_after_seconds=retry_after_seconds,
        hint=hint,
    )


def raise_for_status(status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Raise the typed error for an HTTP answer of 400 or more."""
    if status >= 400:
        raise error_from_answer(status, body, headers)


def error_from_answer(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """Return the typed error for an HTTP answer of 400 or more. A proxy may have written the body."""
    try:
        retry_after_seconds: float | None = max(0.0, float(headers.get("Retry-After", "")))
    except ValueError:
        retry_after_seconds = None  # absent, or an HTTP date, which no API server sends
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        document = None
    if not isinstance(document, dict) or document.get("kind") != "Status":
        text = " ".join(body[:_TEXT_LIMIT].decode(errors="replace").split())
        if text == _NOT_SERVED:
            return NotServedError(
                "the API server does not serve this kind",
                status=status,
                reason="NotServed",
                hint="install its custom resource definition, or check the server's version",
            )
        document = {"message": f"HTTP {status}: {text}" if text else f"HTTP {status} with an empty body"}
    return error_from_status(document, status=status, retry_after_seconds=retry_after_seconds)
