"""ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings.

If this server cannot evaluate a policy, the policy is refused, because an ignored policy would protect nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from kajitori.core.kubernetes import texts
from kajitori.core.kubernetes.cel import Expression, ExpressionError, Scope
from kajitori.embedded.apiserver.auth import Attributes, Authorizer, User
from kajitori.embedded.apiserver.causes import Cause, duplicate, forbidden, invalid, required
from kajitori.embedded.apiserver.schemas.schema import Object, is_same
from kajitori.embedded.apiserver.strategies.strategy import Strategy

POLICY_VARIABLES = ("object", "oldObject", "request", "namespaceObject")
"""Names that every expression of a policy may use, beside `authorizer`; expressions other than `matchConditions` may
use `variables` too."""
_MAX_CONDITIONS = 64
_MAX_ANNOTATIONS = 20
_MAX_ANNOTATION_BYTES = 5 * 1024
_NO_PARAMS = "policies with parameters are not served by this API server"
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


def policy_scope(authorizer: Authorizer | None = None, *, has_patches: bool = False) -> Scope:
    """Return the names that the first expression of a policy may use. Without `authorizer` expressions can be compiled,
    but not evaluated."""

    def refusal(asked: Mapping[str, Any]) -> str:
        assert authorizer is not None
        user = asked.get("user") or {}
        attributes = Attributes(**{name: str(value) for name, value in asked.items() if name != "user"})
        return authorizer.refusal(User(str(user.get("username", "")), tuple(user.get("groups") or ())), attributes)

    return Scope(POLICY_VARIABLES, has_patches=has_patches, check=refusal)


class PolicyStrategy(Strategy):
    has_status = True
    first_status: ClassVar = {}
    has_generation = True

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        if old is not None and is_same(new["spec"], old["spec"]):
            return []
        return list(_expression_faults(new["spec"], str(new["metadata"].get("name") or "")))


class MutatingPolicyStrategy(Strategy):
    has_generation = True

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        return [] if old is not None and is_same(new["spec"], old["spec"]) else list(_mutation_faults(new["spec"]))


class MutatingBindingStrategy(Strategy):
    has_generation = True

    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        return [forbidden("spec.paramRef", _NO_PARAMS)] if new["spec"].get("paramRef") is not None else []


class BindingStrategy(MutatingBindingStrategy):
    def faults(self, new: Object, old: Object | None) -> list[Cause]:
        causes = super().faults(new, old)
        actions = new["spec"].get("validationActions") or []
        if {"Deny", "Warn"} <= set(actions):
            causes.append(invalid("spec.validationActions", actions, "must not contain both Deny and Warn"))
        if len(set(actions)) < len(actions):
            causes.append(duplicate("spec.validationActions", actions))
        return causes


def _expression_faults(spec: Mapping[str, Any], name: str) -> Iterator[Cause]:
    causes, scope = _scope_of(spec, policy_scope())
    yield from causes
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        yield required("spec.validations", "validations or auditAnnotations must contain at least one item")
    for index, validation in enumerate(validations):
        yield from _validation_faults(validation, scope, f"spec.validations[{index}]")
    yield from _annotation_faults(annotations, scope, name)


def _mutation_faults(spec: Mapping[str, Any]) -> Iterator[Cause]:
    causes, scope = _scope_of(spec, policy_scope(has_patches=True))
    yield from causes
    if not spec.get("mutations"):
        yield required("spec.mutations")
    for index, mutation in enumerate(spec.get("mutations") or []):
        field = f"spec.mutations[{index}]"
        if mutation.get("patchType") != "JSONPatch":
            yield invalid(f"{field}.patchType", mutation.get("patchType"), "this API server serves JSONPatch only")
        else:
            patch = mutation.get("jsonPatch") or {}
            yield from _compile_field(scope, patch, "expression", f"{field}.jsonPatch", "list(jsonpatch)", "list(dyn)")[
                0
            ]


def _scope_of(spec: Mapping[str, Any], scope: Scope) -> tuple[list[Cause], Scope]:
    """Return the faults of the fields that both types of policies have, and the scope with the policy's variables."""
    found = []
    if spec.get("paramKind") is not None:
        found.append(forbidden("spec.paramKind", _NO_PARAMS))
    if not (spec.get("matchConstraints") or {}).get("resourceRules"):
        found.append(required("spec.matchConstraints.resourceRules"))
    found += _condition_faults(spec.get("matchConditions") or [])
    for index, variable in enumerate(spec.get("variables") or []):
        causes, expression = _variable_faults(variable, scope, f"spec.variables[{index}]")
        found += causes
        if expression is not None:
            scope = scope.with_variable(variable["name"], expression)
    return found, scope


def _condition_faults(conditions: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    if len(conditions) > _MAX_CONDITIONS:
        yield invalid("spec.matchConditions", len(conditions), f"must have at most {_MAX_CONDITIONS} items")
    scope = policy_scope()
    for index, condition in enumerate(conditions):
        yield from _compile_field(scope, condition, "expression", f"spec.matchConditions[{index}]", "bool")[0]


def _variable_faults(variable: Mapping[str, Any], scope: Scope, field: str) -> tuple[list[Cause], Expression | None]:
    causes, name = [], variable.get("name") or ""
    if not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        causes.append(invalid(f"{field}.name", name, "must be a valid CEL identifier"))
    found, expression = _compile_field(scope, variable, "expression", field)
    return causes + found, expression if not causes else None


def _validation_faults(validation: Mapping[str, Any], scope: Scope, field: str) -> Iterator[Cause]:
    yield from _compile_field(scope, validation, "expression", field, "bool")[0]
    if "messageExpression" in validation:
        yield from _compile_field(scope, validation, "messageExpression", field, "string")[0]
    message = validation.get("message") or ""
    if message and (not message.strip() or re.search(r"[\n\r]", message.strip())):
        yield invalid(f"{field}.message", message, "must be one line that is not blank")


def _annotation_faults(annotations: Sequence[Mapping[str, Any]], scope: Scope, name: str) -> Iterator[Cause]:
    """Check the audit annotations like other expressions, although there is no audit log here."""
    if len(annotations) > _MAX_ANNOTATIONS:
        detail = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield invalid("spec.auditAnnotations", len(annotations), detail)
    for index, annotation in enumerate(annotations):
        field, key = f"spec.auditAnnotations[{index}]", annotation.get("key") or ""
        yield from (invalid(f"{field}.key", f"{name}/{key}", fault) for fault in texts.qualified_name(f"{name}/{key}"))
        if len((annotation.get("valueExpression") or "").strip().encode()) > _MAX_ANNOTATION_BYTES:
            yield required(f"{field}.valueExpression", f"must not exceed {_MAX_ANNOTATION_BYTES} bytes in length")
        else:
            yield from _compile_field(scope, annotation, "valueExpression", field, "string", "null_type")[0]


def _compile_field(
    scope: Scope, owner: Mapping[str, Any], name: str, field: str, *results: str
) -> tuple[list[Cause], Expression | None]:
    """Return the faults of the expression in a field of `owner`, and the expression if it has none. `results`: the
    types that it may have."""
    text = owner.get(name) or ""
    if not text.strip():
        return [required(f"{field}.{name}", "the expression is blank")], None
    try:
        return [], scope.compile(text.strip(), *results)
    except ExpressionError as error:
        return [invalid(f"{field}.{name}", text, error.message)], None
