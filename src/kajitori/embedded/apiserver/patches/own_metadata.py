"""What of an object's metadata is the server's own: it writes it, and keeps it over updates."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from kajitori.embedded.apiserver.strategies.strategy import Object, keep

_NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_MAX_LENGTH = 58
IDENTITY = ("uid", "creationTimestamp", "selfLink")
SERVER_SET = (*IDENTITY, "deletionTimestamp", "deletionGracePeriodSeconds")


def now_text() -> str:
    """The present time as metadata have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def generate_name(base: str) -> str:
    """A name from `generateName`: five random characters follow."""
    return base[:_GENERATED_MAX_LENGTH] + "".join(secrets.choice(_NAME_CHARACTERS) for _ in range(5))


def keep_identity(meta: Object, before: Object) -> None:
    """What no update changes or has to repeat."""
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
    """Nothing but the times in managedFields is new: not worth a revision."""
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    return _timeless(new["metadata"]) == _timeless(old["metadata"])


def _timeless(meta: Object) -> Object:
    entries = [{**entry, "time": None} for entry in meta.get("managedFields") or []]
    return {**meta, "managedFields": entries}
