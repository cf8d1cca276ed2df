"""Fingerprints of kubelets' self-signed certificates. A Node names its kubelet's, and the API server's proxy requires
it.

This needs no further trust: a client that may write a Node can direct requests to any kubelet anyway.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import hashes


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the value of a Node's annotation `kajitori.dev/serving-certificate`."""
    return "sha256:" + certificate.fingerprint(hashes.SHA256()).hex()
