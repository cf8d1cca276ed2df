"""Events: one stored object, shown as core/v1 and as events.k8s.io/v1."""

from __future__ import annotations

from typing import ClassVar

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import IMMUTABLE, Cause, forbidden, invalid, not_supported, required, too_long
from kajitori.embedded.apiserver.schemas.defaulting import apply_defaults
from kajitori.embedded.apiserver.schemas.models import model_schema
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy

_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
"""Fields of core/v1 and their names in events.k8s.io/v1; all others have the same."""
_RENAMED_BACK = {new: old for old, new in _RENAMED.items()}
_NOTE_MAX_BYTES = 1024
_WORD_MAX_BYTES = 128
_SET_ONCE = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime"),
    *("action", "related", "reportingComponent", "reportingInstance"),
)
"""Fields of an event that never change; only its series does."""
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class EventStrategy(Strategy):
    name_rule = staticmethod(texts.path_segment)
    selectable: ClassVar = {
        **{f"involvedObject.{name}": "" for name in _ABOUT},
        "reason": "",
        "reportingComponent": "",
        "source": "",
        "type": "",
    }

    def complete(self, obj: Object) -> None:
        # A real server writes this field even if it is empty; tables of kubectl rely on it.
        obj.setdefault("reportingInstance", "")

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        return _common_faults(new)

    def fields(self, obj: Object) -> dict[str, str]:
        source = (obj.get("source") or {}).get("component", "") or obj.get("reportingComponent", "")
        return {**super().fields(obj), "source": source}


class NewEventStrategy(EventStrategy):
    """Events of events.k8s.io/v1, which has stricter rules."""

    name_rule = staticmethod(texts.dns_subdomain)

    def complete(self, obj: Object) -> None:
        """Nothing: other than in core/v1, no empty fields are written."""

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        core, before = to_core(new), to_core(old or {})
        causes = _common_faults(core)
        series = new.get("series")
        if series is not None and (old is None or series != old.get("series")):
            if series.get("count", 0) < 2:
                causes.append(invalid("series.count", series.get("count"), "should be at least 2"))
            if not series.get("lastObservedTime"):
                causes.append(required("series.lastObservedTime"))
        if old is not None:
            changed = [name for name in _SET_ONCE if (core.get(name) or None) != (before.get(name) or None)]
            return causes + [invalid(_RENAMED.get(name, name), core.get(name), IMMUTABLE) for name in changed]
        if not new.get("eventTime"):
            causes.append(required("eventTime"))
        if new.get("type") not in ("Normal", "Warning"):
            causes.append(not_supported("type", new.get("type", ""), ("Normal", "Warning")))
        old_fields = [name for name in ("source", "firstTimestamp", "lastTimestamp", "count") if core.get(name)]
        return causes + [forbidden(_RENAMED[name], "may not be set in events.k8s.io/v1") for name in old_fields]

    def fields(self, obj: Object) -> dict[str, str]:
        values = super().fields(to_core(obj))
        renamed = {name.replace("involvedObject", "regarding"): value for name, value in values.items()}
        return {**renamed, "reportingController": values["reportingComponent"]}


def _common_faults(obj: Object) -> list[Cause]:
    """Return the faults of an Event in the form of core/v1 (legacyValidateEvent)."""
    causes: list[Cause] = []
    namespace = obj["metadata"].get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    # An event of events.k8s.io may be about an object in another namespace.
    is_new = bool(obj.get("eventTime"))
    homeless = ("default", "kube-system") if is_new else ("default",)
    if (about and about != namespace and not is_new) or (not about and namespace not in homeless):
        causes.append(invalid("involvedObject.namespace", about, "must be the namespace of the event"))
    if not is_new:
        return causes
    name = obj.get("reportingComponent") or ""
    causes += [invalid("reportingController", name, fault) for fault in texts.qualified_name(name)]
    limits = dict.fromkeys(("reportingInstance", "action", "reason"), _WORD_MAX_BYTES) | {"message": _NOTE_MAX_BYTES}
    for field, limit in limits.items():
        text = obj.get(field) or ""
        if not text and field != "message":
            causes.append(required(field))
        if len(text.encode()) > limit:
            causes.append(too_long(field, limit))
    return causes


def to_core(obj: Object) -> Object:
    """Convert an Event of events.k8s.io/v1 to core/v1."""
    core = {_RENAMED_BACK.get(name, name): value for name, value in obj.items()}
    core["apiVersion"] = "v1"
    apply_defaults(model_schema("core_v1", "Event"), core)
    core.setdefault("reportingInstance", "")
    return core


def from_core(obj: Object) -> Object:
    """Convert an Event of core/v1 to events.k8s.io/v1."""
    new = {_RENAMED.get(name, name): value for name, value in obj.items()}
    new["apiVersion"] = "events.k8s.io/v1"
    for name in ("reportingController", "reportingInstance"):
        if not new.get(name):
            new.pop(name, None)
    return new
