"""How people sign in to a server: the options of its processes, and the settings that clients get."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kajitori.configuration.option_faults import file_faults, plain_url_faults, url_faults
from kajitori.core.proxy.addresses import ProgramOrigins, parse_origins
from kajitori.errors import Fault

CLIENT_ID = "kaji"
SHORTEST_KEY_BYTES = 32
SCOPES = "openid profile email groups offline_access"
"""`offline_access` asks for a refresh token, `groups` for the teams of a user."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """The OpenID provider at which people sign in. The API server must accept its ID tokens."""

    issuer: str
    client_id: str = CLIENT_ID
    scopes: str = SCOPES
    ca: str = ""
    """The authorities (PEM) that signed the provider's certificate; empty: those of the machine."""
    client_secret: str = field(default="", repr=False)
    """For providers that demand one from servers; it is sent to no one else."""


@dataclass(frozen=True, slots=True)
class BrowserAccess:
    """Settings of browsers' sessions, with or without a provider."""

    public_url: str = ""
    """Address of this server as browsers see it; empty: the one of each request."""
    cookie_secret: bytes = field(default=b"", repr=False)
    """Encrypts the cookies of browsers; empty: a new secret, so that sessions end with the process."""
    programs: ProgramOrigins | None = None
    """Origins at which browsers find the programs of runs; None: browsers are shown none."""


@dataclass(frozen=True, kw_only=True)
class SignInOptions:
    """Options of a process that tells people where to sign in."""

    sign_in_issuer: str | None = None
    """None: people need a token of the cluster."""
    sign_in_client_id: str = CLIENT_ID
    sign_in_scopes: str = SCOPES
    sign_in_ca: Path | None = None
    sign_in_secret: Path | None = None
    """File with the client's secret, for browser sessions at providers that demand one."""
    sign_in_url: str | None = None
    """Address of this server as browsers see it; None: the one of each request."""
    sign_in_key: Path | None = None
    """File with random bytes that encrypts the cookies of browsers, the same for all servers. None: a new secret."""
    programs_url: str | None = None
    """Address at which browsers find the programs of runs, with a `*` for an origin of each. None: they find none."""

    def sign_in(self) -> SignIn | None:
        """Return how people sign in. Reads the files."""
        if self.sign_in_issuer is None:
            return None
        ca = self.sign_in_ca.read_text() if self.sign_in_ca is not None else ""
        secret = self.sign_in_secret.read_text().strip() if self.sign_in_secret is not None else ""
        return SignIn(self.sign_in_issuer, self.sign_in_client_id, self.sign_in_scopes, ca, secret)

    def browser_access(self) -> BrowserAccess:
        """Return the settings for sessions of browsers. Reads the file with the key."""
        key = self.sign_in_key.read_bytes() if self.sign_in_key is not None else b""
        programs = parse_origins(self.programs_url) if self.programs_url is not None else None
        return BrowserAccess(self.sign_in_url or "", key, programs)

    def sign_in_faults(self) -> list[Fault]:
        """Return every fault of these options."""
        urls = (self.sign_in_issuer,) if self.sign_in_issuer is not None else ()
        faults = url_faults("--sign-in-issuer", urls, "https://login.example.org")
        faults += plain_url_faults(("--sign-in-issuer", urls))
        faults += file_faults(("--sign-in-ca", self.sign_in_ca), ("--sign-in-secret", self.sign_in_secret))
        faults += file_faults(("--sign-in-key", self.sign_in_key))
        addresses = (self.sign_in_url,) if self.sign_in_url is not None else ()
        faults += url_faults("--sign-in-url", addresses, "https://kaji.example.org")
        faults += program_faults("--programs-url", self.programs_url, "--sign-in-url", self.sign_in_url)
        if self.sign_in_key is not None and not faults and len(self.sign_in_key.read_bytes()) < SHORTEST_KEY_BYTES:
            hint = "make one: head -c 32 /dev/urandom >FILE"
            faults.append(Fault("--sign-in-key", "fewer than 32 bytes can be guessed", str(self.sign_in_key), hint))
        if "openid" not in self.sign_in_scopes.split():
            hint = f"for example '{SCOPES}'"
            faults.append(Fault("--sign-in-scopes", "without openid there is no ID token", self.sign_in_scopes, hint))
        if not faults and self.sign_in_ca is not None:
            import ssl  # takes longer than everything else here

            try:
                ssl.create_default_context(cafile=self.sign_in_ca)
            except (ssl.SSLError, OSError) as error:
                hint = "name a PEM file"
                faults.append(Fault("--sign-in-ca", f"no certificates: {error}", str(self.sign_in_ca), hint))
        return faults


def program_faults(field_name: str, text: str | None, page_name: str, page_url: str | None) -> list[Fault]:
    """Return the faults of the address for programs, which must not be an address of the server's own page.

    `field_name` and `page_name` are the settings of the two addresses.
    """
    if text is None:
        return []
    try:
        origins = parse_origins(text)
    except ValueError as error:
        return [Fault(field_name, str(error), text, "for example https://*.runs.example.org")]
    if page_url is None:
        if origins.is_local:
            return []
        hint = f"add {page_name}, for example https://kaji.example.org"
        return [Fault(field_name, "browsers come to programs from the server's own page", text, hint)]
    own = urlsplit(page_url)
    if origins.label_of(own.netloc) is not None:
        message = "this is an address of the server's own page, whose rights programs must not get"
        return [Fault(field_name, message, text, "name another host")]
    if own.scheme == "https" and origins.scheme != "https":
        hint = f"write https://{text.partition('://')[2]}"
        return [Fault(field_name, "the page uses TLS, so programs must", text, hint)]
    return []
