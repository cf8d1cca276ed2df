"""How `kaji up` serves the Web API: with TLS except on loopback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cryptography import x509

from kajitori.configuration.options.own_cluster import UpOptions
from kajitori.embedded.apiserver.certificates import ensure_certificates
from kajitori.entrypoints.parts.serving import Serving, own_address, serving_of


def names_in(certificate: Path) -> set[str]:
    read = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_certificate(tmp_path: Path, host: str) -> None:
    serving = serving_of(UpOptions(data=tmp_path, host=host), None)
    assert (serving.certificate, serving.ca, serving.is_open) == (None, None, False)
    assert serving.local_url(80) == serving.public_url(80) == f"http://{f'[{host}]' if ':' in host else host}:80"


def test_an_address_beyond_loopback_has_a_certificate(tmp_path: Path) -> None:
    """The embedded cluster's authority signs it, and the next start uses the same one."""
    made = ensure_certificates(tmp_path / "pki")
    options = UpOptions(data=tmp_path, host="192.0.2.7")
    serving = serving_of(options, made)
    assert serving.certificate is not None
    assert serving.ca == made.ca
    assert {"192.0.2.7", "127.0.0.1", "localhost", socket.gethostname()} <= names_in(serving.certificate)
    x509.load_pem_x509_certificate(serving.certificate.read_bytes()).verify_directly_issued_by(
        x509.load_pem_x509_certificate(made.ca.read_bytes())
    )
    before = serving.certificate.read_bytes()
    again = serving_of(options, made)
    assert again == serving
    assert serving.certificate.read_bytes() == before
    assert serving.public_url(80) == serving.local_url(80) == "https://192.0.2.7:80"
    assert "BEGIN CERTIFICATE" in (serving.authorities() or "")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_wildcard_addresses_are_shown_as_a_reachable_address(tmp_path: Path, host: str) -> None:
    """In an existing cluster the data folder has an authority of its own."""
    serving = serving_of(UpOptions(data=tmp_path, host=host), None)
    assert serving.certificate is not None
    assert serving.local_url(80) == "https://127.0.0.1:80"
    assert serving.public_url(80) == f"https://{own_address()}:80"
    assert {own_address(), "127.0.0.1"} <= names_in(serving.certificate)


def test_insecure_http_serves_without_a_certificate(tmp_path: Path) -> None:
    serving = serving_of(UpOptions(data=tmp_path, host="192.0.2.7", insecure_http=True), None)
    assert serving == Serving("192.0.2.7")
    assert (serving.is_open, serving.public_url(80)) == (True, "http://192.0.2.7:80")
