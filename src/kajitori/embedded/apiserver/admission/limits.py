"""LimitRange: defaults and bounds of containers (plugin/pkg/admission/limitranger)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kajitori.embedded.apiserver.admission import pod_resources
from kajitori.embedded.apiserver.schemas.quantities import NANO, format_nano, parse_nano
from kajitori.embedded.apiserver.schemas.schema import Object

ANNOTATION = "kubernetes.io/limit-ranger"
_BINARY = frozenset({"memory", "ephemeral-storage", "storage"})


def apply_defaults(pod: Object, ranges: Iterable[Object]) -> None:
    """Set the requests and limits that a Pod's containers leave out; an annotation lists them."""
    notes: list[str] = []
    for one in ranges:
        limits, requests = _default_amounts(one)
        for word, container in _containers_of(pod["spec"]):
            resources = container.setdefault("resources", {})
            for which, defaults, noun in (("requests", requests, "request"), ("limits", limits, "limit")):
                given = resources.get(which) or {}
                missing = sorted(name for name in defaults if name not in given)
                if missing:
                    resources[which] = {**given, **{name: defaults[name] for name in missing}}
                    notes.append(f"{', '.join(missing)} {noun} for {word} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _containers_of(spec: Object) -> Iterator[tuple[str, Object]]:
    """Yield the containers of a Pod, each with the word for its kind in messages."""
    for part, word in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(part) or []:
            yield word, container


def _limits_in(ranges: Iterable[Object]) -> Iterator[Object]:
    """Yield the limits in all LimitRanges."""
    for one in ranges:
        yield from (one.get("spec") or {}).get("limits") or []


def _default_amounts(one: Object) -> tuple[dict[str, str], dict[str, str]]:
    """Return the default limits and the default requests of containers."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    for limit in _limits_in([one]):
        if limit.get("type") == "Container":
            limits.update(limit.get("default") or {})
            requests.update(limit.get("defaultRequest") or {})
    return limits, requests


def pod_faults(pod: Object, ranges: Iterable[Object]) -> list[str]:
    """Return every bound that a Pod violates."""
    faults: list[str] = []
    spec = pod["spec"]
    for limit in _limits_in(ranges):
        kind = limit.get("type")
        if kind == "Container":
            for _, container in _containers_of(spec):
                requests = pod_resources.of_container(container, "requests")
                limits = pod_resources.of_container(container, "limits")
                faults += _bound_faults(limit, kind, requests, limits)
        elif kind == "Pod":
            requests, limits = pod_resources.of_pod(spec, "requests"), pod_resources.of_pod(spec, "limits")
            faults += _bound_faults(limit, kind, requests, limits)
    return faults


def claim_faults(claim: Object, ranges: Iterable[Object]) -> list[str]:
    """Return every bound that a PersistentVolumeClaim violates."""
    requests = pod_resources.of_container(claim["spec"], "requests")
    faults: list[str] = []
    for limit in _limits_in(ranges):
        if limit.get("type") == "PersistentVolumeClaim":
            faults += _bound_faults(limit, "PersistentVolumeClaim", requests, requests)
    return faults


def _bound_faults(limit: dict[str, Any], kind: str, requests: dict[str, int], limits: dict[str, int]) -> list[str]:
    faults: list[str] = []
    both = (("request", requests), ("limit", limits))
    for bound, word, sign, order in (("min", "minimum", -1, both), ("max", "maximum", 1, both[::-1])):
        for name, text in sorted((limit.get(bound) or {}).items()):
            start, nano = f"{word} {name} usage per {kind} is {text}", parse_nano(text)
            needed, amounts = order[0]
            if name not in amounts:
                faults.append(f"{start}.  No {needed} is specified")
                continue
            unfit = [(noun, given[name]) for noun, given in order if (given.get(name, nano) - nano) * sign > 0]
            faults += [f"{start}, but {noun} is {_quantity_text(name, amount)}" for noun, amount in unfit[:1]]
    for name, text in sorted((limit.get("maxLimitRequestRatio") or {}).items()):
        start, bound_nano = f"{name} max limit to request ratio per {kind} is {text}", parse_nano(text)
        if not requests.get(name) or not limits.get(name):
            faults.append(f"{start}, but request or limit is not specified or 0")
        elif limits[name] * NANO > bound_nano * requests[name]:
            faults.append(f"{start}, but provided ratio is {limits[name] / requests[name]:f}")
    return faults


def _quantity_text(resource: str, nano: int) -> str:
    return format_nano(nano, "binary" if resource in _BINARY else "decimal")
