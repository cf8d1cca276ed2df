"""A provider over HTTP: fetch its description, sign in, refresh, revoke."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from kajitori.client.connection import HttpTransport, Lost, NotReached, NotTrusted, Request, Transport
from kajitori.errors import Unauthenticated, Unavailable
from kajitori.openid import flows
from kajitori.openid.flows import Client, Device
from kajitori.openid.provider import Provider, description_url, provider_of
from kajitori.openid.tokens import Tokens

ANSWER_SECONDS = 20.0


@dataclass(frozen=True)
class Asker:
    """Sends requests to a provider; tests replace the transport."""

    ca: str = ""
    """Authorities (PEM) of the provider's certificate; empty: those of this machine."""
    environment: Mapping[str, str] | None = None
    """Variables that name proxies; None: this process's."""
    transport: Callable[[str], Transport] | None = None
    """Makes connections to an address; None: the network."""

    def send(self, method: str, url: str, form: str | None = None) -> tuple[int, bytes]:
        """Return status and body of the answer. Raises Unavailable if there is none."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        transport = self.transport(origin) if self.transport else self._transport(origin, parts.hostname or "")
        headers = {"Accept": "application/json"} | ({"Content-Type": flows.FORM} if form is not None else {})
        body = form.encode() if form is not None else None
        try:
            answer = transport.send(Request(method, path, headers, body, ANSWER_SECONDS))
            return answer.status, answer.content
        except NotTrusted as error:
            hint = "ask your cluster's operators: --sign-in-ca names the authority"
            raise Unavailable(f"the OpenID provider {origin} can't be trusted: {error}", hint=hint) from error
        except (NotReached, Lost) as error:
            raise Unavailable(f"the OpenID provider {origin} does not answer: {error}", hint="try again") from error
        finally:
            transport.close()

    def provider(self, issuer: str) -> Provider:
        """Return the provider's description of itself."""
        status, body = self.send("GET", description_url(issuer))
        if status != 200:
            hint = "ask your cluster's operators: --sign-in-issuer names the provider"
            raise Unavailable(f"{description_url(issuer)} answered {status}", hint=hint)
        return provider_of(flows.read_answer(body), issuer)

    def by_code(self, client: Client, code: flows.Code, query: str) -> Tokens:
        """Return the tokens for the code with which the browser came back."""
        form = flows.code_form(client, code, query)
        return flows.tokens_of_code(client, code, self.send("POST", client.provider.token_endpoint, form)[1])

    def device(self, client: Client) -> Device:
        """Return a new code for this device."""
        if not client.provider.device_endpoint:
            message = f"{client.provider.issuer} does not offer the device flow"
            raise Unavailable(message, hint="use kaji login --no-browser, and open the address on this machine")
        return flows.device_of(self.send("POST", client.provider.device_endpoint, flows.device_form(client))[1])

    def by_device(self, client: Client, device: Device, sleep: Callable[[float], None] = time.sleep) -> Tokens:
        """Repeat the question until the user has entered the code, and return the tokens."""
        interval, waited = device.interval_seconds, 0.0
        while waited < device.lasts_seconds:
            sleep(interval)
            waited += interval
            _, body = self.send("POST", client.provider.token_endpoint, flows.device_token_form(client, device))
            found = flows.tokens_of_device(client, body)
            if isinstance(found, Tokens):
                return found
            interval += found
        raise Unauthenticated("nobody entered the code in time", hint="sign in again: kaji login")

    def refresh(self, client: Client, tokens: Tokens) -> Tokens:
        """Return new tokens for a refresh token."""
        _, body = self.send("POST", client.provider.token_endpoint, flows.refresh_form(client, tokens))
        return flows.refreshed(client, tokens, body)

    def revoke(self, client: Client, tokens: Tokens) -> bool:
        """Revoke the refresh token, and return whether the provider offers that."""
        if not client.provider.revocation_endpoint or not tokens.refresh_token:
            return False
        form = flows.revocation_form(client, tokens.refresh_token)
        status, _ = self.send("POST", client.provider.revocation_endpoint, form)
        return status == 200

    def _transport(self, origin: str, host: str) -> HttpTransport:
        import ssl

        def tls() -> ssl.SSLContext:
            return ssl.create_default_context(cadata=self.ca or None)

        local = host in ("127.0.0.1", "::1", "localhost")
        return HttpTransport(origin, environment=self.environment, use_proxies=not local, tls=tls)
