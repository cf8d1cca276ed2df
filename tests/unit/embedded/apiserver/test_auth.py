"""Authentication and authorization."""

from __future__ import annotations

from typing import Any

from kajitori.embedded.apiserver import auth
from kajitori.embedded.apiserver.auth import ANONYMOUS, Attributes, Authenticator, User

ADA = User("ada", ("vision",), "1")


def test_tokens_identify_users() -> None:
    """An unknown token is refused; a request without one is anonymous."""
    known = Authenticator({"secret": ADA})
    user = known.authenticate("Bearer secret")
    assert user is not None
    assert (user.name, user.groups) == ("ada", ("vision", "system:authenticated"))
    assert known.authenticate("bearer other") is None
    assert known.authenticate("") is ANONYMOUS


def test_a_client_certificate_names_user_and_groups() -> None:
    """The common name is the user, organizations are groups."""
    certificate = {"subject": ((("organizationName", "system:nodes"),), (("commonName", "system:node:n1"),))}
    user = Authenticator().authenticate("", certificate)
    assert user is not None
    assert (user.name, user.groups) == ("system:node:n1", ("system:nodes", "system:authenticated"))


def test_anonymous_users_may_read_only_health_and_version() -> None:
    assert auth.authorize(ANONYMOUS, Attributes("get", path="/readyz")) == ""
    assert auth.authorize(ANONYMOUS, Attributes("get", path="/metrics")) == (
        'User "system:anonymous" cannot get path "/metrics"'
    )
    asked = Attributes("list", resource="pods", namespace="default")
    assert auth.authorize(ANONYMOUS, asked) == (
        'User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    assert auth.authorize(ADA, asked) == ""


async def test_reviews_of_identity_token_and_access() -> None:
    """A token is not sent back."""
    known = Authenticator({"secret": ADA})
    user = known.authenticate("Bearer secret")
    assert user is not None
    me = (await auth.review("SelfSubjectReview", {}, user, known))["status"]["userInfo"]
    assert me == {"username": "ada", "uid": "1", "groups": ["vision", "system:authenticated"]}
    token = await auth.review("TokenReview", {"spec": {"token": "secret"}}, user, known)
    assert token["status"]["authenticated"] is True
    assert "secret" not in str(token)
    wrong = await auth.review("TokenReview", {"spec": {"token": "guess"}}, user, known)
    assert "authenticated" not in wrong["status"]
    asked = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "x"}}}
    assert (await auth.review("SelfSubjectAccessReview", asked, user, known))["status"] == {"allowed": True}
    stranger = (await auth.review("SelfSubjectAccessReview", asked, ANONYMOUS, known))["status"]
    assert stranger["allowed"] is False
    other = {"spec": {**asked["spec"], "user": "bob"}}
    assert (await auth.review("SubjectAccessReview", other, user, known))["status"] == {"allowed": True}
    rules = (await auth.review("SelfSubjectRulesReview", {"spec": {"namespace": "x"}}, user, known))["status"]
    assert rules["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


def test_a_review_needs_exactly_one_kind_of_attributes() -> None:
    assert list(auth.faults_of("SelfSubjectAccessReview", {"spec": {}}))
    both: dict[str, Any] = {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}
    assert list(auth.faults_of("SelfSubjectAccessReview", both))
    assert not list(auth.faults_of("SelfSubjectAccessReview", {"spec": {"resourceAttributes": {}}}))
