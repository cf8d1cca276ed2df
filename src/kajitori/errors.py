"""All errors that Kajitori raises deliberately.

KajitoriError
├── InvalidInput          the input is wrong; carries all faults at once                exit 2, HTTP 422
│   └── Refused           the input is valid, but the policy does not allow it          exit 2, HTTP 422
├── NotFound              there is no object with that name                             exit 2, HTTP 404
├── AlreadyExists         the name is taken                                             exit 2, HTTP 409
├── WrongState            the run's present phase does not allow it                     exit 2, HTTP 409
├── Conflict              the object was changed in the meantime; read it again         exit 125, HTTP 409
├── Unauthenticated       no credentials, or expired ones                               exit 125, HTTP 401
├── Forbidden             the caller is authenticated, but not allowed to do it         exit 2, HTTP 403
├── TooLarge              the body exceeds the limit                                    exit 2, HTTP 413
├── TooSlow               the body did not arrive in time                               exit 125, HTTP 408
├── WrongMediaType        the call does not accept this type of body                    exit 2, HTTP 415
├── Unavailable           a part of the platform does not respond                       exit 125, HTTP 503
│   ├── Busy              too many requests; nothing was done, try again                exit 125, HTTP 429
│   └── StorageFull       the disk is full; nothing was changed                         exit 125, HTTP 507
└── Unsupported           this machine or cluster cannot do it; says what is missing    exit 125, HTTP 501

`kube.errors` is the only place that translates answers of an API server into these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of an input.

    `field` is the path of the field as the user wrote it (`spec.resources.gpuType`, `--gpus`), `value` its value as
    text. `hint` tells how to mend it.
    """

    field: str
    message: str
    value: str = ""
    hint: str = ""
    code: str = "Invalid"

    def __str__(self) -> str:
        text = f"{self.field}: {self.message}" if self.field else self.message
        return f"{text}. {self.hint}" if self.hint else text


class FieldError(ValueError):
    """A validator refuses a value. `hint` tells how to mend it."""

    def __init__(self, message: str, hint: str = "", code: str = "Invalid") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class KajitoriError(Exception):
    """Base of all errors that a user may see. `message` names the offending value, `hint` what to do about it."""

    code = "Internal"
    http_status = 500
    exit_code = 125

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"Hint: {hint}")  # shown below a traceback, in a notebook too
        if code is not None:
            self.code = code

    def document(self) -> dict[str, Any]:
        """Return the error as JSON for programs: `{"error": {...}}`."""
        told = {"code": self.code, "message": self.message, "hint": self.hint, "exitCode": self.exit_code}
        return {"error": told | {"faults": []}}


class InvalidInput(KajitoriError):
    """The input has one or more faults. `faults` lists all of them."""

    code = "Invalid"
    http_status = 422
    exit_code = 2

    def __init__(self, faults: Sequence[Fault], *, message: str = "", hint: str = "") -> None:
        if not faults:
            raise ValueError("InvalidInput needs at least one fault")
        self.faults = tuple(faults)
        super().__init__(message or "; ".join(str(fault) for fault in self.faults), hint=hint)

    def document(self) -> dict[str, Any]:
        faults = [
            {"field": fault.field, "message": fault.message, "value": fault.value, "hint": fault.hint}
            for fault in self.faults
        ]
        return {"error": super().document()["error"] | {"faults": faults}}

    @classmethod
    def one(cls, field: str, message: str, *, value: str = "", hint: str = "", code: str = "Invalid") -> InvalidInput:
        """Return the error for a single fault."""
        return cls([Fault(field, message, value, hint, code)])

    def renamed(self, words: Mapping[str, str]) -> InvalidInput:
        """Return the error with other words for some of its fields, such as the options of a command for the fields of
        the request that it sent."""
        faults = [replace(fault, field=words.get(fault.field, fault.field)) for fault in self.faults]
        return type(self)(faults, hint=self.hint)


class Refused(InvalidInput):
    """The input is valid, but the policy or the cluster does not allow it. Nothing was created."""

    code = "Refused"


class NotFound(KajitoriError):
    code = "NotFound"
    http_status = 404
    exit_code = 2


class AlreadyExists(KajitoriError):
    code = "AlreadyExists"
    http_status = 409
    exit_code = 2


class WrongState(KajitoriError):
    code = "WrongState"
    http_status = 409
    exit_code = 2


class Conflict(KajitoriError):
    code = "Conflict"
    http_status = 409


class Unauthenticated(KajitoriError):
    code = "Unauthenticated"
    http_status = 401


class Forbidden(KajitoriError):
    code = "Forbidden"
    http_status = 403
    exit_code = 2


class TooLarge(KajitoriError):
    code = "TooLarge"
    http_status = 413
    exit_code = 2


class TooSlow(KajitoriError):
    code = "TooSlow"
    http_status = 408


class WrongMediaType(KajitoriError):
    code = "WrongMediaType"
    http_status = 415
    exit_code = 2


class Unavailable(KajitoriError):
    code = "Unavailable"
    http_status = 503


class Busy(Unavailable):
    """There are too many requests at once. Nothing was done, so the same request can safely be repeated."""

    code = "Busy"
    http_status = 429


class StorageFull(Unavailable):
    """The disk is full. Repeating the request does not help until space has been freed."""

    code = "StorageFull"
    http_status = 507


class Unsupported(KajitoriError):
    code = "Unsupported"
    http_status = 501
