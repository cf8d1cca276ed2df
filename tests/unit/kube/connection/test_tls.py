"""TLS to the API server: trusted authorities, server names, client certificates."""

from __future__ import annotations

import ipaddress
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.unit.kube.fake_api import serving

from kajitori.errors import InvalidInput
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import Credentials, ExecPlugin, KubeConfig
from kajitori.kube.connection.retry import NO_RETRY
from kajitori.kube.errors import ConnectionFailed
from kajitori.kube.resources import PODS


@dataclass
class Pair:
    """A certificate and its key, in PEM and in a folder."""

    certificate: bytes
    key: bytes
    signer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def issue(common_name: str, by: Pair | None = None, names: tuple[x509.GeneralName, ...] = ()) -> Pair:
    """Issue a certificate for this name: an authority, or a leaf signed by one."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    issuer, signing = (by.signer[0].subject, by.signer[1]) if by else (name, key)
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(signing, hashes.SHA256())
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        (certificate, key),
    )


AUTHORITY = issue("authority")
HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


@asynccontextmanager
async def tls_server(folder: Path, *names: x509.GeneralName) -> AsyncIterator[KubeConfig]:
    """A server with these names that answers which client certificate it received."""
    pair = issue("server", AUTHORITY, names)
    (folder / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=AUTHORITY.certificate.decode())
    context.load_cert_chain(folder / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL

    async def who(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        subject = {key: value for part in peer.get("subject", ()) for key, value in part}
        return web.json_response({"metadata": {"name": subject.get("commonName", "nobody")}})

    app = web.Application()
    app.router.add_get("/{path:.*}", who)
    async with serving(app, context) as url:
        yield KubeConfig(server=url, ca_pem=AUTHORITY.certificate)


async def ask(config: KubeConfig) -> str:
    """Return the client's name as the server sees it."""
    async with KubeClient(config, retry=NO_RETRY) as client:
        return str((await client.get(PODS, "x"))["metadata"]["name"])


async def test_only_the_configured_authority_is_trusted(tmp_path: Path) -> None:
    """The kubeconfig's authority, as data or as a file; without it the connection fails with a hint."""
    (tmp_path / "ca.pem").write_bytes(AUTHORITY.certificate)
    async with tls_server(tmp_path, HERE) as config:
        assert await ask(config) == "nobody"
        assert await ask(replace(config, ca_pem=b"", ca_file=tmp_path / "ca.pem")) == "nobody"
        with pytest.raises(ConnectionFailed, match="cannot be trusted") as caught:
            await ask(replace(config, ca_pem=issue("another").certificate))
        assert "certificate-authority" in caught.value.hint
        assert not caught.value.maybe_applied


async def test_the_servers_name_is_checked(tmp_path: Path) -> None:
    """A certificate for another name is refused, unless tls-server-name or insecure-skip-tls-verify allow it."""
    async with tls_server(tmp_path, x509.DNSName("kubernetes")) as config:
        with pytest.raises(ConnectionFailed, match="cannot be trusted"):
            await ask(config)
        assert await ask(replace(config, tls_server_name="kubernetes")) == "nobody"
        assert await ask(replace(config, ca_pem=b"", insecure_skip_tls_verify=True)) == "nobody"


async def test_client_certificates_come_from_data_files_or_a_plugin(tmp_path: Path) -> None:
    ada = issue("ada", AUTHORITY)
    (tmp_path / "ada.crt").write_bytes(ada.certificate)
    (tmp_path / "ada.key").write_bytes(ada.key)
    status = {"clientCertificateData": ada.certificate.decode(), "clientKeyData": ada.key.decode()}
    (tmp_path / "credential.json").write_text(json.dumps({"kind": "ExecCredential", "status": status}))
    plugin = ExecPlugin("client.authentication.k8s.io/v1", "cat", (str(tmp_path / "credential.json"),))
    ways = [
        Credentials(certificate_pem=ada.certificate, key_pem=ada.key),
        Credentials(certificate_file=tmp_path / "ada.crt", key_file=tmp_path / "ada.key"),
        Credentials(certificate_file=tmp_path / "ada.crt", key_pem=ada.key),
        Credentials(plugin=plugin),
    ]
    async with tls_server(tmp_path, HERE) as config:
        for credentials in ways:
            assert await ask(replace(config, credentials=credentials)) == "ada"


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"ca_pem": b"no certificate"}, "certificate-authority"),
        ({"ca_pem": b"", "ca_file": Path("/no/such/file")}, "certificate-authority"),
        ({"credentials": Credentials(certificate_pem=b"none", key_pem=b"none")}, "client-certificate"),
        ({"credentials": Credentials(certificate_file=Path("/no/such/file"))}, "client-certificate"),
    ],
)
async def test_unusable_certificates_are_named(broken: dict[str, object], named: str) -> None:
    """They lead to a typed error before anything is sent."""
    config = KubeConfig(server="https://127.0.0.1:1")
    with pytest.raises(InvalidInput, match=named):
        await ask(replace(config, **broken))  # type: ignore[arg-type]
