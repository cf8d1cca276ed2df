"""Evaluation of MutatingAdmissionPolicies for a request (kube-apiserver's `plugin/policy/mutating`)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import jsonpatch
import jsonpointer

from kajitori.core.kubernetes.cel import Expression, ExpressionError, Scope, operations_of
from kajitori.embedded.apiserver.admission.admission import AdmissionRequest, StoreView
from kajitori.embedded.apiserver.admission.policies.evaluation import (
    CompiledPolicy,
    Question,
    StoredPolicies,
    bound_policies,
    name_of,
    result_of,
)
from kajitori.embedded.apiserver.auth import Authorizer
from kajitori.embedded.apiserver.patches.json_patching import apply_operations
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.schemas.nesting import TooDeep
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.kube.resources import MUTATING_BINDINGS, MUTATING_POLICIES


class MutatingPolicies(StoredPolicies["_Policy"]):
    """The stored policies of the cluster, compiled on first use."""

    def __init__(self, view: StoreView, registry: KindRegistry) -> None:
        super().__init__(view, registry, _Policy)

    def mutate(self, request: AdmissionRequest) -> None:
        """Change the object of a request in place, as all policies that match it say.

        Raises:
            StatusError: a policy fails, or its result is no object of the kind.
        """
        if request.operation == "DELETE" or request.kind.resource.group == MUTATING_POLICIES.group:
            return
        for stored, question, bindings in bound_policies(
            MUTATING_POLICIES, MUTATING_BINDINGS, request, self.view, self.registry
        ):
            for binding in bindings:
                try:
                    self.compiled(stored).mutate(request, question)
                except ExpressionError as error:
                    policy = f"policy '{name_of(stored)}' with binding '{name_of(binding)}'"
                    message = f"{policy} denied request: {error.message}"
                    raise StatusError.forbidden(request.kind.resource, request.name, message) from error


class _Policy(CompiledPolicy):
    """A policy with compiled mutations."""

    def __init__(self, spec: Object, authorizer: Authorizer) -> None:
        self._mutations: list[Expression] = []
        super().__init__(spec, authorizer, has_patches=True)

    def _compile(self, spec: Object, scope: Scope) -> None:
        self._mutations += [scope.compile(mutation["jsonPatch"]["expression"]) for mutation in spec["mutations"]]

    def mutate(self, request: AdmissionRequest, question: Question) -> None:
        """Apply the mutations in order; each sees the result of the one before.

        Raises:
            ExpressionError: one fails.
        """
        try:
            if not self.is_concerned(question):
                return
            for expression in self._mutations:
                self._apply(expression, request, question)
        except ExpressionError:
            if not self.ignores_failures:
                raise

    def _apply(self, expression: Expression, request: AdmissionRequest, question: Question) -> None:
        values, failures = self.with_variables(question.values())
        operations = operations_of(result_of(expression, values, failures))
        if not operations:
            return
        try:
            changed: dict[str, Any] = apply_operations(deepcopy(request.object), operations)
            request.kind.conform(changed)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError, TooDeep) as error:
            raise ExpressionError(f"the patch can't be applied: {error}") from error
        request.object.clear()
        request.object.update(changed)
        request.kind.strategy.default(request.object)
