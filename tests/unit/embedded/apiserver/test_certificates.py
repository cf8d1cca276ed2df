"""Certificates, token and kubeconfig: created once, private, usable."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509

from kajitori.embedded.apiserver import certificates
from kajitori.embedded.kubelet.http.tls import server_context
from kajitori.embedded.kubelet.settings import ServerSettings


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_created_once_and_are_private(tmp_path: Path) -> None:
    """A second start finds the same files; other users cannot read them."""
    first = certificates.ensure_certificates(tmp_path / "pki")
    before = {path.name: path.read_bytes() for path in (tmp_path / "pki").iterdir()}
    assert certificates.ensure_certificates(tmp_path / "pki") == first
    assert {path.name: path.read_bytes() for path in (tmp_path / "pki").iterdir()} == before
    assert {mode(path) for path in (first.ca_key, first.server_key, first.client_key)} == {0o600}
    assert mode(tmp_path / "pki") == 0o700


def test_a_tls_handshake_with_both_certificates_succeeds(tmp_path: Path) -> None:
    """By name and by address; it names the user."""
    made = certificates.ensure_certificates(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(made.ca))
    server.load_cert_chain(made.server, made.server_key)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(made.ca))
    client.load_cert_chain(made.client, made.client_key)
    for name in ("127.0.0.1", "localhost", "kubernetes.default"):
        peer = handshake(server, client, name)
        subject = {pair[0]: pair[1] for part in peer["subject"] for pair in part}
        assert subject == {"organizationName": "system:masters", "commonName": "kube-apiserver-kubelet-client"}


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> dict[str, Any]:
    """Do a TLS handshake in memory; return the client's certificate as the server sees it."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname=name)
    there = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (here, there):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    return dict(there.getpeercert() or {})


def test_certificates_stay_valid_if_the_clock_was_fast_and_is_set_back(tmp_path: Path) -> None:
    """Nothing reached the API server or a kubelet then until the time of the first start had come again."""
    made = certificates.ensure_certificates(tmp_path / "pki")
    server_context(ServerSettings(), tmp_path / "node", "n", "127.0.0.1")
    two_weeks_ago = datetime.now(UTC) - timedelta(days=14)
    for path in (made.ca, made.server, made.client, tmp_path / "node/pki/127.0.0.1.crt"):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        assert certificate.not_valid_before_utc < two_weeks_ago, path.name


def test_an_incomplete_pair_is_replaced(tmp_path: Path) -> None:
    """A process may be killed between writing a key and its certificate."""
    made = certificates.ensure_certificates(tmp_path)
    authority = made.ca.read_bytes()
    made.server_key.write_bytes(made.client_key.read_bytes())
    made.client.write_text("")
    certificates.ensure_certificates(tmp_path)
    ssl.create_default_context().load_cert_chain(made.server, made.server_key)
    ssl.create_default_context().load_cert_chain(made.client, made.client_key)
    assert made.ca.read_bytes() == authority


def test_a_certificate_that_lacks_a_name_is_replaced(tmp_path: Path) -> None:
    """The authority stays the same."""
    authority = certificates.ensure_certificates(tmp_path).ca.read_bytes()
    made = certificates.ensure_certificates(tmp_path, names=("10.1.2.3",))
    assert made.ca.read_bytes() == authority
    certificate = x509.load_pem_x509_certificate(made.server.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "10.1.2.3" in [str(one) for one in names.get_values_for_type(x509.IPAddress)]


def test_certificates_of_a_lost_authority_are_replaced(tmp_path: Path) -> None:
    made = certificates.ensure_certificates(tmp_path)
    made.ca_key.unlink()
    certificates.ensure_certificates(tmp_path)
    issuer = x509.load_pem_x509_certificate(made.ca.read_bytes())
    x509.load_pem_x509_certificate(made.server.read_bytes()).verify_directly_issued_by(issuer)


def test_each_kubelet_gets_its_own_certificate(tmp_path: Path) -> None:
    """For the node's name and addresses, kept until they change."""
    made = certificates.ensure_certificates(tmp_path / "pki")
    path, key = certificates.issue_serving(made, tmp_path / "node", "n1", ("127.0.0.1",))
    before = path.read_bytes()
    assert certificates.issue_serving(made, tmp_path / "node", "n1", ("127.0.0.1",)) == (path, key)
    assert path.read_bytes() == before
    certificates.issue_serving(made, tmp_path / "node", "n1", ("127.0.0.2",))
    assert path.read_bytes() != before


def test_the_token_is_created_once_and_is_in_the_kubeconfig(tmp_path: Path) -> None:
    """With the authority; only the owner can read it."""
    made = certificates.ensure_certificates(tmp_path)
    token = certificates.ensure_token(tmp_path / "token")
    assert certificates.ensure_token(tmp_path / "token") == token
    assert len(token) > 32
    path = tmp_path / "kubeconfig"
    certificates.write_kubeconfig(path, server="https://127.0.0.1:1", certificates=made, token=token, namespace="ada")
    assert (mode(path), mode(tmp_path / "token")) == (0o600, 0o600)
    document = yaml.safe_load(path.read_text())
    assert document["users"][0]["user"]["token"] == token
    assert document["contexts"][0]["context"]["namespace"] == "ada"
    assert document["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
