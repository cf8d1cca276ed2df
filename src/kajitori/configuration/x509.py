"""X.509 certificates with ECDSA keys: those of authorities, and those that they sign. The time is an argument."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS = 3650
LEAF_DAYS = 365
RENEW_DAYS = 60
"""Remaining validity below which a certificate is renewed."""
CLOCK_MARGIN = timedelta(days=30)
"""Certificates are valid since this time before they were made: clocks of other machines may be behind, and that of
this machine may have been fast and be set back."""

Key = ec.EllipticCurvePrivateKey
Certificate = x509.Certificate


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def authority(key: Key, now: datetime) -> Certificate:
    """Return the certificate of an authority, signed by itself."""
    name = _x509_name("kajitori-ca")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    return (
        _with_validity(builder, now, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def leaf(
    key: Key,
    issuer: Certificate,
    issuer_key: Key,
    now: datetime,
    common: str,
    organization: str = "",
    names: Iterable[str] = (),
    *,
    server: bool = True,
) -> Certificate:
    """Return the certificate of a server with these names and addresses, or of a client."""
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        x509.CertificateBuilder()
        .subject_name(_x509_name(common, organization))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
    )
    builder = (
        _with_validity(builder, now, LEAF_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False)  # type: ignore[arg-type]
    )
    listed = [_general_name(one) for one in dict.fromkeys(names)]
    if listed:
        builder = builder.add_extension(x509.SubjectAlternativeName(listed), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def certificate_pem(certificate: Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_certificate(pem: bytes) -> Certificate:
    """Return the first certificate in a PEM text. Raises ValueError."""
    return x509.load_pem_x509_certificate(pem)


def names_of(certificate: Certificate) -> tuple[str, ...]:
    """Return the names and addresses of a certificate."""
    return tuple(sorted(str(name.value) for name in _names_of(certificate)))


def load_pair(certificate: bytes, key: bytes) -> tuple[Certificate, Key]:
    """Return certificate and key from PEM. Raises ValueError if they cannot be read or do not belong together."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, None)
    except TypeError as error:  # an encrypted key
        raise ValueError(str(error)) from error
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != loaded.public_key():
        raise ValueError("the key is not that of the certificate")
    return loaded, private


def fault_of(
    certificate: Certificate,
    now: datetime,
    *,
    issuer: Certificate | None = None,
    names: Iterable[str] = (),
    common: str = "",
) -> str:
    """Return the reason for which a certificate has to be replaced; empty if it can be kept."""
    left = certificate.not_valid_after_utc - now
    if left < timedelta(days=RENEW_DAYS):
        return f"it ends in {left.days} days" if left > timedelta(0) else "it has expired"
    if issuer is not None:
        try:
            certificate.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            return "another authority signed it"
    if common and certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value != common:
        return f"it is not that of {common}"
    missing = [one for one in names if _general_name(one) not in _names_of(certificate)]
    return f"it lacks {', '.join(missing)}" if missing else ""


def _names_of(certificate: Certificate) -> set[x509.GeneralName]:
    try:
        return set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()


def _x509_name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _with_validity(builder: x509.CertificateBuilder, now: datetime, days: int) -> x509.CertificateBuilder:
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_MARGIN)
        .not_valid_after(now + timedelta(days=days))
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
