"""Evaluation of ValidatingAdmissionPolicies for a request (kube-apiserver's `plugin/policy/validating`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kajitori.embedded.apiserver.admission.admission import AdmissionRequest, StoreView
from kajitori.embedded.apiserver.admission.policies.matching import matched
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.schemas.cel import Expression, ExpressionError, Scope, missing_variable
from kajitori.embedded.apiserver.status import StatusError
from kajitori.embedded.apiserver.strategies.admission_policies import GIVEN
from kajitori.embedded.apiserver.strategies.strategy import Object
from kajitori.kube import resources
from kajitori.kube.resources import VALIDATING_BINDINGS, VALIDATING_POLICIES, Resource

_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_MAX_MESSAGE_BYTES = 5 * 1024
_NONE: Mapping[str, str] = {}
_NAMESPACE_FIELDS = ("name", "generateName", "labels", "annotations", "uid", "resourceVersion", "creationTimestamp")


class AdmissionPolicies:
    """The stored policies of the cluster, compiled on first use."""

    def __init__(self, view: StoreView, registry: KindRegistry) -> None:
        self._view = view
        self._registry = registry
        self._compiled: dict[str, tuple[Object, _Policy]] = {}

    def check(self, request: AdmissionRequest) -> None:
        """Evaluate all policies that match a request. Their warnings are added to the request.

        Raises:
            StatusError: one of them denies it.
        """
        resource = request.kind.resource
        if resource.group == VALIDATING_POLICIES.group:
            return  # a rule about rules could lock everybody out
        bindings: dict[str, list[Object]] = defaultdict(list)
        for binding in self._view.list(VALIDATING_BINDINGS):
            bindings[binding["spec"]["policyName"]].append(binding)
        for name in sorted(bindings):
            stored = self._view.get(VALIDATING_POLICIES, "", name)
            if stored is not None:
                self._ask(stored, sorted(bindings[name], key=_name), request)

    def _ask(self, stored: Object, bindings: list[Object], request: AdmissionRequest) -> None:
        spec = stored["spec"]
        found = matched(spec["matchConstraints"], request, self._view, self._equivalents(request))
        if found is None:
            return
        question = _Question(request, found, self._view)
        for binding in bindings:
            rules = binding["spec"].get("matchResources")
            if rules and matched(rules, request, self._view, self._equivalents(request)) is None:
                continue
            policy = f"ValidatingAdmissionPolicy '{_name(stored)}' with binding '{_name(binding)}'"
            actions = binding["spec"].get("validationActions") or ()
            for reason, message in self._policy(stored).denials(question):
                if "Deny" in actions:
                    raise _denied(request, reason, f"{policy} denied request: {message}")
                if "Warn" in actions:
                    request.warnings.append(f"Validation failed for {policy}: {message}")

    def _policy(self, stored: Object) -> _Policy:
        uid = stored["metadata"]["uid"]
        known = self._compiled.get(uid)
        if known is None or known[0] is not stored:
            known = self._compiled[uid] = stored, _Policy(stored["spec"])
        return known[1]

    def _equivalents(self, request: AdmissionRequest) -> Iterator[Resource]:
        """Return the other groups and versions under which the same objects are served."""
        stored = request.kind.stored
        for kind in self._registry.find_stored(stored.group, stored.plural):
            if kind.resource != request.kind.resource:
                yield kind.resource


class _Question:
    """The values that expressions may use for one request, computed on first use."""

    def __init__(self, request: AdmissionRequest, resource: Resource, view: StoreView) -> None:
        self._request = request
        self._resource = resource
        self._view = view
        self._values: dict[str, Any] | None = None

    def values(self) -> dict[str, Any]:
        """The values by name, as in `GIVEN`."""
        if self._values is None:
            request, is_deletion = self._request, self._request.operation == "DELETE"
            self._values = {
                "object": None if is_deletion else request.object,
                "oldObject": request.old_object,
                "request": self._asked(),
                "namespaceObject": self._namespace(),
            }
        return self._values

    def _asked(self) -> Object:
        """Return the AdmissionRequest without empty fields."""
        request, own = self._request, self._request.kind.resource
        asked = {
            "kind": _kind(self._resource),
            "resource": _resource(self._resource),
            "subResource": request.subresource,
            "requestKind": _kind(own),
            "requestResource": _resource(own),
            "requestSubResource": request.subresource,
            "name": request.name,
            "namespace": request.namespace,
        }
        user = request.user.as_dict() if request.user is not None else {}
        always = {"operation": request.operation, "userInfo": user, "dryRun": request.dry_run}
        return {name: value for name, value in asked.items() if value} | always

    def _namespace(self) -> Object | None:
        if not self._request.namespace:
            return None
        found = self._view.get(resources.NAMESPACES, "", self._request.namespace)
        if found is None:
            return None
        meta = {name: found["metadata"][name] for name in _NAMESPACE_FIELDS if name in found["metadata"]}
        return {**found, "metadata": meta}


class _Policy:
    """A policy with compiled expressions."""

    def __init__(self, spec: Object) -> None:
        """A policy that was stored by another version and no longer compiles fails when it is evaluated."""
        self._ignores_failures = spec.get("failurePolicy") == "Ignore"
        self._conditions: list[tuple[str, Expression]] = []
        self._variables: list[tuple[str, Expression]] = []
        self._validations: list[tuple[Object, Expression, Expression | None]] = []
        self._broken = ""
        try:
            self._compile(spec)
        except ExpressionError as error:
            self._broken = error.message

    def _compile(self, spec: Object) -> None:
        scope = Scope(GIVEN)
        for condition in spec.get("matchConditions") or ():
            self._conditions.append((condition["name"], scope.compile(condition["expression"], "bool")))
        for variable in spec.get("variables") or ():
            expression = scope.compile(variable["expression"])
            self._variables.append((variable["name"], expression))
            scope = scope.with_variable(variable["name"], expression)
        for validation in spec.get("validations") or ():
            message = validation.get("messageExpression")
            self._validations.append(
                (
                    validation,
                    scope.compile(validation["expression"], "bool"),
                    scope.compile(message, "string") if message else None,
                )
            )

    def denials(self, question: _Question) -> Iterator[tuple[str, str]]:
        """Yield the reason and message of each rule that the request breaks or that fails."""
        try:
            if self._broken:
                raise ExpressionError(self._broken)
            if not self._is_concerned(question):
                return
        except ExpressionError as error:
            if not self._ignores_failures:
                yield "Invalid", error.message
            return
        values, failures = self._with_variables(question.values())
        for validation, expression, message in self._validations:
            try:
                holds = _result(expression, values, failures)
            except ExpressionError as error:
                if not self._ignores_failures:
                    yield "Invalid", error.message
                continue
            if holds is not True:
                yield validation.get("reason") or "Invalid", _message(validation, message, values)

    def _is_concerned(self, question: _Question) -> bool:
        """Return whether all match conditions hold. A condition that is false counts more than one that fails."""
        failures = []
        for _, expression in self._conditions:
            try:
                if _result(expression, question.values()) is not True:
                    return False
            except ExpressionError as error:
                failures.append(error.message)
        if failures:
            raise ExpressionError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return True

    def _with_variables(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the values with those of variables, and why some variables have none: expressions that need these
        fail."""
        known, failures = dict(values), {}
        for name, expression in self._variables:
            try:
                known[f"variables.{name}"] = expression.evaluate(known)
            except ExpressionError as error:
                failures[missing_variable(name)] = error.message
        return known, failures


def _result(expression: Expression, values: Mapping[str, Any], failures: Mapping[str, str] = _NONE) -> Any:
    try:
        return expression.evaluate(values)
    except ExpressionError as error:
        why = f"{error.message}: {failures[error.message]}" if error.message in failures else error.message
        raise ExpressionError(f"expression '{expression.text.strip()}' resulted in error: {why}") from error


def _message(validation: Object, expression: Expression | None, values: Mapping[str, Any]) -> str:
    text = ""
    if expression is not None:
        try:
            result = expression.evaluate(values)
        except ExpressionError:
            result = None
        text = result.strip() if isinstance(result, str) else ""
        if "\n" in text or len(text.encode()) > _MAX_MESSAGE_BYTES:
            text = ""
    return text or (validation.get("message") or "").strip() or f"failed expression: {validation['expression'].strip()}"


def _denied(request: AdmissionRequest, reason: str, message: str) -> StatusError:
    error = StatusError.forbidden(request.kind.resource, request.name, message)
    error.reason, error.code = reason, _CODES.get(reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _kind(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}
