"""The embedded cluster's certificates, token and kubeconfig: files that only the owner can read."""

from __future__ import annotations

import base64
import fcntl
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml
from cryptography.x509 import Certificate

from kajitori.configuration import x509
from kajitori.configuration.private_files import write_private

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
    with _locked_folder(folder):
        if not _is_good(made.ca, made.ca_key):
            key = x509.new_key()
            _write_pair(made.ca, made.ca_key, x509.authority(key, datetime.now(UTC)), key)
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
    with _locked_folder(folder):
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
    with _locked_folder(folder):
        _ensure_leaf(certificates, certificate, key, "kajitori", "", names, server=True)
    return certificate, key


def ensure_token(path: Path) -> str:
    """Return the administrator's bearer token: random, in a file with mode 0600, created once.

    Raises:
        OSError: the file can't be read or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked_folder(path.parent):
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
) -> None:
    """Write a kubeconfig (mode 0600, atomically) with the CA inside. `server` must be https: kubectl sends tokens over
    TLS only.

    Raises:
        OSError: the file can't be written.
    """
    context = "kajitori"
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
def _locked_folder(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
    issuer, issuer_key = x509.load_pair(authority.ca.read_bytes(), authority.ca_key.read_bytes())
    if not _is_good(path, key_path, issuer=issuer, names=names, common=common):
        key = x509.new_key()
        signed = x509.leaf(key, issuer, issuer_key, datetime.now(UTC), common, organization, names, server=server)
        _write_pair(path, key_path, signed, key)


def _write_pair(path: Path, key_path: Path, certificate: Certificate, key: x509.Key) -> None:
    # If the process is killed between the two writes, the pair does not match: _is_good notices it and both are
    # renewed.
    write_private(key_path, x509.key_pem(key))
    write_private(path, x509.certificate_pem(certificate))


def _is_good(
    path: Path,
    key_path: Path,
    *,
    issuer: Certificate | None = None,
    names: Iterable[str] = (),
    common: str = "",
) -> bool:
    try:
        certificate, _ = x509.load_pair(path.read_bytes(), key_path.read_bytes())
    except (OSError, ValueError):
        return False
    return not x509.fault_of(certificate, datetime.now(UTC), issuer=issuer, names=names, common=common)
