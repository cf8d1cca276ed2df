"""The admission policy for the owner of a Run: the user who submitted it, for the Run's whole life.

Usage reports, fair shares in the queue and the evidence about nodes rely on the annotation `kajitori.dev/owner`. All
users who may create Runs can write annotations, so the API server compares this one with the user that it
authenticated. A Run without the annotation has no owner; its usage counts for its namespace.
"""

from __future__ import annotations

from kajitori.core.admission.policy_objects import Manifest, admission_policy, policy_binding
from kajitori.core.naming import names

POLICY_NAME = "kajitori-run-owner"
_OWNER_OF = "{}.metadata.?annotations[?'" + names.ANNOTATION_OWNER + "'].orValue('')"


def owner_policy() -> Manifest:
    """Return the ValidatingAdmissionPolicy."""
    rule = {
        "apiGroups": [names.GROUP],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [names.PLURAL],
    }
    leave_it_out = f"'leave the annotation {names.ANNOTATION_OWNER} out, or write ' + request.userInfo.username"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [
            {"name": "owner", "expression": _OWNER_OF.format("object")},
            {"name": "before", "expression": f"oldObject == null ? '' : {_OWNER_OF.format('oldObject')}"},
        ],
        "validations": [
            {
                "expression": ("request.operation != 'CREATE' || variables.owner in ['', request.userInfo.username]"),
                "messageExpression": f"'the owner of a run must be the user who submits it: ' + {leave_it_out}",
                "message": "the owner of a run must be the user who submits it",
                "reason": "Forbidden",
            },
            {
                "expression": "request.operation == 'CREATE' || variables.owner == variables.before",
                "message": f"the annotation {names.ANNOTATION_OWNER} of a run cannot be changed",
                "reason": "Forbidden",
            },
        ],
    }
    return admission_policy("Validating", POLICY_NAME, spec)


def owner_policy_binding() -> Manifest:
    """Return the binding that applies the policy to all namespaces."""
    return policy_binding("Validating", POLICY_NAME, "Deny")
