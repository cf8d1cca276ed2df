"""ValidatingAdmissionPolicy and its bindings.

A policy that this server could not evaluate is refused rather than ignored, since it would protect nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, not_supported, required
from kajitori.embedded.apiserver.schemas.cel import Expression, ExpressionError, Scope
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.embedded.apiserver.validation.validate import label_selector

GIVEN = ("object", "oldObject", "request", "namespaceObject")
"""Names that every expression of a policy may use; expressions other than `matchConditions` may use `variables` too."""
_FAILURE_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS = ("Audit", "Deny", "Warn")
_MAX_CONDITIONS = 64
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION_BYTES = 5 * 1024
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)
_ONE_ITEM = "validations or auditAnnotations must contain at least one item"
_NO_PARAMS = "policies with parameters are not served by this API server"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


class PolicyStrategy(Strategy):
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        if isinstance(spec.get("matchConstraints"), dict):
            _default_match(spec["matchConstraints"])

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj["status"] = {}

    def validate_create(self, obj: Object) -> list[Cause]:
        return list(_spec_faults(obj["spec"], str(obj["metadata"].get("name") or "")))


class BindingStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if isinstance(spec.get("matchResources"), dict):
            _default_match(spec["matchResources"])

    def validate_create(self, obj: Object) -> list[Cause]:
        spec, causes = obj["spec"], []
        name = spec.get("policyName") or ""
        if name:
            causes += [invalid("spec.policyName", name, fault) for fault in texts.dns_subdomain(name)]
        else:
            causes.append(required("spec.policyName"))
        if spec.get("paramRef") is not None:
            causes.append(forbidden("spec.paramRef", _NO_PARAMS))
        if spec.get("matchResources") is not None:
            causes += _match_faults(spec["matchResources"], "spec.matchResources")
        return [*causes, *_action_faults(spec.get("validationActions") or [])]


def _default_match(rules: dict[str, Any]) -> None:
    for name, value in (("matchPolicy", "Equivalent"), ("namespaceSelector", {}), ("objectSelector", {})):
        rules.setdefault(name, value)
    for part in ("resourceRules", "excludeResourceRules"):
        for rule in rules.get(part) or ():
            rule.setdefault("scope", "*")


def _spec_faults(spec: Mapping[str, Any], name: str) -> Iterator[Cause]:
    policy = spec.get("failurePolicy")
    if policy not in _FAILURE_POLICIES:
        yield not_supported("spec.failurePolicy", policy, _FAILURE_POLICIES)
    if spec.get("paramKind") is not None:
        yield forbidden("spec.paramKind", _NO_PARAMS)
    rules = spec.get("matchConstraints")
    if rules is None:
        yield required("spec.matchConstraints")
    else:
        yield from _match_faults(rules, "spec.matchConstraints")
        if not rules.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
    yield from _condition_faults(spec.get("matchConditions") or [])
    scope = Scope(GIVEN)
    for index, variable in enumerate(spec.get("variables") or []):
        causes, expression = _variable_faults(variable, scope, f"spec.variables[{index}]")
        yield from causes
        if expression is not None:
            scope = scope.with_variable(variable["name"], expression)
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        yield required("spec.validations", _ONE_ITEM)
        yield required("spec.auditAnnotations", _ONE_ITEM)
    for index, validation in enumerate(validations):
        yield from _validation_faults(validation, scope, f"spec.validations[{index}]")
    yield from _annotation_faults(annotations, scope, name)


def _match_faults(rules: Mapping[str, Any], field: str) -> list[Cause]:
    causes = []
    if rules.get("matchPolicy") not in _MATCH_POLICIES:
        causes.append(not_supported(f"{field}.matchPolicy", rules.get("matchPolicy"), _MATCH_POLICIES))
    for name in ("namespaceSelector", "objectSelector"):
        causes += label_selector(rules.get(name) or {}, f"{field}.{name}")
    for part in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(rules.get(part) or ()):
            causes += _rule_faults(rule, f"{field}.{part}[{index}]")
    return causes


def _rule_faults(rule: Mapping[str, Any], field: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        where = f"{field}.resourceNames[{index}]"
        yield from (invalid(where, name, fault) for fault in texts.path_segment(name))
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)
    operations = rule.get("operations") or []
    yield from _words(operations, f"{field}.operations", "operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported(f"{field}.operations[{index}]", operation, _OPERATIONS)
    yield from _words(rule.get("apiGroups") or [], f"{field}.apiGroups", "API groups")
    versions = rule.get("apiVersions") or []
    yield from _words(versions, f"{field}.apiVersions", "API versions")
    yield from (required(f"{field}.apiVersions[{index}]") for index, each in enumerate(versions) if not each)
    yield from _resource_faults(rule.get("resources") or [], f"{field}.resources")
    if rule.get("scope") not in _SCOPES:
        yield not_supported(f"{field}.scope", rule.get("scope"), _SCOPES)


def _words(words: Sequence[str], field: str, what: str) -> Iterator[Cause]:
    if not words:
        yield required(field)
    if len(words) > 1 and "*" in words:
        yield invalid(field, list(words), f"if '*' is present, must not specify other {what}")


def _resource_faults(patterns: Sequence[str], field: str) -> Iterator[Cause]:
    if not patterns:
        yield required(field)
    whole: set[str] = set()
    parts: set[str] = set()
    is_last_plain = False
    for index, pattern in enumerate(patterns):
        if not pattern:
            yield required(f"{field}[{index}]")
            continue
        resource, slash, part = pattern.partition("/")
        if not slash:
            is_last_plain = pattern != "*"
            continue
        if resource in whole:
            yield invalid(f"{field}[{index}]", pattern, f"if '{resource}/*' is present, must not specify {pattern}")
        if part in parts:
            yield invalid(f"{field}[{index}]", pattern, f"if '*/{part}' is present, must not specify {pattern}")
        if part == "*":
            whole.add(resource)
        if resource == "*":
            parts.add(part)
    if len(patterns) > 1 and "*/*" in patterns:
        yield invalid(field, list(patterns), "if '*/*' is present, must not specify other resources")
    if "*" in patterns and is_last_plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid(field, list(patterns), detail)


def _condition_faults(conditions: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    if len(conditions) > _MAX_CONDITIONS:
        detail = f"Too many: {len(conditions)}: must have at most {_MAX_CONDITIONS} items"
        yield Cause("FieldValueTooMany", "spec.matchConditions", detail)
    scope, seen = Scope(GIVEN), set()
    for index, condition in enumerate(conditions):
        field, name = f"spec.matchConditions[{index}]", condition.get("name") or ""
        text = (condition.get("expression") or "").strip()
        yield from _compiled(scope, text, f"{field}.expression", "bool")[0]
        if not name:
            yield required(f"{field}.name")
            continue
        yield from (invalid(f"{field}.name", name, fault) for fault in texts.qualified_name(name))
        if name in seen:
            yield duplicate(f"{field}.name", name)
        seen.add(name)


def _variable_faults(variable: Mapping[str, Any], scope: Scope, field: str) -> tuple[list[Cause], Expression | None]:
    causes, name = [], variable.get("name") or ""
    if not name.strip():
        causes.append(required(f"{field}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        causes.append(invalid(f"{field}.name", name, "must be a valid CEL identifier"))
    text = variable.get("expression") or ""
    found, expression = _compiled(scope, text, f"{field}.expression", missing="expression is not specified")
    return causes + found, expression if not causes else None


def _validation_faults(validation: Mapping[str, Any], scope: Scope, field: str) -> Iterator[Cause]:
    text = validation.get("expression") or ""
    yield from _compiled(scope, text, f"{field}.expression", "bool", missing="expression is not specified")[0]
    if detail := validation.get("messageExpression"):
        if detail.strip():
            yield from _compiled(scope, detail, f"{field}.messageExpression", "string")[0]
        else:
            yield invalid(f"{field}.messageExpression", detail, "must be non-empty if specified")
    message = validation.get("message") or ""
    if message and not message.strip():
        yield invalid(f"{field}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield invalid(f"{field}.message", message, "must not contain line breaks")
    reason = validation.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{field}.reason", reason, _REASONS)


def _annotation_faults(annotations: Sequence[Mapping[str, Any]], scope: Scope, name: str) -> Iterator[Cause]:
    """Check the audit annotations like other expressions, although there is no audit log here."""
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield invalid("spec.auditAnnotations", list(annotations), detail)
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        field, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        yield from (invalid(f"{field}.key", f"{name}/{key}", fault) for fault in texts.qualified_name(f"{name}/{key}"))
        text, where = (annotation.get("valueExpression") or "").strip(), f"{field}.valueExpression"
        if len(text.encode()) > _MAX_ANNOTATION_BYTES:
            yield required(where, f"must not exceed {_MAX_ANNOTATION_BYTES} bytes in length")
        else:
            missing = "valueExpression is not specified"
            yield from _compiled(scope, text, where, "string", "null_type", missing=missing)[0]
        if key in seen:
            yield duplicate(f"{field}.key", key)
        seen.add(key)


def _compiled(
    scope: Scope, text: str, field: str, *results: str, missing: str = ""
) -> tuple[list[Cause], Expression | None]:
    """Return the faults of an expression, and the expression if it has none. `results`: the types that it may have.
    `missing`: the message if there is no expression."""
    if not text.strip():
        return [required(field, missing)], None
    try:
        return [], scope.compile(text, *results)
    except ExpressionError as error:
        return [invalid(field, text, error.message)], None


def _action_faults(actions: Sequence[str]) -> Iterator[Cause]:
    field, seen = "spec.validationActions", set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"{field}[{index}]", action, _ACTIONS)
        if action in seen:
            yield duplicate(f"{field}[{index}]", action)
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        yield invalid(field, list(actions), _BOTH)
    if not seen:
        yield required(field, "at least one validation action is required")
