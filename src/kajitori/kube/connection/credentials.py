"""Credentials in use: token files that rotate, plugins that print tokens or certificates, TLS contexts.

The plugins' protocol:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from kajitori.errors import InvalidInput, Unauthenticated
from kajitori.kube.connection.config import ExecPlugin, KubeConfig

TOKEN_FILE_SECONDS = 60
"""Interval at which a token file is read again, as in client-go: the kubelet renews the file long before the token
expires. A source of headers is asked again at the same interval."""

EXPIRY_MARGIN = timedelta(seconds=10)
"""Credentials that expire within this time are renewed before use."""

PLUGIN_TIMEOUT_SECONDS = 60
"""Time limit of a plugin, which may wait for a browser login."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The header and the TLS context of a request. `expires_at` is None if unknown."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = None
    expires_at: datetime | None = None


class CredentialSource:
    """The credentials of one client, renewed when they expire or the server no longer accepts them."""

    def __init__(self, config: KubeConfig) -> None:
        self._config = config
        self._current: Credential | None = None
        self._lock = asyncio.Lock()

    @property
    def renewable(self) -> bool:
        """Whether the source can obtain other credentials."""
        credentials = self._config.credentials
        return bool(credentials.header_source or credentials.plugin or credentials.token_file)

    async def get(self, *, refused: Credential | None = None) -> Credential:
        """Return credentials to use now.

        `refused` is a credential that the server answered with 401. It is renewed, unless another request has done so.
        Raises InvalidInput for files that cannot be used and Unauthenticated if a plugin fails.
        """
        current = self._current
        if current is not None and current is not refused and not self._is_expired(current):
            return current
        async with self._lock:
            current = self._current
            if current is None or current is refused or self._is_expired(current):
                self._current = current = await self._obtain()
            return current

    def _is_expired(self, credential: Credential) -> bool:
        return credential.expires_at is not None and credential.expires_at - EXPIRY_MARGIN <= datetime.now(UTC)

    async def _obtain(self) -> Credential:
        config, who = self._config, self._config.credentials
        headers: list[tuple[str, str]] = []
        certificate, key = who.certificate_pem, who.key_pem
        expires_at: datetime | None = None
        if who.header_source is not None:
            headers += await who.header_source()
            expires_at = datetime.now(UTC) + timedelta(seconds=TOKEN_FILE_SECONDS) + EXPIRY_MARGIN
        elif who.token_file is not None:
            headers.append(("Authorization", f"Bearer {_read_token(who.token_file)}"))
            expires_at = datetime.now(UTC) + timedelta(seconds=TOKEN_FILE_SECONDS) + EXPIRY_MARGIN
        elif who.token:
            headers.append(("Authorization", f"Bearer {who.token}"))
        elif who.plugin is not None:
            status = await run_plugin(who.plugin, config)
            if status.token:
                headers.append(("Authorization", f"Bearer {status.token}"))
            if status.client_certificate_data:
                certificate, key = status.client_certificate_data.encode(), status.client_key_data.encode()
            expires_at = status.expires_at
        elif who.username:
            pair = base64.b64encode(f"{who.username}:{who.password}".encode()).decode()
            headers.append(("Authorization", f"Basic {pair}"))
        if who.impersonate_user:
            headers.append(("Impersonate-User", who.impersonate_user))
        if who.impersonate_uid:
            headers.append(("Impersonate-Uid", who.impersonate_uid))
        headers += [("Impersonate-Group", group) for group in who.impersonate_groups]
        return Credential(tuple(headers), self._client_tls(certificate, key), expires_at)

    def _client_tls(self, certificate: bytes, key: bytes) -> ssl.SSLContext | None:
        config, who = self._config, self._config.credentials
        if not config.server.startswith("https://"):
            return None
        where = "kubeconfig certificate-authority"
        try:
            authorities = config.ca_pem or _read_bytes(config.ca_file)
            if not certificate and who.certificate_file is None:
                return _shared_tls_context(authorities, config.insecure_skip_tls_verify)
            context = _tls_context(authorities, config.insecure_skip_tls_verify)
            where = "kubeconfig client-certificate"
            _load_pair(context, certificate or _read_bytes(who.certificate_file), key or _read_bytes(who.key_file))
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise InvalidInput.one(where, f"cannot be used: {error}") from error
        return context


def _tls_context(authorities: bytes, insecure: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authorities.decode("ascii") if authorities else None)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@lru_cache(maxsize=8)
def _shared_tls_context(authorities: bytes, insecure: bool) -> ssl.SSLContext:
    """Return the context of clients without a certificate. It is shared: creating one takes milliseconds, and
    connections are reused only under the same one."""
    return _tls_context(authorities, insecure)


class ExecStatus(msgspec.Struct, rename="camel"):
    """The `status` of a plugin's output."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    @property
    def expires_at(self) -> datetime | None:
        moment = self.expiration_timestamp
        return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


class _ExecCredential(msgspec.Struct):
    status: ExecStatus
    kind: str = ""


async def run_plugin(plugin: ExecPlugin, config: KubeConfig) -> ExecStatus:
    """Run a credential plugin once; return the credentials that it prints on standard output.

    Raises Unauthenticated if it cannot be run, fails, takes too long or prints no credentials.
    """
    interactive = plugin.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not interactive:
        raise Unauthenticated(
            f"credential plugin {plugin.command} wants to ask questions, and there is no terminal",
            hint="use a service account's token, or run this at a terminal",
        )
    output = await _output_of_plugin(plugin, config, interactive=interactive)
    try:
        status = msgspec.json.decode(output, type=_ExecCredential).status
    except msgspec.MsgspecError:
        status = ExecStatus()
    if not status.token and not status.client_certificate_data:
        raise Unauthenticated(f"credential plugin {plugin.command} printed no credentials", hint=plugin.install_hint)
    return status


async def _output_of_plugin(plugin: ExecPlugin, config: KubeConfig, *, interactive: bool) -> bytes:
    """Run a credential plugin; return its standard output. Raises Unauthenticated if it cannot be run or fails."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = _cluster_info(config)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = plugin.install_hint or "install it, or correct `exec.command` in the kubeconfig"
        raise Unauthenticated(
            f"credential plugin {plugin.command} cannot be run: {error.strerror}", hint=hint
        ) from None
    try:
        async with asyncio.timeout(PLUGIN_TIMEOUT_SECONDS):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise Unauthenticated(
            f"credential plugin {plugin.command} gave no answer for {PLUGIN_TIMEOUT_SECONDS} s",
            hint="run it by hand to see what it waits for",
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:]
        reason = f": {last[0][:300]}" if last else ""
        raise Unauthenticated(
            f"credential plugin {plugin.command} failed with exit code {process.returncode}{reason}",
            hint="log in again; run it by hand to see more",
        )
    return output


def _cluster_info(config: KubeConfig) -> dict[str, Any]:
    info: dict[str, Any] = {"server": config.server}
    if config.tls_server_name:
        info["tls-server-name"] = config.tls_server_name
    if config.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if config.proxy_url:
        info["proxy-url"] = config.proxy_url
    authority = config.ca_pem or (config.ca_file.read_bytes() if config.ca_file else b"")
    if authority:
        info["certificate-authority-data"] = base64.b64encode(authority).decode()
    return info


def _read_token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.one("tokenFile", f"{path} cannot be read: {error}", value=str(path)) from error
    if not token:
        raise InvalidInput.one("tokenFile", f"{path} is empty", value=str(path))
    return token


def _read_bytes(path: Path | None) -> bytes:
    return path.read_bytes() if path is not None else b""


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and a key. OpenSSL reads them only from a file, so a temporary one is written, which only its
    owner can read and which is removed at once."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)
