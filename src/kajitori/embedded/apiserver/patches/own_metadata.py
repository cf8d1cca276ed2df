"""Metadata that the server itself writes and keeps over updates."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import keep

_NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_MAX_LENGTH = 58
IDENTITY = ("uid", "creationTimestamp", "selfLink")
SERVER_SET = (*IDENTITY, "deletionTimestamp", "deletionGracePeriodSeconds")


def now_text() -> str:
    """Return the current time in the form of metadata."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def generate_name(base: str) -> str:
    """Return a name from `generateName`: the prefix and five random characters."""
    return base[:_GENERATED_MAX_LENGTH] + "".join(secrets.choice(_NAME_CHARACTERS) for _ in range(5))


def keep_identity(meta: Object, before: Object) -> None:
    """Keep the metadata that no update can change and that updates may leave out."""
    meta.setdefault("name", before["name"])
    if "namespace" in before:
        meta.setdefault("namespace", before["namespace"])
    meta.setdefault("uid", before["uid"])
    meta["creationTimestamp"] = before.get("creationTimestamp")
    meta.pop("selfLink", None)
    if before.get("deletionTimestamp"):
        meta["deletionTimestamp"] = before["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in before:
            meta.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
    keep(meta, before, "generation")


def only_times_differ(new: Object, old: Object) -> bool:
    """Return whether only the times in managedFields differ. Such a change gets no revision."""
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    return _without_times(new["metadata"]) == _without_times(old["metadata"])


def _without_times(meta: Object) -> Object:
    entries = [{**entry, "time": None} for entry in meta.get("managedFields") or []]
    return {**meta, "managedFields": entries}
