"""Servers of Kajitori that an agent speaks to, and how it shows them who it is."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec


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

    def ask(
        self,
        connection: http.client.HTTPConnection,
        url: str,
        method: str,
        path: str,
        body: bytes | None = None,
        expected: http.HTTPStatus = http.HTTPStatus.OK,
    ) -> http.client.HTTPResponse:
        """What is answered to a request below that URL, over a connection to it.

        Raises OSError where nobody answers, or the token can't be read; HTTPException where anything else is answered.
        """
        headers = {} if body is None else {"Content-Type": "application/json"}
        if self.token_file is not None and (token := self.token_file.read_text().strip()):
            headers["Authorization"] = f"Bearer {token}"
        connection.request(method, urlsplit(url).path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        if answer.status != expected:
            raise http.client.HTTPException(f"{url} answered {answer.status}: {_detail(answer.read(1000))}")
        return answer


def _detail(body: bytes) -> str:
    """What a problem says, in words."""
    try:
        return str(msgspec.json.decode(body)["detail"])
    except (ValueError, KeyError, TypeError):
        return body[:300].decode(errors="replace")
