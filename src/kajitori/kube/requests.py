"""Parts of requests to the API server: paths, parameters and bodies."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from kajitori.errors import InvalidInput

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:@!$&'()*+,;=")


class PatchKind(StrEnum):
    """Formats of a patch's body."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


def segment(name: str, field: str) -> str:
    """Return a name as a segment of a URL's path. Raises InvalidInput for a name that would change the path."""
    if name in ("", ".", "..") or not _SAFE.issuperset(name):
        raise InvalidInput.one(field, f"{name!r:.80} is not the name of an object", value=name)
    return name


def selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """Return the parameters of a request that select objects; an empty selector selects all."""
    return given_params({"labelSelector": label_selector, "fieldSelector": field_selector})


def given_params(wanted: Mapping[str, str | int | None]) -> dict[str, str]:
    """Return the parameters of a request that have a value: neither None, nor an empty text, nor False."""
    given = {name: value for name, value in wanted.items() if value is not None and value is not False and value != ""}
    return {name: "true" if value is True else str(value) for name, value in given.items()}


def encode(body: Mapping[str, Any] | bytes) -> bytes:
    """Return a request's body; bytes are JSON already."""
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def delete_options(
    grace_seconds: int | None, propagation: str | None, uid: str | None, resource_version: str | None
) -> bytes:
    """Return the body of a deletion with these options."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation is not None:
        options["propagationPolicy"] = propagation
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if any(preconditions.values()):
        options["preconditions"] = {name: value for name, value in preconditions.items() if value}
    return msgspec.json.encode(options)
