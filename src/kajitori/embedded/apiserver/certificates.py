"""The embedded cluster's certificates, token and kubeconfig: files that only the owner can read."""

from __future__ import annotations

import base64
import fcntl
import ipaddress
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kajitori.configuration.private_files import write_private

_CA_DAYS = 3650
_LEAF_DAYS = 365
_RENEW_DAYS = 60
"""Remaining validity below which a certificate is renewed."""
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of the PEM files."""

    ca: Path
    ca_key: Path
    server: Path
    server_key: Path
    client: Path
    """The API server's own client certificate, towards kubelets; in group system:masters."""
    client_key: Path


def ensure_certificates(folder: Path, *, names: tuple[str, ...] = ()) -> Certificates:
    """Return the certificates in `folder`. Creates those that are missing, damaged, about to expire or lack one of the
    further `names`.

    A new CA replaces every other certificate, too. Two processes that start at once end up with the same files.

    Raises:
        OSError: the folder can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Certificates(
        folder / "ca.crt",
        folder / "ca.key",
        folder / "server.crt",
        folder / "server.key",
        folder / "client.crt",
        folder / "client.key",
    )
    with _locked(folder):
        if not _is_good(made.ca, made.ca_key):
            key = _new_key()
            _write_pair(made.ca, made.ca_key, _certificate_authority(key), key)
        _ensure_leaf(made, made.server, made.server_key, "kube-apiserver", "", (*SERVER_NAMES, *names), server=True)
        _ensure_leaf(made, made.client, made.client_key, "kube-apiserver-kubelet-client", "system:masters", ())
    return made


def issue_serving(certificates: Certificates, folder: Path, node: str, addresses: tuple[str, ...]) -> tuple[Path, Path]:
    """Return a kubelet's serving certificate and key, as files in `folder`; valid ones are reused.

    Raises:
        OSError: the folder can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    certificate, key = folder / "kubelet.crt", folder / "kubelet.key"
    with _locked(folder):
        names = (node, *addresses)
        _ensure_leaf(certificates, certificate, key, f"system:node:{node}", "system:nodes", names, server=True)
    return certificate, key


def issue_web(certificates: Certificates, folder: Path, names: tuple[str, ...]) -> tuple[Path, Path]:
    """Return the Web API's serving certificate and key, as files in `folder`; valid ones are reused.

    Raises:
        OSError: the folder can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    certificate, key = folder / "web.crt", folder / "web.key"
    with _locked(folder):
        _ensure_leaf(certificates, certificate, key, "kajitori", "", names, server=True)
    return certificate, key


def ensure_token(path: Path) -> str:
    """Return the administrator's bearer token: random, in a file with mode 0600, created once.

    Raises:
        OSError: the file can't be read or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(path.parent):
        if path.exists():
            token = path.read_text().strip()
            if token:
                path.chmod(0o600)
                return token
        token = secrets.token_urlsafe(32)
        write_private(path, f"{token}\n".encode())
    return token


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    certificates: Certificates,
    token: str,
    namespace: str = "default",
    context: str = "kajitori",
) -> None:
    """Write a kubeconfig (mode 0600, atomically) with the CA inside. `server` must be https: kubectl sends tokens over
    TLS only.

    Raises:
        OSError: the file can't be written.
    """
    authority = base64.b64encode(certificates.ca.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": context, "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context, "namespace": namespace}}],
        "current-context": context,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _started(builder: x509.CertificateBuilder, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    # Valid since an hour ago: other machines' clocks may be behind.
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _certificate_authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("kajitori-ca")
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
        _started(builder, _CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _ensure_leaf(
    authority: Certificates,
    path: Path,
    key_path: Path,
    common: str,
    organization: str,
    names: tuple[str, ...],
    *,
    server: bool = False,
) -> None:
    issuer = x509.load_pem_x509_certificate(authority.ca.read_bytes())
    if _is_good(path, key_path, issuer=issuer, names=names, common=common):
        return
    loaded = serialization.load_pem_private_key(authority.ca_key.read_bytes(), None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    key = _new_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(common, organization))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
    )
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _started(builder, _LEAF_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False)  # type: ignore[arg-type]
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_general(one) for one in dict.fromkeys(names)])
        builder = builder.add_extension(alternatives, critical=False)
    _write_pair(path, key_path, builder.sign(loaded, hashes.SHA256()), key)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write_pair(path: Path, key_path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    # If the process is killed between the two writes, the pair does not match: _is_good notices it and both are
    # renewed.
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_private(key_path, pem)
    write_private(path, certificate.public_bytes(serialization.Encoding.PEM))


def _is_good(
    path: Path,
    key_path: Path,
    *,
    issuer: x509.Certificate | None = None,
    names: Iterable[str] = (),
    common: str = "",
) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        if issuer is not None:
            certificate.verify_directly_issued_by(issuer)
        there: set[x509.GeneralName] = set()
        if names:
            there = set(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        return False
    if common and certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value != common:
        return False
    if certificate.not_valid_after_utc - datetime.now(UTC) < timedelta(days=_RENEW_DAYS):
        return False
    return {_general(one) for one in names} <= there
