"""The file of `--authentication-config`."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kajitori.errors import InvalidInput
from kajitori.openid.authentication_config import parse_authentication


def document(**issuer: Any) -> str:
    named: dict[str, Any] = {"url": "https://login.example.org", "audiences": ["kaji"], **issuer}
    mappings = {"username": {"claim": "sub", "prefix": "oidc:"}, "groups": {"claim": "groups", "prefix": "oidc:"}}
    version = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
    return yaml.safe_dump({**version, "jwt": [{"issuer": named, "claimMappings": mappings}]})


def test_the_file_of_kube_apiserver_is_read() -> None:
    """Its description is below the issuer's URL unless the file names another place."""
    (read,) = parse_authentication(document()).jwt
    assert read.issuer.description_url == "https://login.example.org/.well-known/openid-configuration"
    assert (read.claim_mappings.username.claim, read.claim_mappings.username.prefix) == ("sub", "oidc:")
    elsewhere = parse_authentication(document(discoveryURL="https://other.example.org/d")).jwt[0]
    assert elsewhere.issuer.description_url == "https://other.example.org/d"


def test_all_faults_of_the_file_are_reported_at_once() -> None:
    """Each has its path, its line and a remedy."""
    with pytest.raises(InvalidInput) as refused:
        parse_authentication(document(url="http://login", audiences=["a", "b"], certificateAuthority="no PEM"))
    assert [fault.field.partition(" ")[0] for fault in refused.value.faults] == [
        "jwt[0].issuer.url",
        "jwt[0].issuer.audienceMatchPolicy",
        "jwt[0].issuer.certificateAuthority",
    ]


def test_expressions_are_refused_by_name() -> None:
    """The embedded server reads claims only, and must not accept a rule that it would not evaluate."""
    text = document().replace("claim: sub", "expression: claims.sub").replace("prefix: 'oidc:'", "", 2)
    with pytest.raises(InvalidInput) as refused:
        parse_authentication(text)
    assert any("expression" in fault.field for fault in refused.value.faults)
