"""Error answers of the API server (meta.k8s.io Status), worded as in apimachinery `api/errors`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kajitori.embedded.apiserver.causes import Cause
from kajitori.kube.resources import Resource

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(Exception):
    """A request is refused. `body()` is the answer to the client."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.warnings: list[str] = []
        """Warnings for the client."""

    def body(self) -> dict[str, Any]:
        """Return the Status object."""
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        if self.message:
            status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @classmethod
    def bad_request(cls, message: str) -> StatusError:
        """400: the request cannot be parsed."""
        return cls(400, "BadRequest", message)

    @classmethod
    def unreadable(cls, wanted: Resource, why: str) -> StatusError:
        """400: the data cannot be read as an object of a kind."""
        return cls.bad_request(f"the data cannot be read as a {wanted.kind} of {wanted.api_version}: {why}")

    @classmethod
    def unauthorized(cls) -> StatusError:
        """401: the credentials are wrong."""
        return cls(401, "Unauthorized", "Unauthorized")

    @classmethod
    def forbidden(cls, resource: Resource, name: str, why: str, *, causes: Sequence[Cause] = ()) -> StatusError:
        """403: the user is known but not allowed to do this."""
        what = (
            f'{qualified(resource)} "{name}" is forbidden: {why}'
            if name
            else f"{qualified(resource)} is forbidden: {why}"
        )
        details = _details_of(resource, name)
        if causes:
            details["causes"] = [one.as_dict() for one in causes]
        return cls(403, "Forbidden", what, details)

    @classmethod
    def not_found(cls, resource: Resource, name: str) -> StatusError:
        """404: there is no object of that name."""
        return cls(404, "NotFound", f'{qualified(resource)} "{name}" not found', details=_details_of(resource, name))

    @classmethod
    def unknown_path(cls) -> StatusError:
        """404: there is nothing under this path."""
        return cls(404, "NotFound", "the server could not find the requested resource", details={})

    @classmethod
    def not_served(cls, plural: str, group: str) -> StatusError:
        """404: the resource exists in Kubernetes but is not served here."""
        what = f"{plural}.{group}" if group else plural
        why = (
            "its one user is the administrator"
            if group == "rbac.authorization.k8s.io"
            else "nothing here would act on them; `kaji run` starts programs, and with `--type service` keeps them up"
        )
        return cls(404, "NotFound", f"the embedded API server of kaji up does not serve {what}: {why}", details={})

    @classmethod
    def method_not_allowed(cls) -> StatusError:
        """405: the resource does not support the verb."""
        text = "the server does not allow this method on the requested resource"
        return cls(405, "MethodNotAllowed", text, details={})

    @classmethod
    def not_acceptable(cls, served: Iterable[str]) -> StatusError:
        """406: none of the accepted media types is served."""
        text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(served)}"
        return cls(406, "NotAcceptable", text, details={})

    @classmethod
    def already_exists(cls, resource: Resource, name: str, *, generated: bool = False) -> StatusError:
        """409: the name is taken; `generated`: the server generated it."""
        detail, details = f'{qualified(resource)} "{name}" already exists', _details_of(resource, name)
        if generated:
            detail += ", the server was not able to generate a unique name for the object"
            details["retryAfterSeconds"] = 1
        return cls(409, "AlreadyExists", detail, details=details)

    @classmethod
    def conflict(cls, resource: Resource, name: str, why: str = _MODIFIED) -> StatusError:
        """409: the object was changed meanwhile."""
        what = f'Operation cannot be fulfilled on {qualified(resource)} "{name}": {why}'
        return cls(409, "Conflict", what, details=_details_of(resource, name))

    @classmethod
    def check_preconditions(
        cls, resource: Resource, meta: Mapping[str, Any], uid: str | None, version: str | None
    ) -> None:
        """Raise a 409 if a stored object does not have the UID or resource version that a request names."""
        for field, what, wanted in (("uid", "UID", uid), ("resourceVersion", "resource version", version)):
            if wanted is not None and wanted != meta[field]:
                raise cls.conflict(resource, meta["name"], f"its {what} is {meta[field]}, not {wanted}")

    @classmethod
    def expired(cls, message: str) -> StatusError:
        """410: the resource version is no longer in the history."""
        return cls(410, "Expired", message)

    @classmethod
    def too_large(cls, limit_bytes: int) -> StatusError:
        """413: the body exceeds the limit."""
        return cls(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")

    @classmethod
    def unsupported_media_type(cls, served: Iterable[str]) -> StatusError:
        """415: the body has an unsupported media type."""
        return cls(415, "UnsupportedMediaType", f"the media type of the body is none of {', '.join(served)}")

    @classmethod
    def invalid(cls, group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
        """422: the object is invalid; with every fault."""
        texts = list(dict.fromkeys(str(one) for one in causes))
        detail = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        what = f"{kind}.{group}" if group else kind
        details: dict[str, Any] = {"name": name} if name else {}
        if group:
            details["group"] = group
        if kind:
            details["kind"] = kind
        details["causes"] = [one.as_dict() for one in causes]
        return cls(422, "Invalid", f'{what} "{name}" is invalid: {detail}', details=details)

    @classmethod
    def too_many_requests(cls, message: str, *, retry_seconds: int = 0) -> StatusError:
        """429: the request cannot be served now."""
        details = {"retryAfterSeconds": retry_seconds} if retry_seconds else {}
        headers = {"Retry-After": str(retry_seconds)} if retry_seconds else None
        return cls(429, "TooManyRequests", message, details=details, headers=headers)

    @classmethod
    def internal(cls, message: str) -> StatusError:
        """500: an internal error."""
        details = {"causes": [{"message": message}]}
        return cls(500, "InternalError", f"Internal error occurred: {message}", details=details)

    @classmethod
    def unavailable(cls, message: str) -> StatusError:
        """503: a component that the request needs does not answer."""
        return cls(503, "ServiceUnavailable", message)

    @classmethod
    def future_version(cls, asked: int, current: int) -> StatusError:
        """504: the resource version is in the future."""
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        details = {"causes": [cause], "retryAfterSeconds": 1}
        text = f"Timeout: Too large resource version: {asked}, current: {current}"
        return cls(504, "Timeout", text, details=details, headers={"Retry-After": "1"})

    @classmethod
    def storage_full(cls, why: str) -> StatusError:
        """507: the change could not be made durable and was undone."""
        return cls(507, "InternalError", f"Internal error occurred: {why}")


def qualified(resource: Resource) -> str:
    """Return the name of a resource in messages: `pods`, `runs.kajitori.dev`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details_of(resource: Resource, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details
