"""The admission policy that keeps a Run's owner true: the user who submitted it, unchanged for the Run's whole life.

The board, the share in the queue and the evidence about nodes use the annotation `kajitori.dev/owner`. Everybody who
may create Runs can write annotations, so the API server compares this one with the user that it authenticated. A Run
without the annotation has no owner; its usage counts as its namespace's.
"""

from __future__ import annotations

from typing import Any

from kajitori.core.words import names

Manifest = dict[str, Any]

POLICY_NAME = "kajitori-run-owner"
_API_VERSION = "admissionregistration.k8s.io/v1"
_OWNER_OF = "{}.metadata.?annotations[?'" + names.ANNOTATION_OWNER + "'].orValue('')"


def owner_policy() -> Manifest:
    """The ValidatingAdmissionPolicy."""
    rule = {
        "apiGroups": [names.GROUP],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [names.PLURAL],
    }
    leave_it_out = f"'leave the annotation {names.ANNOTATION_OWNER} out, or write ' + request.userInfo.username"
    return {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _metadata(),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "variables": [
                {"name": "owner", "expression": _OWNER_OF.format("object")},
                {"name": "before", "expression": f"oldObject == null ? '' : {_OWNER_OF.format('oldObject')}"},
            ],
            "validations": [
                {
                    "expression": (
                        "request.operation != 'CREATE' || variables.owner in ['', request.userInfo.username]"
                    ),
                    "messageExpression": f"'a run belongs to who submits it: ' + {leave_it_out}",
                    "message": "a run belongs to who submits it",
                    "reason": "Forbidden",
                },
                {
                    "expression": "request.operation == 'CREATE' || variables.owner == variables.before",
                    "message": f"the annotation {names.ANNOTATION_OWNER} of a run does not change",
                    "reason": "Forbidden",
                },
            ],
        },
    }


def owner_policy_binding() -> Manifest:
    """The binding that puts the policy in force in all namespaces."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": _metadata(),
        "spec": {"policyName": POLICY_NAME, "validationActions": ["Deny"]},
    }


def _metadata() -> Manifest:
    return {"name": POLICY_NAME, "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY}}
