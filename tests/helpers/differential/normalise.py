"""Comparable answers: without identities, versions, times, allocated addresses, and the text of refusals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
_GENERATED = re.compile(r"(gen-[a-z]+-|bert\.)([bcdfghjklmnpqrstvwxz2456789]{5})\b")
_NODE_PORT = re.compile(r":3\d{4}/")
_AGE = re.compile(r"^\d\d?s$")


@dataclass
class Normaliser:
    """Normalises one server's answers; the same identity always becomes the same ordinal."""

    seen: dict[str, dict[str, int]] = field(default_factory=dict)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def answer(self, value: Any) -> Any:
        """Return a comparable body."""
        return self._walk(value, ())

    def _walk(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return self._object(value, path)
        if isinstance(value, list):
            if path[-1:] == ("items",) and any(_GENERATED.search(str(one)) for one in value):
                value = sorted(value, key=lambda one: int(one["metadata"]["resourceVersion"]))
            walked = [self._walk(one, (*path, "[]")) for one in value]
            if path[-1:] == ("cells",):
                # Ages of new objects differ by seconds.
                walked = [_AGE.sub("N s", one) if isinstance(one, str) else one for one in walked]
            if path[-1:] == ("managedFields",):
                walked.sort(key=lambda one: tuple(str(one.get(key)) for key in ("manager", "operation", "subresource")))
            return walked
        return self._text(value) if isinstance(value, str) else value

    def _object(self, value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        listed = value.get("kind") == "ResourceQuotaList"
        if value.get("kind") == "Status" and value.get("status") == "Failure":
            return {name: value[name] for name in ("kind", "code", "reason") if name in value}
        quota = value.get("kind") == "ResourceQuota" or path[-3:] == ("ResourceQuotaList", "items", "[]")
        for key in sorted(value):
            one = value[key]
            if key == "resourceVersion" and isinstance(one, str) and path[-1:] == ("metadata",):
                # The version of a list is the current one, which depends on other writes; that of an object says
                # whether it was written.
                counted = "name" in value and path[-2:-1] != ("ResourceQuota",)
                out[key] = self._ordinal("version", one) if counted else "present"
            elif key == "continue" and path[-1:] == ("metadata",):
                out[key] = "more" if one else ""
            elif key == "nodePort":
                out[key] = "chosen"
            elif self._is_ignored(key, one, path, quota):
                continue
            else:
                out[key] = self._walk(one, (*path, *_kind_part(quota, listed), key))
        return out

    @staticmethod
    def _is_ignored(key: str, value: Any, path: tuple[str, ...], quota: bool) -> bool:
        if quota:
            return key == "status"
        if path[-2:] == ("managedFields", "[]"):
            return key == "time"
        if path[-1:] == ("spec",):
            return key in ("serviceAccount", "serviceAccountName") and value == "default"
        return key == "description" and path[-2:] == ("columnDefinitions", "[]")

    def _text(self, text: str) -> str:
        text = _UUID.sub(lambda found: self._ordinal("uid", found.group()), text)
        text = _TIME.sub(lambda found: self._time(found.group()), text)
        text = _GENERATED.sub(lambda found: found.group(1) + self._ordinal("name", found.group(2)), text)
        text = _NODE_PORT.sub(":chosen/", text)
        return _ADDRESS.sub("an address", text)

    def _time(self, text: str) -> str:
        then = datetime.fromisoformat(text)
        return "now" if abs((then - self.now).total_seconds()) < 86_400 else text

    def _ordinal(self, what: str, value: str) -> str:
        if value.startswith("00000000-"):
            return value
        known = self.seen.setdefault(what, {})
        return f"{what} {known.setdefault(value, len(known))}"


def _kind_part(quota: bool, listed: bool) -> tuple[str, ...]:
    return ("ResourceQuota",) if quota else ("ResourceQuotaList",) if listed else ()


def differences(ours: Any, real: Any, path: str = "") -> list[str]:
    """Return the differences between two comparable answers, one line each."""
    if isinstance(ours, dict) and isinstance(real, dict):
        found = []
        for key in sorted(ours.keys() | real.keys()):
            where = f"{path}.{key}" if path else key
            if key not in ours:
                found.append(f"{where}: missing, really {real[key]!r}")
            elif key not in real:
                found.append(f"{where}: {ours[key]!r}, really missing")
            else:
                found += differences(ours[key], real[key], where)
        return found
    if isinstance(ours, list) and isinstance(real, list) and len(ours) == len(real):
        return [
            line
            for index, (one, other) in enumerate(zip(ours, real, strict=True))
            for line in differences(one, other, f"{path}[{index}]")
        ]
    return [] if ours == real and type(ours) is type(real) else [f"{path}: {ours!r}, really {real!r}"]
