"""Matching of requests against a policy's `matchConstraints` and a binding's `matchResources`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kajitori.core.kubernetes.selectors import label_selector_of
from kajitori.embedded.apiserver.admission.admission import AdmissionRequest, StoreView
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.kube import resources
from kajitori.kube.resources import Resource


def matched(
    rules: Mapping[str, Any], request: AdmissionRequest, view: StoreView, equivalents: Iterable[Resource]
) -> Resource | None:
    """Return the resource by which the rules match a request; None if they do not match it.

    `equivalents` are the other groups and versions under which the same objects are served.
    """
    if not _selects_namespace(rules, request, view) or not _selects_object(rules, request):
        return None
    names = [request.kind.resource, *(equivalents if rules.get("matchPolicy") != "Exact" else ())]
    if _first_matching(rules.get("excludeResourceRules") or (), request, names) is not None:
        return None
    wanted = rules.get("resourceRules")
    return _first_matching(wanted, request, names) if wanted else request.kind.resource


def _selects_namespace(rules: Mapping[str, Any], request: AdmissionRequest, view: StoreView) -> bool:
    """Return whether the namespace of a request is selected. A namespace is selected by its own labels; all other
    objects without a namespace are always selected."""
    selector = label_selector_of(rules.get("namespaceSelector") or {})
    if not selector:
        return True
    if request.kind.resource == resources.NAMESPACES:
        return selector.matches(_labels_of(request.object))
    if not request.namespace:
        return True
    return selector.matches(_labels_of(view.get(resources.NAMESPACES, "", request.namespace)))


def _selects_object(rules: Mapping[str, Any], request: AdmissionRequest) -> bool:
    selector = label_selector_of(rules.get("objectSelector") or {})
    if not selector:
        return True
    return any(selector.matches(_labels_of(obj)) for obj in (request.object, request.old_object) if obj is not None)


def _labels_of(obj: Object | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _first_matching(
    rules: Iterable[Mapping[str, Any]], request: AdmissionRequest, names: Iterable[Resource]
) -> Resource | None:
    """Return the first of a resource's names that one of the rules covers."""
    rules = tuple(rules)
    return next((name for name in names if any(_is_about(rule, request, name) for rule in rules)), None)


def _is_about(rule: Mapping[str, Any], request: AdmissionRequest, resource: Resource) -> bool:
    scope = rule.get("scope") or "*"
    names = rule.get("resourceNames")
    return (
        scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
        and _is_among(request.operation, rule.get("operations"))
        and _is_among(resource.group, rule.get("apiGroups"))
        and _is_among(resource.version, rule.get("apiVersions"))
        and any(
            _pattern_covers(pattern, resource.plural, request.subresource) for pattern in rule.get("resources") or ()
        )
        and (not names or request.name in names)
    )


def _is_among(word: str, words: Iterable[str] | None) -> bool:
    return any(pattern in ("*", word) for pattern in words or ())


def _pattern_covers(pattern: str, plural: str, subresource: str) -> bool:
    """Return whether a pattern (`pods`, `pods/status`, `*/*`) covers the resource or subresource."""
    wanted, _, part = pattern.partition("/")
    return wanted in ("*", plural) and part in ("*", subresource)
