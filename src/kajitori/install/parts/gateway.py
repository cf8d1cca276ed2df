"""The gateway: an account that may impersonate users, for clusters whose API server cannot use the users' OpenID
provider."""

from __future__ import annotations

from collections.abc import Iterable

from kajitori.install.parts.objects import Object, account, as_yaml, bound, cluster_role, role, rule
from kajitori.install.settings import InstallSettings

ACCOUNT = "kajitori-gateway"


def gateway(settings: InstallSettings) -> list[Object]:
    """Return the account, its right to impersonate users and the named groups, and the Web API's right to make tokens
    for it.

    A rule that names no groups would allow every group, including the administrators', so there is no such rule if
    there are no groups.
    """
    chosen, namespace = settings.gateway, settings.namespace
    impersonates = [rule("", "users", "impersonate", only=chosen.users)]
    if chosen.groups:
        impersonates.append(rule("", "groups", "impersonate", only=chosen.groups))
    tokens = f"{ACCOUNT}-tokens"
    return [
        account(ACCOUNT, namespace, automountServiceAccountToken=False),
        cluster_role(ACCOUNT, impersonates),
        bound(ACCOUNT, "ClusterRole", ACCOUNT, ACCOUNT, namespace),
        role(tokens, namespace, [rule("", "serviceaccounts/token", "create", only=[ACCOUNT])]),
        bound(tokens, "Role", tokens, "kajitori-server", namespace, namespace),
    ]


def with_groups_of(settings: InstallSettings, groups: Iterable[str]) -> InstallSettings:
    """Return settings that let the gateway also impersonate the groups of the policy's teams. Groups without the
    gateway's prefix are left out: no ID token names them."""
    named = [group for group in groups if group.startswith(settings.gateway.prefix)]
    every = sorted({*settings.gateway.groups, *named})
    return settings.model_copy(update={"gateway": settings.gateway.model_copy(update={"groups": every})})


def authentication(settings: InstallSettings) -> str:
    """Return the AuthenticationConfiguration with the provider from which the gateway accepts ID tokens."""
    sign_in, chosen = settings.sign_in, settings.gateway
    issuer = {"url": sign_in.issuer, "audiences": [sign_in.client_id]}
    if sign_in.ca:
        issuer["certificateAuthority"] = sign_in.ca
    mappings = {
        "username": {"claim": chosen.username_claim, "prefix": chosen.prefix},
        "groups": {"claim": chosen.groups_claim, "prefix": chosen.prefix},
    }
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{"issuer": issuer, "claimMappings": mappings}],
    }
    return as_yaml([document])
