"""Which certificate a kubelet shows that signed it itself: its Node says so, and the API server's proxy wants that one.

Whoever may write a Node says where its kubelet is anyway; nobody has to be trusted who is not trusted without this.
"""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import hashes


def fingerprint(certificate: x509.Certificate) -> str:
    """The value of a Node's annotation `kajitori.dev/serving-certificate`."""
    return "sha256:" + certificate.fingerprint(hashes.SHA256()).hex()
