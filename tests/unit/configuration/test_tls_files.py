"""Certificates in files that are renewed while a process uses them."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kajitori.configuration.options.parts import ControllerOptions
from kajitori.configuration.options.shared import MembersStart
from kajitori.configuration.policy_file import PolicyFile
from kajitori.configuration.tls_files import ServingCertificate, TrustedAuthorities
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates
from kajitori.entrypoints.parts.members_start import members_start
from kajitori.errors import InvalidInput


def serial_shown(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Return the serial number of the certificate that a server shows in a handshake in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(down, up, server_hostname="localhost")
    answers = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (asks, answers):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = asks.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


def renewed(made: Certificates, folder: Path) -> None:
    """Replace the pair in the folder of `made` by another one from another authority."""
    other = ensure_certificates(folder)
    for new, old in ((other.server, made.server), (other.server_key, made.server_key), (other.ca, made.ca)):
        new.replace(old)


def test_a_renewed_certificate_is_used_for_new_connections(tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path / "pki")
    serving, trusted = ServingCertificate(made.server, made.server_key), TrustedAuthorities("--ca", made.ca)
    before = serial_shown(serving.context, trusted.context())
    assert not serving.refresh()
    renewed(made, tmp_path / "next")
    assert serving.refresh()
    assert serial_shown(serving.context, trusted.context()) != before


def test_a_faulty_renewal_changes_nothing(tmp_path: Path) -> None:
    """The key of another certificate, as during a replacement, and a file without certificates."""
    made = ensure_certificates(tmp_path / "pki")
    serving, trusted = ServingCertificate(made.server, made.server_key), TrustedAuthorities("--ca", made.ca)
    before = serial_shown(serving.context, trusted.context())
    ensure_certificates(tmp_path / "next").server_key.replace(made.server_key)
    made.ca.write_text("nothing")
    assert not serving.refresh()
    assert serial_shown(serving.context, trusted.context()) == before


def test_faulty_files_are_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "empty.pem"
    file.write_text("")
    with pytest.raises(InvalidInput, match="--tls-cert"):
        ServingCertificate(file, file)
    with pytest.raises(InvalidInput, match="--relay-ca: holds no certificates"):
        TrustedAuthorities("--relay-ca", file)
    with pytest.raises(InvalidInput, match=r"together[^;]*; --member-image: --member-image and"):
        ControllerOptions(certificate=file, member_image="start:1")


async def test_options_set_the_first_step_unless_policy_sets_it(tmp_path: Path) -> None:
    authority, file = tmp_path / "ca.crt", tmp_path / "policy.yaml"
    authority.write_text("PEM")
    options = MembersStart(member_image="start:1", member_server="https://server:8600", member_ca=authority)
    for text, wanted in (("{}", ("start:1", "PEM")), ("start: {image: own:2, server: 'http://x'}", ("own:2", None))):
        file.write_text(text)
        policy = PolicyFile(file)
        async with members_start(policy, options):
            start = policy.current().policy.start
        assert (start.image, start.server_ca) == wanted
