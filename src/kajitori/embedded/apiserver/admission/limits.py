"""LimitRange: defaults and bounds of containers (plugin/pkg/admission/limitranger)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kajitori.embedded.apiserver.admission import pod_resources
from kajitori.embedded.apiserver.schemas.quantities import NANO, format_nano, parse_nano
from kajitori.embedded.apiserver.strategies.strategy import Object

ANNOTATION = "kubernetes.io/limit-ranger"
_BINARY = frozenset({"memory", "ephemeral-storage", "storage"})


def apply_defaults(pod: Object, ranges: Iterable[Object]) -> None:
    """Set the requests and limits that a Pod's containers leave out; an annotation lists them."""
    notes: list[str] = []
    for one in ranges:
        limits, requests = _defaults(one)
        for part in ("containers", "initContainers"):
            for container in pod["spec"].get(part) or []:
                resources = container.setdefault("resources", {})
                word = "container" if part == "containers" else "init container"
                for which, defaults, noun in (("requests", requests, "request"), ("limits", limits, "limit")):
                    given = resources.get(which) or {}
                    missing = sorted(name for name in defaults if name not in given)
                    if missing:
                        resources[which] = {**given, **{name: defaults[name] for name in missing}}
                        notes.append(f"{', '.join(missing)} {noun} for {word} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _defaults(one: Object) -> tuple[dict[str, str], dict[str, str]]:
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for limit in (one.get("spec") or {}).get("limits") or []:
        if limit.get("type") == "Container":
            limits.update(limit.get("default") or {})
            requests.update(limit.get("defaultRequest") or {})
    return limits, requests


def pod_faults(pod: Object, ranges: Iterable[Object]) -> list[str]:
    """Return every bound that a Pod violates."""
    faults: list[str] = []
    spec = pod["spec"]
    for one in ranges:
        for limit in (one.get("spec") or {}).get("limits") or []:
            kind = limit.get("type")
            if kind == "Container":
                for part in ("containers", "initContainers"):
                    for container in spec.get(part) or []:
                        requests = pod_resources.of_container(container, "requests")
                        limits = pod_resources.of_container(container, "limits")
                        faults += _bounds(limit, kind, requests, limits)
            elif kind == "Pod":
                requests, limits = pod_resources.of_pod(spec, "requests"), pod_resources.of_pod(spec, "limits")
                faults += _bounds(limit, kind, requests, limits)
    return faults


def claim_faults(claim: Object, ranges: Iterable[Object]) -> list[str]:
    """Return every bound that a PersistentVolumeClaim violates."""
    wanted = {
        name: parse_nano(text) for name, text in ((claim["spec"].get("resources") or {}).get("requests") or {}).items()
    }
    faults: list[str] = []
    for one in ranges:
        for limit in (one.get("spec") or {}).get("limits") or []:
            if limit.get("type") != "PersistentVolumeClaim":
                continue
            for bound, word, breaks in (("min", "minimum", -1), ("max", "maximum", 1)):
                for name, text in sorted((limit.get(bound) or {}).items()):
                    amount = wanted.get(name)
                    start = f"{word} {name} usage per PersistentVolumeClaim is {text}"
                    if amount is None:
                        faults.append(f"{start}.  No request is specified")
                    elif (amount - parse_nano(text)) * breaks > 0:
                        faults.append(f"{start}, but request is {_text(name, amount)}")
    return faults


def _bounds(limit: dict[str, Any], kind: str, requests: dict[str, int], limits: dict[str, int]) -> list[str]:
    faults: list[str] = []
    for name, text in sorted((limit.get("min") or {}).items()):
        start, bound = f"minimum {name} usage per {kind} is {text}", parse_nano(text)
        if name not in requests:
            faults.append(f"{start}.  No request is specified")
        elif requests[name] < bound:
            faults.append(f"{start}, but request is {_text(name, requests[name])}")
        elif name in limits and limits[name] < bound:
            faults.append(f"{start}, but limit is {_text(name, limits[name])}")
    for name, text in sorted((limit.get("max") or {}).items()):
        start, bound = f"maximum {name} usage per {kind} is {text}", parse_nano(text)
        if name not in limits:
            faults.append(f"{start}.  No limit is specified")
        elif limits[name] > bound:
            faults.append(f"{start}, but limit is {_text(name, limits[name])}")
        elif name in requests and requests[name] > bound:
            faults.append(f"{start}, but request is {_text(name, requests[name])}")
    for name, text in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        start, bound = f"{name} max limit to request ratio per {kind} is {text}", parse_nano(text)
        if not requests.get(name):
            faults.append(f"{start}, but no request is specified or request is 0")
        elif not limits.get(name):
            faults.append(f"{start}, but no limit is specified or limit is 0")
        elif limits[name] * NANO > bound * requests[name]:
            faults.append(f"{start}, but provided ratio is {limits[name] / requests[name]:f}")
    return faults


def _text(resource: str, nano: int) -> str:
    return format_nano(nano, "binary" if resource in _BINARY else "decimal")
