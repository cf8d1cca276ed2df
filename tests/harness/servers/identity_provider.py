"""An OpenID provider on this machine, and people who sign in at it with a browser, for tests.

The provider is npm's oidc-provider (tests/emulators/identity.mjs). Its users and their groups are alice (vision), bob
(speech), lena (vision, vision-leads), olga (operators) and vera (vision-viewers); any password is right.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx2
import pytest
import yaml
from tests.harness.servers.shared_servers import SHARED_SERVERS

from kajitori.embedded.apiserver.certificates import ensure_certificates

FOLDER = Path(__file__).parents[2] / "emulators"
PREFIX = "oidc:"
"""Prefix of the names of users and groups at the API servers of tests."""
CLIENT = "kaji"
SCOPES = "openid profile email groups offline_access"
_REDIRECT = "http://127.0.0.1:1/callback"
"""Nothing listens there: the browser of a test reads the code from the address."""
_FORM = re.compile(r"<form(.*?)>(.*?)</form>", re.DOTALL)
_INPUT = re.compile(r"<(?:input|button)(.*?)>", re.DOTALL)
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


@dataclass(frozen=True)
class IdentityProvider:
    """A running provider."""

    issuer: str
    ca: Path
    """The authority (PEM) that signed its certificate."""

    def browser(self, stops_at: str = "") -> Browser:
        """Return a browser without cookies. It opens no address that begins with `stops_at`."""
        import ssl

        return Browser(httpx2.Client(verify=ssl.create_default_context(cafile=self.ca), timeout=60.0), stops_at)

    def metadata(self) -> dict[str, Any]:
        """Return the provider's description of itself."""
        with self.browser() as browser:
            found: dict[str, Any] = browser.http.get(f"{self.issuer}/.well-known/openid-configuration").json()
            return found

    def tokens(self, user: str) -> dict[str, Any]:
        """Sign a user in by authorisation code and return the provider's answer: `id_token`, `refresh_token` and so
        on."""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {"client_id": CLIENT, "response_type": "code", "scope": SCOPES, "redirect_uri": _REDIRECT}
        asked |= {"code_challenge": challenge, "code_challenge_method": "S256"}
        with self.browser() as browser:
            address = browser.sign_in(f"{self.issuer}/auth?{urlencode(asked)}", user)
            code = parse_qs(urlsplit(address).query)["code"][0]
            form = {"grant_type": "authorization_code", "code": code, "redirect_uri": _REDIRECT}
            form |= {"client_id": CLIENT, "code_verifier": verifier}
            answer = browser.http.post(f"{self.issuer}/token", data=form)
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

    def id_token(self, user: str) -> str:
        """Return an ID token of this user."""
        return str(self.tokens(user)["id_token"])

    def authentication(self) -> dict[str, Any]:
        """Return an AuthenticationConfiguration by which an API server accepts this provider's ID tokens."""
        return {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "jwt": [
                {
                    "issuer": {
                        "url": self.issuer,
                        "audiences": [CLIENT],
                        "certificateAuthority": self.ca.read_text(),
                    },
                    "claimMappings": {
                        "username": {"claim": "sub", "prefix": PREFIX},
                        "groups": {"claim": "groups", "prefix": PREFIX},
                    },
                }
            ],
        }

    @property
    def authentication_file(self) -> Path:
        """A file with `authentication`."""
        file = self.ca.with_name("authentication.yaml")
        file.write_text(yaml.safe_dump(self.authentication()))
        return file


@dataclass(frozen=True)
class Browser:
    """A browser of HTML forms, with cookies and without scripts."""

    http: httpx2.Client
    stops_at: str = ""

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def open(self, url: str, form: dict[str, str] | None = None) -> httpx2.Response | str:
        """Return the page at this address after all redirects, or the address if nothing answers there."""
        answer: httpx2.Response | None = None
        for _ in range(12):
            if self.stops_at and url.startswith(self.stops_at):
                return url
            try:
                answer = self.http.post(url, data=form) if form is not None else self.http.get(url)
            except httpx2.ConnectError:
                return url
            if answer.status_code not in (302, 303):
                return answer
            url, form = urljoin(url, answer.headers["location"]), None
        raise AssertionError(f"too many redirects: {url}")

    def submit(self, page: httpx2.Response, fields: dict[str, str]) -> httpx2.Response | str:
        """Fill in and submit the page's first form, and follow as `open` does."""
        found = _FORM.search(page.text)
        assert found is not None, page.text
        attributes = dict(_ATTRIBUTE.findall(found[1]))
        given = (dict(_ATTRIBUTE.findall(one)) for one in _INPUT.findall(found[2]))
        hidden = {one["name"]: html.unescape(one.get("value", "")) for one in given if "name" in one}
        return self.open(urljoin(str(page.url), html.unescape(attributes.get("action", ""))), hidden | fields)

    def sign_in(self, url: str, user: str) -> str:
        """Open a page that asks who the user is, answer it, and return the address to which the provider sends the
        browser in the end."""
        page = self._answered(self.open(url), user)
        return page if isinstance(page, str) else str(page.url)

    def approve_device(self, url: str, user: str) -> None:
        """Confirm a device's code at the complete verification address, as this user."""
        page = self._answered(self.open(url), user)
        assert not isinstance(page, str) and "Success" in page.text, page

    def _answered(self, page: httpx2.Response | str, user: str) -> httpx2.Response | str:
        """Answer the provider's questions: who the user is, and whether the client may know it."""
        for _ in range(4):
            if isinstance(page, str) or "<form" not in page.text:
                break
            asks_name = 'name="login"' in page.text
            page = self.submit(page, {"login": user, "password": "any"} if asks_name else {})
        return page


def what_is_missing() -> str:
    """Return what the provider lacks on this machine and how to install it; empty if it can run."""
    if shutil.which("node") is None:
        return "oidc-provider, the OpenID provider of the tests, needs Node.js: apt-get install nodejs npm"
    if not (FOLDER / "node_modules" / "oidc-provider").exists():
        return "oidc-provider, the OpenID provider of the tests, is missing: make emulators"
    return ""


def sign_in_flags() -> tuple[str, ...]:
    """Return the flags by which a kube-apiserver accepts the ID tokens of this group's provider; none without one."""
    if what_is_missing():
        return ()
    return (f"--authentication-config={_shared().authentication_file}",)


@contextlib.contextmanager
def running_provider() -> Iterator[IdentityProvider]:
    """Run a provider. Skip the test if it is not installed, and say how to install it."""
    if lacking := what_is_missing():
        pytest.skip(lacking)
    folder = Path(tempfile.mkdtemp(prefix="kajitori-identity-"))
    made = ensure_certificates(folder)
    settings = json.dumps({"certificate": str(made.server), "key": str(made.server_key)})
    words = ["node", "--no-warnings", str(FOLDER / "identity.mjs"), settings]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("issuer "):
                issuer = line.split()[1]
                break
        else:
            raise RuntimeError(f"the OpenID provider did not start: {(folder / 'log').read_text()}")
        yield IdentityProvider(issuer, made.ca)
    finally:
        process.kill()
        process.wait(20)
        for stream in (process.stdin, process.stdout, log):
            if stream is not None:
                stream.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def identity_provider() -> IdentityProvider:
    """One provider for all tests of this group."""
    return _shared()


def _shared() -> IdentityProvider:
    return SHARED_SERVERS.get("identity_provider", running_provider)
