"""Every error that Kajitori raises on purpose.

KajitoriError
├── InvalidInput          what somebody wrote is wrong; carries every fault at once     exit 2, HTTP 422
│   └── Refused           well-formed, but policy does not allow it                     exit 2, HTTP 422
├── NotFound              no object of that name                                        exit 2, HTTP 404
├── AlreadyExists         the name is taken                                             exit 2, HTTP 409
├── WrongState            the run's phase does not allow that, now                      exit 2, HTTP 409
├── Conflict              somebody else changed it first; read it again                 exit 125, HTTP 409
├── Unauthenticated       no credentials, or expired ones                               exit 125, HTTP 401
├── Forbidden             known, but not allowed                                        exit 2, HTTP 403
├── TooLarge              a body over the limit                                         exit 2, HTTP 413
├── TooSlow               a body that did not arrive in time                            exit 125, HTTP 408
├── WrongMediaType        a body of a kind that the call does not take                  exit 2, HTTP 415
├── Unavailable           a part of the platform does not answer                        exit 125, HTTP 503
│   ├── Busy              too much is asked at once; nothing was done, try again        exit 125, HTTP 429
│   └── StorageFull       its disk has no room; nothing was changed                     exit 125, HTTP 507
└── Unsupported           this machine or cluster can't do it; says what is missing     exit 125, HTTP 501

`kube.errors` translates what an API server answers into these, at one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with what somebody wrote.

    `field` is the path of the field as the writer wrote it (`spec.resources.gpuType`, `--gpus`); `value` is what stood
    there, as text; `hint` says the way out.
    """

    field: str
    message: str
    value: str = ""
    hint: str = ""
    code: str = "Invalid"

    def __str__(self) -> str:
        said = f"{self.field}: {self.message}" if self.field else self.message
        return f"{said}. {self.hint}" if self.hint else said


class FieldError(ValueError):
    """A value that a validator refuses, with a hint on the way out."""

    def __init__(self, message: str, hint: str = "", code: str = "Invalid") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class KajitoriError(Exception):
    """Base of all errors that a user may see. `message` names the offending value; `hint` says what to do."""

    code = "Internal"
    http_status = 500
    exit_code = 125

    def __init__(self, message: str, *, hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code


class InvalidInput(KajitoriError):
    """Input is wrong in one or several places; `faults` names all of them at once."""

    code = "Invalid"
    http_status = 422
    exit_code = 2

    def __init__(self, faults: Sequence[Fault], *, message: str = "", hint: str = "") -> None:
        if not faults:
            raise ValueError("InvalidInput needs at least one fault")
        self.faults = tuple(faults)
        super().__init__(message or "; ".join(str(fault) for fault in self.faults), hint=hint)

    @classmethod
    def one(cls, field: str, message: str, *, value: str = "", hint: str = "", code: str = "Invalid") -> InvalidInput:
        """The error for a single fault."""
        return cls([Fault(field, message, value, hint, code)])


class Refused(InvalidInput):
    """The input is well-formed, but policy does not allow it. Nothing was created."""

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
    """Too much is asked at once. Nothing was done, so the same request may safely be sent again."""

    code = "Busy"
    http_status = 429


class StorageFull(Unavailable):
    """Somebody has to make room first: trying again soon is of no use."""

    code = "StorageFull"
    http_status = 507


class Unsupported(KajitoriError):
    code = "Unsupported"
    http_status = 501
