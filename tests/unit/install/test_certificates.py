"""The installation's own authority and certificate: made once, renewed in time, and trusted before their first use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kajitori.configuration import x509
from kajitori.install.certificates import Issued, ends, issue, issued_in, names_in, secrets

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ("server.kajitori.svc", "127.0.0.1")


def signer(issued: Issued, among: bytes) -> list[bool]:
    """Return for each authority (PEM) whether it signed the parts' certificate."""
    texts = [text + b"-----END CERTIFICATE-----\n" for text in among.split(b"-----END CERTIFICATE-----\n")[:-1]]
    leaf = x509.load_certificate(issued.certificate)
    return [not x509.fault_of(leaf, NOW, issuer=x509.load_certificate(text)) for text in texts]


def test_valid_certificates_are_kept() -> None:
    first = issue(NAMES, NOW)
    assert len(first.changes) == 2
    again = issue(NAMES, NOW + timedelta(days=300), first)
    assert (again.changes, again.certificate, again.authority) == ((), first.certificate, first.authority)
    assert set(names_in(first.certificate)) == set(NAMES)


def test_a_certificate_is_renewed_before_its_end_or_for_a_new_name() -> None:
    first = issue(NAMES, NOW)
    late = NOW + timedelta(days=310)
    renewed = issue(NAMES, late, first)
    assert renewed.changes == ("a new certificate: it ends in 55 days",)
    assert ends(renewed.certificate) == late + timedelta(days=x509.LEAF_DAYS)
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
    assert turned.certificate == before.certificate
    assert signer(turned, turned.trusted) == [False, True]
    after = issue(NAMES, late + timedelta(days=7), turned)
    assert after.changes == ("a new certificate: another authority signed it",)
    assert signer(after, after.trusted) == [True, False]
    assert after.trusted == turned.trusted


def test_certificates_are_read_back_from_their_secrets() -> None:
    """Agents get no key. A damaged authority is replaced."""
    first = issue(NAMES, NOW)
    authority, parts, agents = secrets(first, "kajitori", "kajitori-agents")
    found = issued_in(authority["data"], parts["data"])
    assert found is not None and issue(NAMES, NOW, found).changes == ()
    assert agents["data"].keys() == {"ca.crt"}
    assert issued_in(None, parts["data"]) is None
    damaged = issued_in({"tls.crt": "", "tls.key": ""}, parts["data"])
    assert damaged is not None
    mended = issue(NAMES, NOW, damaged)
    assert mended.changes == ("a new authority: the one before cannot be used",)
    assert signer(mended, mended.trusted) == [False, True], "what the lost authority signed is still trusted"
