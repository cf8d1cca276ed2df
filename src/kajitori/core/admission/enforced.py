"""Everything of the policy file that the API server enforces itself, as admission policies."""

from __future__ import annotations

from typing import Any

from kajitori.core.admission.plain_pods.policies import POD_POLICIES, pod_policies
from kajitori.core.admission.plain_pods.rules import Circumstances
from kajitori.core.admission.run_changes import RUN_CHANGES, run_changes_policy
from kajitori.core.policy.model import Policy

ENFORCED = (
    ("ValidatingAdmissionPolicyBinding", RUN_CHANGES),
    ("ValidatingAdmissionPolicy", RUN_CHANGES),
    *POD_POLICIES,
)
"""Kinds and names of all objects that `enforced_policies` may return, each binding before its policy."""


def enforced_policies(policy: Policy, circumstances: Circumstances) -> list[dict[str, Any]]:
    """Return the objects that the API server needs, in the order in which they are applied; none if the policy demands
    nothing of it."""
    return [*run_changes_policy(policy), *pod_policies(policy, circumstances)]
