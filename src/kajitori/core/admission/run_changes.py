"""The admission policy for changes of runs: in a namespace of several users, only a run's owner may change it.

It is switched on by the policy's `security.runChanges: owner`. The owner is the user who created the run, as the API
server recorded it (`owner_policy`). Team leads and operators have the verb `administer` on runs, a right that the API
server checks like any other. A user with the right to write the status of runs is a controller.
"""

from __future__ import annotations

from kajitori.core.admission.policy_objects import Manifest, admission_policy, policy_binding
from kajitori.core.naming import names
from kajitori.core.policy.model import Policy

RUN_CHANGES = "kajitori-run-changes"
"""Name of the policy and of its binding."""
ADMINISTER = "administer"
"""The verb on runs that lets a user change and delete runs of others."""

_RUNS = f"authorizer.group('{names.GROUP}').resource('{names.PLURAL}')"
_IN_NAMESPACE = ".namespace(request.namespace)"
_OWNER = f"oldObject.metadata.?annotations[?'{names.ANNOTATION_OWNER}'].orValue('')"


def run_changes_policy(policy: Policy) -> list[Manifest]:
    """Return the ValidatingAdmissionPolicy and its binding; nothing if everybody with the right may change runs.

    Kubernetes' own controllers, which delete the objects of a namespace and of lost owners, are exempt. Changes of the
    status are not concerned.
    """
    if policy.security.run_changes == "anyone":
        return []
    rule = {
        "apiGroups": [names.GROUP],
        "apiVersions": ["*"],
        "operations": ["UPDATE", "DELETE"],
        "resources": [names.PLURAL],
    }
    kubernetes = (
        "request.userInfo.username == 'system:kube-controller-manager'"
        " || 'system:serviceaccounts:kube-system' in request.userInfo.?groups.orValue([])"
    )
    message = (
        "'run ' + oldObject.metadata.name + ' belongs to ' + variables.owner"
        " + ': only they, a team lead or an operator may change or delete it'"
    )
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [
            {"name": "others", "expression": f"!({_OWNER} in ['', request.userInfo.username])"},
            {"name": "people", "expression": f"!({kubernetes})"},
        ],
        "variables": [{"name": "owner", "expression": _OWNER}],
        "validations": [
            {
                "expression": f"{_RUNS}{_IN_NAMESPACE}.check('{ADMINISTER}').allowed()"
                f" || {_RUNS}.subresource('status'){_IN_NAMESPACE}.check('update').allowed()",
                "messageExpression": message,
                "message": "only a run's owner, a team lead or an operator may change or delete it",
                "reason": "Forbidden",
            }
        ],
    }
    return [admission_policy("Validating", RUN_CHANGES, spec), policy_binding("Validating", RUN_CHANGES, "Deny")]
