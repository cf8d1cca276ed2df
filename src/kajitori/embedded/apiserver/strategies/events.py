"""Events."""

from __future__ import annotations

from typing import ClassVar

from kajitori.core.kubernetes import texts
from kajitori.embedded.apiserver.causes import Cause, invalid, required, too_long
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.strategy import Strategy

_NOTE_MAX_BYTES = 1024
_WORD_MAX_BYTES = 128
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

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        """Return the faults of an event (legacyValidateEvent). One with `eventTime` has stricter rules."""
        causes: list[Cause] = []
        namespace = new["metadata"].get("namespace", "")
        about = (new.get("involvedObject") or {}).get("namespace", "")
        is_new = bool(new.get("eventTime"))
        homeless = ("default", "kube-system") if is_new else ("default",)
        if (about and about != namespace and not is_new) or (not about and namespace not in homeless):
            causes.append(invalid("involvedObject.namespace", about, "must be the namespace of the event"))
        if not is_new:
            return causes
        name = new.get("reportingComponent") or ""
        causes += [invalid("reportingComponent", name, fault) for fault in texts.qualified_name(name)]
        limits = dict.fromkeys(("reportingInstance", "action", "reason"), _WORD_MAX_BYTES)
        for field, limit in (limits | {"message": _NOTE_MAX_BYTES}).items():
            text = new.get(field) or ""
            if not text and field != "message":
                causes.append(required(field))
            if len(text.encode()) > limit:
                causes.append(too_long(field, limit))
        return causes

    def fields(self, obj: Object) -> dict[str, str]:
        source = (obj.get("source") or {}).get("component", "") or obj.get("reportingComponent", "")
        return {**super().fields(obj), "source": source}
