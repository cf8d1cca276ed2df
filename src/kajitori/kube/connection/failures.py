"""Failures of the network and of handshakes as typed errors, with the address and a hint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from kajitori.errors import KajitoriError
from kajitori.kube.connection.config import KubeConfig
from kajitori.kube.connection.proxy import without_secret
from kajitori.kube.errors import ConnectionFailed

_STILL_HELD = "is used by transport"
"""Part of uvloop's message for a new socket after a server died during a handshake: aiohttp has closed that
connection's socket, and the next socket got its number before uvloop released it. Nothing was sent, and the state
passes."""


class HandshakeRefused(Exception):
    """The server answered the handshake of a WebSocket with this HTTP status. The body of the answer is lost."""

    def __init__(self, status: int) -> None:
        self.status = status


@contextmanager
def translated_failures(config: KubeConfig) -> Iterator[None]:
    """Turn failures of the network into ConnectionFailed, and a refused handshake into HandshakeRefused."""
    try:
        yield
    except aiohttp.WSServerHandshakeError as error:
        raise HandshakeRefused(error.status) from error
    except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
        if isinstance(error.__cause__, KajitoriError):
            raise error.__cause__ from None  # the permission to write has ended
        raise connection_failed(config, error) from error
    except RuntimeError as error:
        if _STILL_HELD not in str(error):
            raise
        raise ConnectionFailed(
            f"the API server at {config.server} cannot be reached: {error}",
            hint="try again",
            maybe_applied=False,
        ) from error


def connection_failed(config: KubeConfig, error: Exception) -> ConnectionFailed:
    """Return the error for a user after a network failure while talking to this API server."""
    where = f"the API server at {config.server}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return ConnectionFailed(
            f"{where} cannot be trusted: {error}",
            hint="check certificate-authority and tls-server-name in the kubeconfig",
            maybe_applied=False,
        )
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError | aiohttp.ConnectionTimeoutError):
        reason = getattr(error, "os_error", None) or error
        through = f" through the proxy {without_secret(config.proxy_url)}" if config.proxy_url else ""
        return ConnectionFailed(
            f"{where} cannot be reached{through}: {reason or 'no answer in time'}",
            hint="check that it runs and that the kubeconfig's address is right",
            maybe_applied=False,
        )
    if isinstance(error, TimeoutError):
        return ConnectionFailed(f"{where} did not answer in time", hint="it may be overloaded; try again later")
    return ConnectionFailed(f"{where} broke the connection: {error or type(error).__name__}", hint="try again")
