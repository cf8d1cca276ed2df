"""Connections of an agent to servers of Kajitori, with its token."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from kajitori.configuration.tls_files import TrustedAuthorities


@dataclass(frozen=True, slots=True)
class Servers:
    """Equivalent servers: a request may go to any of them."""

    urls: Sequence[str]
    token_file: Path | None = None
    """Read for each request, because kubelets replace tokens."""
    trust: TrustedAuthorities | None = None
    """None: the system's authorities."""

    def connection(self, url: str, timeout_seconds: float) -> http.client.HTTPConnection:
        """Return a connection to that URL that is not opened yet."""
        parts = urlsplit(url)
        if parts.scheme == "https":
            context = self.trust.context() if self.trust is not None else None
            return http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=timeout_seconds, context=context
            )
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_seconds)

    def ask(
        self,
        connection: http.client.HTTPConnection,
        url: str,
        method: str,
        path: str,
        body: bytes | None = None,
        expected: http.HTTPStatus = http.HTTPStatus.OK,
        media_type: str = "application/json",
    ) -> http.client.HTTPResponse:
        """Send a request below that URL over a connection to it, and return the response.

        Raises OSError if the server does not answer or the token cannot be read, and HTTPException for an
        unexpected status.
        """
        headers = {} if body is None else {"Content-Type": media_type}
        if self.token_file is not None and (token := self.token_file.read_text().strip()):
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, urlsplit(url).path.rstrip("/") + path, body, headers)
        response = connection.getresponse()
        if response.status != expected:
            raise http.client.HTTPException(f"{url} answered {response.status}: {_problem_detail(response.read(1000))}")
        return response


def _problem_detail(body: bytes) -> str:
    """Return the detail of a problem document, or the body."""
    try:
        return str(msgspec.json.decode(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return body[:300].decode(errors="replace")
