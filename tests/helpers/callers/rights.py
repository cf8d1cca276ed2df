"""Waits until an API server knows the rights of users.

A real one follows roles and bindings a moment after they are stored, and combines aggregated roles later still.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.harness.waiting import until

from kajitori.core.naming.names import GROUP, PLURAL
from kajitori.kube.client import KubeClient

Right = tuple[str, str, str]
"""Verb, API group and resource, such as `pods/log`."""
SUBMIT: Right = ("create", GROUP, PLURAL)
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def until_allowed(
    admin: KubeClient, namespace: str, *rights: Right, user: str = "anybody", groups: Sequence[str] = ()
) -> None:
    """Wait until a user who is in these groups has these rights in the namespace; in all of them if it is empty."""
    for verb, api_group, resource in rights:
        kind, _, subresource = resource.partition("/")
        attributes = {"namespace": namespace, "verb": verb, "group": api_group, "resource": kind}
        spec = {"user": user, "groups": groups, "resourceAttributes": attributes | {"subresource": subresource}}
        review: dict[str, Any] = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}

        async def is_allowed(review: dict[str, Any] = review) -> bool:
            return bool(json.loads(await admin.request("POST", REVIEWS, body=review))["status"]["allowed"])

        await until(is_allowed, f"{user} {groups} may {verb} {resource} in {namespace or 'every namespace'}")
