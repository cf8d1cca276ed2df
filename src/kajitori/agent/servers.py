"""Servers of Kajitori that an agent speaks to, and how it shows them who it is."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they are; any of them will do."""

    urls: Sequence[str]
    token_file: Path | None = None
    """Read each time it is shown: kubelets replace tokens."""
    tls: ssl.SSLContext | None = None
    """None: the system's certificates."""

    def connection(self, url: str, timeout_seconds: float) -> http.client.HTTPConnection:
        """One to that URL, not opened yet."""
        parts = urlsplit(url)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=timeout_seconds, context=self.tls
            )
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_seconds)

    def headers(self) -> dict[str, str]:
        """That show who asks. Raises OSError where the token can't be read."""
        token = self.token_file.read_text().strip() if self.token_file is not None else ""
        return {"Authorization": f"Bearer {token}"} if token else {}
