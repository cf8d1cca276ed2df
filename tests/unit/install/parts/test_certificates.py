"""The installation's own authority and certificate: made once, renewed in time, and trusted before their first use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kajitori.configuration import x509
from kajitori.install.parts.certificates import Issued, Pair, ends, issue, issued_in, names_in, secrets

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AGENTS = ("agent.kajitori-agents",)
NAMES = ("server.kajitori.svc", "127.0.0.1")


def signer(issued: Issued, among: bytes) -> list[bool]:
    """Return for each authority (PEM) whether it signed the parts' certificate."""
    texts = [text + b"-----END CERTIFICATE-----\n" for text in among.split(b"-----END CERTIFICATE-----\n")[:-1]]
    leaf = x509.load_certificate(issued.parts.certificate)
    return [not x509.fault_of(leaf, NOW, issuer=x509.load_certificate(text)) for text in texts]


def test_valid_certificates_are_kept() -> None:
    first = issue(NAMES, NOW)
    assert len(first.changes) == 2
    again = issue(NAMES, NOW + timedelta(days=300), first)
    assert (again.changes, again.parts, again.authority) == ((), first.parts, first.authority)
    assert set(names_in(first.parts.certificate)) == set(NAMES)


def test_a_certificate_is_renewed_before_its_end_or_for_a_new_name() -> None:
    first = issue(NAMES, NOW)
    late = NOW + timedelta(days=310)
    renewed = issue(NAMES, late, first)
    assert renewed.changes == ("a new certificate: it ends in 55 days",)
    assert ends(renewed.parts.certificate) == late + timedelta(days=x509.LEAF_DAYS)
    named = issue((*NAMES, "kaji.example.org"), NOW, first)
    assert named.changes == ("a new certificate: it lacks kaji.example.org",)
    assert named.authority == first.authority


def test_a_new_authority_is_trusted_before_it_signs() -> None:
    """Clients with the old authority can verify the certificate meanwhile, and clients with both always can."""
    first = issue(NAMES, NOW)
    late = NOW + timedelta(days=x509.CA_DAYS - 395)
    before = issue(NAMES, late - timedelta(days=6), first)
    assert before.authority == first.authority
    turned = issue(NAMES, late, before)
    assert "a new authority: the one before ends soon" in turned.changes
    assert turned.parts == before.parts
    assert signer(turned, turned.trusted) == [False, True]
    after = issue(NAMES, late + timedelta(days=7), turned)
    assert after.changes == ("a new certificate: another authority signed it",)
    assert signer(after, after.trusted) == [True, False]
    assert after.trusted == turned.trusted


def test_agents_share_a_certificate_with_a_key_of_its_own() -> None:
    """It is renewed like that of the parts, by the same authority. Installations of earlier versions have none."""
    earlier = issue(NAMES, NOW)
    assert earlier.agents == Pair()
    added = issue(NAMES, NOW, earlier, agents=AGENTS)
    assert added.changes == ("a new certificate of agents: there was none",)
    assert (added.parts, added.authority) == (earlier.parts, earlier.authority)
    assert names_in(added.agents.certificate) == AGENTS and added.agents.key != added.parts.key
    authority = x509.load_certificate(added.authority.certificate)
    assert not x509.fault_of(x509.load_certificate(added.agents.certificate), NOW, issuer=authority)
    late = NOW + timedelta(days=310)
    renewed = issue(NAMES, late, added, agents=AGENTS)
    assert renewed.changes[1] == "a new certificate of agents: it ends in 55 days"
    assert ends(renewed.agents.certificate) == late + timedelta(days=x509.LEAF_DAYS)


def test_certificates_are_read_back_from_their_secrets() -> None:
    """A damaged authority is replaced."""
    first = issue(NAMES, NOW, agents=AGENTS)
    authority, parts, agents = secrets(first, "kajitori", "kajitori-agents")
    found = issued_in(authority["data"], parts["data"], agents["data"])
    assert found is not None and issue(NAMES, NOW, found, agents=AGENTS).changes == ()
    assert agents["data"]["ca.crt"] == parts["data"]["ca.crt"]
    assert issued_in(None, parts["data"]) is None
    damaged = issued_in({"tls.crt": "", "tls.key": ""}, parts["data"])
    assert damaged is not None
    mended = issue(NAMES, NOW, damaged)
    assert mended.changes == ("a new authority: the one before cannot be used",)
    assert signer(mended, mended.trusted) == [False, True], "what the lost authority signed is still trusted"
