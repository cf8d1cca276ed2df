"""The certificate of the kubelet's own HTTPS server."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kajitori.configuration.x509 import CLOCK_MARGIN
from kajitori.embedded.fingerprints import fingerprint
from kajitori.embedded.kubelet.settings import ServerSettings

LIFETIME = datetime.timedelta(days=3650)


def server_context(
    settings: ServerSettings, root_dir: Path, node_name: str, address: str
) -> tuple[ssl.SSLContext, str]:
    """Return the server's TLS settings, and the fingerprint of a self-signed certificate (empty for a given
    certificate).

    Without a given certificate, the server uses a self-signed one that is kept under the root folder. Clients trust it
    by its fingerprint.
    """
    certificate, key, own = settings.certificate, settings.key, ""
    if certificate is None or key is None:
        certificate, key = _self_signed(root_dir / "pki", node_name, address)
        own = fingerprint(x509.load_pem_x509_certificate(certificate.read_bytes()))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    if settings.client_ca is not None:
        trust_clients(context, settings.client_ca.read_text())
    return context, own


def trust_clients(context: ssl.SSLContext, authority: str) -> None:
    """Ask for client certificates of this authority (PEM) from the next connection on. They are optional, since a token
    also authenticates.

    Raises ssl.SSLError if the PEM text holds no authority.
    """
    context.load_verify_locations(cadata=authority)
    context.verify_mode = ssl.CERT_OPTIONAL


def _self_signed(folder: Path, node_name: str, address: str) -> tuple[Path, Path]:
    certificate, private = folder / f"{address}.crt", folder / f"{address}.key"
    if certificate.exists() and private.exists():
        return certificate, private
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node_name}"[:64])])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_MARGIN)
        .not_valid_after(now + LIFETIME)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(node_name), x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(
        private,
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
    _write(certificate, signed.public_bytes(serialization.Encoding.PEM))
    return certificate, private


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(path.suffix + ".new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content)
    fresh.replace(path)
