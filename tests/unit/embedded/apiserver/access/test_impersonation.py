"""Impersonation: who may act as whom, and with which groups."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict
from tests.unit.embedded.apiserver.access.test_roles import Stored, bound_everywhere, role

from kajitori.embedded.apiserver.access.impersonation import impersonated
from kajitori.embedded.apiserver.access.roles import RoleAuthorizer
from kajitori.embedded.apiserver.auth import ADMINISTRATOR, User
from kajitori.embedded.apiserver.status import StatusError

GATEWAY = User("system:serviceaccount:kajitori:gateway", ("gateways", "system:authenticated"))
USERS = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}
VISION = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["groups"], "resourceNames": ["oidc:vision"]}
DECIDES = RoleAuthorizer(Stored(role("gateway", USERS, VISION), bound_everywhere("gateway", "gateways")))


def asked(*headers: tuple[str, str]) -> CIMultiDict[str]:
    return CIMultiDict(headers)


def test_without_headers_the_caller_is_judged() -> None:
    assert impersonated(asked(("Accept", "*/*")), GATEWAY, DECIDES) is GATEWAY


def test_a_named_group_may_be_impersonated() -> None:
    headers = asked(("Impersonate-User", "oidc:alice"), ("Impersonate-Group", "oidc:vision"))
    found = impersonated(headers, GATEWAY, DECIDES)
    assert (found.name, found.groups) == ("oidc:alice", ("oidc:vision", "system:authenticated"))


@pytest.mark.parametrize(
    "header",
    [
        ("Impersonate-Group", "oidc:speech"),
        ("Impersonate-Group", "system:masters"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Extra-scopes", "all"),
    ],
)
def test_other_attributes_of_a_user_are_forbidden(header: tuple[str, str]) -> None:
    headers = asked(("Impersonate-User", "oidc:alice"), ("Impersonate-Group", "oidc:vision"), header)
    with pytest.raises(StatusError, match="cannot impersonate resource") as refused:
        impersonated(headers, GATEWAY, DECIDES)
    assert refused.value.code == 403
    assert impersonated(headers, ADMINISTRATOR, DECIDES).name == "oidc:alice"


def test_service_accounts_are_not_users() -> None:
    name = "system:serviceaccount:kube-system:default"
    with pytest.raises(StatusError, match='"serviceaccounts"'):
        impersonated(asked(("Impersonate-User", name)), GATEWAY, DECIDES)
    groups = impersonated(asked(("Impersonate-User", name)), ADMINISTRATOR, DECIDES).groups
    assert groups == ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")


def test_groups_without_a_user_are_a_bad_request() -> None:
    with pytest.raises(StatusError) as refused:
        impersonated(asked(("Impersonate-Group", "oidc:vision")), GATEWAY, DECIDES)
    assert refused.value.code == 400
