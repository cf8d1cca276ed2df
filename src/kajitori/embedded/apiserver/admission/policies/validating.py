"""Evaluation of ValidatingAdmissionPolicies for a request (kube-apiserver's `plugin/policy/validating`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kajitori.core.kubernetes.cel import Expression, ExpressionError, Scope
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
from kajitori.embedded.apiserver.registry import KindRegistry
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError
from kajitori.kube.resources import VALIDATING_BINDINGS, VALIDATING_POLICIES

_CODES = {"Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413, "Unauthorized": 401}
_MAX_MESSAGE_BYTES = 5 * 1024


class ValidatingPolicies(StoredPolicies["_Policy"]):
    """The stored policies of the cluster, compiled on first use."""

    def __init__(self, view: StoreView, registry: KindRegistry) -> None:
        super().__init__(view, registry, _Policy)

    def check(self, request: AdmissionRequest) -> None:
        """Evaluate all policies that match a request. Their warnings are added to the request.

        Raises:
            StatusError: one of them denies it.
        """
        if request.kind.resource.group == VALIDATING_POLICIES.group:
            return  # a policy about policies could lock all users out
        for stored, question, bindings in bound_policies(
            VALIDATING_POLICIES, VALIDATING_BINDINGS, request, self.view, self.registry
        ):
            for binding in bindings:
                policy = f"ValidatingAdmissionPolicy '{name_of(stored)}' with binding '{name_of(binding)}'"
                actions = binding["spec"].get("validationActions") or ()
                for reason, message in self.compiled(stored).denials(question):
                    if "Deny" in actions:
                        raise _denial(request, reason, f"{policy} denied request: {message}")
                    if "Warn" in actions:
                        request.warnings.append(f"Validation failed for {policy}: {message}")


class _Policy(CompiledPolicy):
    """A policy with compiled validations."""

    def __init__(self, spec: Object, authorizer: Authorizer) -> None:
        self._validations: list[tuple[Object, Expression, Expression | None]] = []
        super().__init__(spec, authorizer)

    def _compile(self, spec: Object, scope: Scope) -> None:
        for validation in spec.get("validations") or ():
            message = validation.get("messageExpression")
            self._validations.append(
                (
                    validation,
                    scope.compile(validation["expression"], "bool"),
                    scope.compile(message, "string") if message else None,
                )
            )

    def denials(self, question: Question) -> Iterator[tuple[str, str]]:
        """Yield the reason and message of each rule that the request breaks or that fails."""
        try:
            if not self.is_concerned(question):
                return
        except ExpressionError as error:
            if not self.ignores_failures:
                yield "Invalid", error.message
            return
        values, failures = self.with_variables(question.values())
        for validation, expression, message in self._validations:
            try:
                holds = result_of(expression, values, failures)
            except ExpressionError as error:
                if not self.ignores_failures:
                    yield "Invalid", error.message
                continue
            if holds is not True:
                yield validation.get("reason") or "Invalid", _failure_message(validation, message, values)


def _failure_message(validation: Object, expression: Expression | None, values: Mapping[str, Any]) -> str:
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


def _denial(request: AdmissionRequest, reason: str, message: str) -> StatusError:
    error = StatusError.forbidden(request.kind.resource, request.name, message)
    error.reason, error.code = reason, _CODES.get(reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
