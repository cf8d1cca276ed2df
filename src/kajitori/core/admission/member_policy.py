"""The admission policy for members' Pods: only Kajitori's controllers make a Pod a member, or change what it is.

Services, NetworkPolicies and disruption budgets select Pods by labels alone. Without this policy, anyone who may create
Pods in a namespace can put one behind another user's Service, or out of the reach of its NetworkPolicy.

The API server consults the policy only for Pods that carry the label `kajitori.dev/run-uid` before or after the
request, so other Pods cost nothing. A controller is recognised by a right that users do not have: to update the status
of runs in the Pod's namespace. So it does not matter under which account a controller runs. Kubelets, the garbage
collector and `kubectl label` may change everything else of a member, and deletions are not concerned.
"""

from __future__ import annotations

from kajitori.core.admission.policy_objects import Manifest, admission_policy, policy_binding
from kajitori.core.naming import names

MEMBER_POLICY_NAME = "kajitori-members"
LABELS = (names.LABEL_RUN, names.LABEL_RUN_UID, names.LABEL_ATTEMPT, names.LABEL_RANK, names.LABEL_WHOLE_NODE)
ANNOTATIONS = (
    names.ANNOTATION_OWNER,
    names.ANNOTATION_NETWORK,
    names.ANNOTATION_NETWORKS,
    names.ANNOTATION_ISOLATION,
    names.ANNOTATION_SIGNATURE,
)
IS_CONTROLLER = (
    f"authorizer.group('{names.GROUP}').resource('{names.PLURAL}').subresource('status')"
    ".namespace(request.namespace).check('update').allowed()"
)
"""The expression for whether the request comes from a controller of Kajitori."""


def member_policy() -> Manifest:
    """Return the ValidatingAdmissionPolicy."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
    selector = {"matchExpressions": [{"key": names.LABEL_RUN_UID, "operator": "Exists"}]}
    unchanged = " && ".join(
        f"{keys}.all(k, object.metadata.?{part}[?k].orValue('') == oldObject.metadata.?{part}[?k].orValue(''))"
        for part, keys in (("labels", f"{list(LABELS)}"), ("annotations", f"{list(ANNOTATIONS)}"))
    )
    message = f"only Kajitori's controller may make a Pod a member of a run, or change its {names.GROUP} labels"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule], "objectSelector": selector},
        "matchConditions": [
            {"name": "changes-membership", "expression": f"request.operation == 'CREATE' || !({unchanged})"}
        ],
        "validations": [
            {
                "expression": IS_CONTROLLER,
                "message": f"{message}: leave out labels and annotations that begin with {names.GROUP}/",
                "reason": "Forbidden",
            }
        ],
    }
    return admission_policy("Validating", MEMBER_POLICY_NAME, spec)


def member_policy_binding() -> Manifest:
    """Return the binding that applies the policy to all namespaces."""
    return policy_binding("Validating", MEMBER_POLICY_NAME, "Deny")
