"""Events: one stored object, shown as core/v1 and as events.k8s.io/v1."""

from __future__ import annotations

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import IMMUTABLE, Cause, invalid, required
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
_IMMUTABLE = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime"),
    *("action", "related", "reportingComponent", "reportingInstance"),
)
"""Fields of an event that never change; only its series does."""
_SHOWN_AS = {"reportingComponent": "reportingController"}
_EMPTY = {"count": 0} | dict.fromkeys(("reason", "message", "type", "action", "reportingComponent"), "")
"""Values that messages show for missing fields."""


class EventStrategy(Strategy):
    name_rule = staticmethod(texts.path_segment)
    looks_at_metadata = False

    def default(self, obj: Object) -> None:
        # A real server writes these fields even if they are empty; tables of kubectl rely on it.
        obj.setdefault("source", {})
        for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(name, None)
        for name in ("reportingComponent", "reportingInstance"):
            obj.setdefault(name, "")
        obj.setdefault("involvedObject", {})

    def validate_create(self, obj: Object) -> list[Cause]:
        return _common_faults(obj, "reportingComponent")

    def fields(self, obj: Object) -> dict[str, str]:
        about = obj.get("involvedObject") or {}
        source = (obj.get("source") or {}).get("component", "") or obj.get("reportingComponent", "")
        return {
            "involvedObject.kind": about.get("kind", ""),
            "involvedObject.namespace": about.get("namespace", ""),
            "involvedObject.name": about.get("name", ""),
            "involvedObject.uid": about.get("uid", ""),
            "involvedObject.apiVersion": about.get("apiVersion", ""),
            "involvedObject.resourceVersion": about.get("resourceVersion", ""),
            "involvedObject.fieldPath": about.get("fieldPath", ""),
            "reason": obj.get("reason", ""),
            "reportingComponent": obj.get("reportingComponent", ""),
            "source": source,
            "type": obj.get("type", ""),
        }


class NewEventStrategy(EventStrategy):
    """Events of events.k8s.io/v1, which has stricter rules."""

    name_rule = staticmethod(texts.dns_subdomain)
    looks_at_metadata = True

    def default(self, obj: Object) -> None:
        for name in ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"):
            obj.setdefault(name, None)
        obj.setdefault("deprecatedSource", {})
        obj.setdefault("regarding", {})

    def validate_create(self, obj: Object) -> list[Cause]:
        core = to_core(obj)
        causes = _common_faults(core, "reportingController")
        if not obj.get("eventTime"):
            causes.append(required("eventTime"))
        causes += self._series(obj)
        kind = obj.get("type", "")
        if kind not in ("Normal", "Warning"):
            causes.append(invalid("type", "", f"has invalid value: {kind}"))
        source = core.get("source") or {}
        unset = [name for name in ("firstTimestamp", "lastTimestamp", "count") if core.get(name)]
        if source.get("component") or source.get("host"):
            unset.append("source")
        return causes + [invalid(name, "", "needs to be unset") for name in unset]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        core, before = to_core(new), to_core(old)
        causes = _common_faults(core, "reportingController")
        if new.get("series") != old.get("series"):
            causes += self._series(new)
        changed = [name for name in _IMMUTABLE if (core.get(name) or None) != (before.get(name) or None)]
        return causes + [
            invalid(_SHOWN_AS.get(name, name), core.get(name, _EMPTY.get(name)), IMMUTABLE) for name in changed
        ]

    def _series(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        series = obj.get("series")
        if series is not None:
            if series.get("count", 0) < 2:
                causes.append(invalid("series.count", "", "should be at least 2"))
            if not series.get("lastObservedTime"):
                causes.append(required("series.lastObservedTime"))
        return causes

    def fields(self, obj: Object) -> dict[str, str]:
        values = super().fields(to_core(obj))
        renamed = {name.replace("involvedObject", "regarding"): value for name, value in values.items()}
        return {**renamed, "reportingController": values["reportingComponent"]}


def _common_faults(obj: Object, controller: str) -> list[Cause]:
    """Return the faults of an Event in the form of core/v1; `controller` is the name of the reporting controller's
    field (legacyValidateEvent)."""
    causes: list[Cause] = []
    namespace = obj["metadata"].get("namespace", "")
    about = (obj.get("involvedObject") or {}).get("namespace", "")
    # An event of events.k8s.io may be about an object in another namespace.
    is_new = bool(obj.get("eventTime"))
    homeless = ("default", "kube-system") if is_new else ("default",)
    if (about and about != namespace and not is_new) or (not about and namespace not in homeless):
        causes.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
    if not obj.get("eventTime"):
        return causes
    name = obj.get("reportingComponent") or ""
    if not name:
        causes.append(required(controller))
    causes += [invalid(controller, name, fault) for fault in texts.qualified_name(name)]
    for field in ("reportingInstance", "action", "reason"):
        text = obj.get(field) or ""
        if not text:
            causes.append(required(field))
        elif len(text.encode()) > _WORD_MAX_BYTES:
            causes.append(invalid(field, "", f"can have at most {_WORD_MAX_BYTES} characters"))
    if len((obj.get("message") or "").encode()) > _NOTE_MAX_BYTES:
        causes.append(invalid("message", "", f"can have at most {_NOTE_MAX_BYTES} characters"))
    return causes


def to_core(obj: Object) -> Object:
    """Convert an Event of events.k8s.io/v1 to core/v1."""
    core = {_RENAMED_BACK.get(name, name): value for name, value in obj.items()}
    core["apiVersion"] = "v1"
    EventStrategy().default(core)
    return core


def from_core(obj: Object) -> Object:
    """Convert an Event of core/v1 to events.k8s.io/v1."""
    new = {_RENAMED.get(name, name): value for name, value in obj.items()}
    new["apiVersion"] = "events.k8s.io/v1"
    for name in ("reportingController", "reportingInstance"):
        if not new.get(name):
            new.pop(name, None)
    return new
