"""Evaluation for policies of both types: the values of a request, match conditions and variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from kajitori.core.kubernetes.cel import AUTHORIZER, Expression, ExpressionError, Scope, missing_variable
from kajitori.embedded.apiserver.admission.admission import AdmissionRequest, StoreView
from kajitori.embedded.apiserver.admission.policies.matching import matched
from kajitori.embedded.apiserver.auth import AllowKnown, Authorizer
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.strategies.admission_policies import policy_scope
from kajitori.kube import resources
from kajitori.kube.resources import Resource

_NONE: Mapping[str, str] = {}
_NAMESPACE_FIELDS = ("name", "generateName", "labels", "annotations", "uid", "resourceVersion", "creationTimestamp")

P = TypeVar("P")


class Question:
    """The values that expressions may use for one request, computed on first use."""

    def __init__(self, request: AdmissionRequest, resource: Resource, view: StoreView) -> None:
        self._request = request
        self._resource = resource
        self._view = view
        self._values: dict[str, Any] | None = None

    def values(self) -> dict[str, Any]:
        """The values by name, as in `policy_scope`."""
        if self._values is None:
            request, is_deletion = self._request, self._request.operation == "DELETE"
            asked = self._admission_request()
            self._values = {
                AUTHORIZER: {"user": asked["userInfo"]},
                "object": None if is_deletion else request.object,
                "oldObject": request.old_object,
                "request": asked,
                "namespaceObject": self._namespace_object(),
            }
        return self._values

    def _admission_request(self) -> Object:
        """Return the AdmissionRequest without empty fields."""
        request, own = self._request, self._request.kind.resource
        asked = {
            "kind": _kind_document(self._resource),
            "resource": _resource_document(self._resource),
            "subResource": request.subresource,
            "requestKind": _kind_document(own),
            "requestResource": _resource_document(own),
            "requestSubResource": request.subresource,
            "name": request.name,
            "namespace": request.namespace,
        }
        user = request.user.as_dict() if request.user is not None else {}
        always = {"operation": request.operation, "userInfo": user, "dryRun": request.dry_run}
        return {name: value for name, value in asked.items() if value} | always

    def _namespace_object(self) -> Object | None:
        if not self._request.namespace:
            return None
        found = self._view.get(resources.NAMESPACES, "", self._request.namespace)
        if found is None:
            return None
        meta = {name: found["metadata"][name] for name in _NAMESPACE_FIELDS if name in found["metadata"]}
        return {**found, "metadata": meta}


class CompiledPolicy(ABC):
    """A policy with compiled expressions. If another version stored the policy and it no longer compiles, it fails when
    it is evaluated."""

    def __init__(self, spec: Object, authorizer: Authorizer, *, has_patches: bool = False) -> None:
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self._conditions: list[tuple[str, Expression]] = []
        self._variables: list[tuple[str, Expression]] = []
        self.broken = ""
        try:
            scope = policy_scope(authorizer, has_patches=has_patches)
            for condition in spec.get("matchConditions") or ():
                self._conditions.append((condition["name"], scope.compile(condition["expression"], "bool")))
            for variable in spec.get("variables") or ():
                expression = scope.compile(variable["expression"])
                self._variables.append((variable["name"], expression))
                scope = scope.with_variable(variable["name"], expression)
            self._compile(spec, scope)
        except ExpressionError as error:
            self.broken = error.message

    @abstractmethod
    def _compile(self, spec: Object, scope: Scope) -> None:
        """Compile the policy's own expressions."""

    def is_concerned(self, question: Question) -> bool:
        """Return whether all match conditions hold. If one is false, it does not matter whether another one fails."""
        if self.broken:
            raise ExpressionError(self.broken)
        failures = []
        for _, expression in self._conditions:
            try:
                if result_of(expression, question.values()) is not True:
                    return False
            except ExpressionError as error:
                failures.append(error.message)
        if failures:
            raise ExpressionError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return True

    def with_variables(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the values with those of variables, and the reasons for which some variables have none. An expression
        that uses such a variable fails."""
        known, failures = dict(values), {}
        for name, expression in self._variables:
            try:
                known[f"variables.{name}"] = expression.evaluate(known)
            except ExpressionError as error:
                failures[missing_variable(name)] = error.message
        return known, failures


class StoredPolicies(Generic[P]):
    """The stored policies of one type, compiled on first use."""

    def __init__(self, view: StoreView, registry: KindRegistry, compiled: Callable[[Object, Authorizer], P]) -> None:
        self.view = view
        self.registry = registry
        self.authorizer: Authorizer = AllowKnown()
        """Answers the questions of expressions about what the user of a request may do."""
        self._make = compiled
        self._compiled: dict[str, tuple[Object, P]] = {}

    def compiled(self, stored: Object) -> P:
        """Return a stored policy with compiled expressions."""
        uid = stored["metadata"]["uid"]
        known = self._compiled.get(uid)
        if known is None or known[0] is not stored:
            known = self._compiled[uid] = stored, self._make(stored["spec"], self.authorizer)
        return known[1]


def result_of(expression: Expression, values: Mapping[str, Any], failures: Mapping[str, str] = _NONE) -> Any:
    """Return the result of an expression. `failures`: why variables have no value, by the message about them.

    Raises:
        ExpressionError: it failed, with the text of the expression.
    """
    try:
        return expression.evaluate(values)
    except ExpressionError as error:
        why = f"{error.message}: {failures[error.message]}" if error.message in failures else error.message
        raise ExpressionError(f"expression '{expression.text.strip()}' resulted in error: {why}") from error


def bound_policies(
    policies: Resource, bindings: Resource, request: AdmissionRequest, view: StoreView, registry: KindRegistry
) -> Iterator[tuple[Object, Question, list[Object]]]:
    """Yield each policy that matches a request, in the order of their names, with its bindings that match it too."""
    by_policy: dict[str, list[Object]] = {}
    for binding in view.list(bindings):
        by_policy.setdefault(binding["spec"]["policyName"], []).append(binding)
    for name in sorted(by_policy):
        stored = view.get(policies, "", name)
        if stored is None:
            continue
        found = matched(stored["spec"]["matchConstraints"], request, view, _equivalent_resources(request, registry))
        if found is None:
            continue
        chosen = [
            binding
            for binding in sorted(by_policy[name], key=name_of)
            if not (rules := binding["spec"].get("matchResources"))
            or matched(rules, request, view, _equivalent_resources(request, registry)) is not None
        ]
        if chosen:
            yield stored, Question(request, found, view), chosen


def name_of(obj: Object) -> str:
    """Return the name of an object."""
    return str(obj["metadata"]["name"])


def _equivalent_resources(request: AdmissionRequest, registry: KindRegistry) -> Iterable[Resource]:
    """Return the other groups and versions under which the same objects are served."""
    stored = request.kind.stored
    for kind in registry.find_stored(stored.group, stored.plural):
        if kind.resource != request.kind.resource:
            yield kind.resource


def _kind_document(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _resource_document(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}
