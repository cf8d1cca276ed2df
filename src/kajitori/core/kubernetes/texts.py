"""Rules for names, labels and other short texts, with the messages of k8s.io/apimachinery/util/validation.

Each rule returns the faults of a text, or an empty list. `go_quoted` formats a text for such messages.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_PATTERN = rf"{LABEL_PATTERN}(\.{LABEL_PATTERN})*"
_1035_PATTERN = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_PATTERN = f"({_NAME_PATTERN})?"
_CONFIG_KEY_PATTERN = "[-._a-zA-Z0-9]+"
_UNDERSCORE_PART = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_PATTERN = rf"{_UNDERSCORE_PART}(\.{_UNDERSCORE_PART})*"

_LABEL = re.compile(LABEL_PATTERN)
_SUBDOMAIN = re.compile(SUBDOMAIN_PATTERN)
_1035 = re.compile(_1035_PATTERN)
_NAME = re.compile(_NAME_PATTERN)
_VALUE = re.compile(_VALUE_PATTERN)
_CONFIG_KEY = re.compile(_CONFIG_KEY_PATTERN)
_UNDERSCORE = re.compile(_UNDERSCORE_PATTERN)
_PORT_CHARACTERS = re.compile("[-a-z0-9]+")
_ENV_NAME = re.compile(r"[ -<>-~]+")

_REGEX = "regex used for validation is"
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', {_REGEX} '{LABEL_PATTERN}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', {_REGEX} '{SUBDOMAIN_PATTERN}')"
)
_UNDERSCORE_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', {_REGEX} '{_UNDERSCORE_PATTERN}')"
)
_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', {_REGEX} '{_1035_PATTERN}')"
)
_NAME_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', {_REGEX} '{_NAME_PATTERN}')"
)
_KEY_TEXT = f"a valid label key {_NAME_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', {_REGEX} '{_VALUE_PATTERN}')"
)
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', {_REGEX} '{_CONFIG_KEY_PATTERN}')"
)
_ENV_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"

Rule = Callable[[str], list[str]]
_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def dns_label(text: str) -> list[str]:
    """RFC 1123 label: names of namespaces, containers, volumes, host names."""
    faults = _faults_of_text(text, 63, "characters", _LABEL, _LABEL_TEXT)
    if _LABEL_TEXT in faults and _SUBDOMAIN.fullmatch(text):
        faults[-1] = "must not contain dots"
    return faults


def dns_subdomain(text: str) -> list[str]:
    """RFC 1123 subdomain: names of most objects."""
    return _faults_of_text(text, 253, "characters", _SUBDOMAIN, _SUBDOMAIN_TEXT)


def dns_subdomain_with_underscore(text: str) -> list[str]:
    """DNS subdomain that may contain underscores: entries of a resolver's search path."""
    return _faults_of_text(text, 253, "characters", _UNDERSCORE, _UNDERSCORE_TEXT)


def dns_1035_label(text: str) -> list[str]:
    """RFC 1035 label: names of Services."""
    return _faults_of_text(text, 63, "characters", _1035, _1035_TEXT)


def path_segment(text: str) -> list[str]:
    """Segment of a URL path: names of RBAC objects."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{character}'" for character in ("/", "%") if character in text]


def qualified_name(text: str) -> list[str]:
    """Keys of labels and annotations, names of resources: `[prefix/]name`."""
    prefix, slash, name = text.rpartition("/")
    faults: list[str] = []
    if slash:
        if "/" in prefix:
            return [_KEY_TEXT]
        if not prefix:
            faults.append("prefix part must be non-empty")
        else:
            faults += [f"prefix part {fault}" for fault in dns_subdomain(prefix)]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        faults.append(f"name part {_NAME_TEXT}")
    return faults


def label_value(text: str) -> list[str]:
    """Values of labels and of node selectors."""
    return _faults_of_text(text, 63, "bytes", _VALUE, _VALUE_TEXT)


def config_key(text: str) -> list[str]:
    """Keys of ConfigMaps and Secrets."""
    faults = _faults_of_text(text, 253, "characters", _CONFIG_KEY, _CONFIG_KEY_TEXT)
    if text in (".", ".."):
        faults.append(f"must not be '{text}'")
    elif text.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def env_name(text: str) -> list[str]:
    """Names of environment variables."""
    return [] if _ENV_NAME.fullmatch(text) else [_ENV_TEXT]


def port_name(text: str) -> list[str]:
    """Names of container ports (IANA service names)."""
    faults = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not _PORT_CHARACTERS.fullmatch(text):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        faults.append("must contain at least one letter (a-z)")
    if "--" in text:
        faults.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def external_address(text: str) -> list[str]:
    """Addresses of external endpoints."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return [IP_TEXT]
    faults: list[str] = []
    if address.is_unspecified:
        faults.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        faults.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        faults.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in block for block in _LOCAL_MULTICAST if block.version == address.version):
        faults.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return faults


def ip_address(text: str) -> list[str]:
    """IPv4 and IPv6 addresses."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return [IP_TEXT]
    return []


def port_number(number: int) -> list[str]:
    """Ports to which clients can connect."""
    return [] if 1 <= number <= 65535 else ["must be between 1 and 65535, inclusive"]


def _faults_of_text(text: str, limit: int, unit: str, form: re.Pattern[str], wrong_form: str) -> list[str]:
    faults = [f"must be no more than {limit} {unit}"] if len(text) > limit else []
    if not form.fullmatch(text):
        faults.append(wrong_form)
    return faults


def are_certificates(pem: str) -> bool:
    """Return whether a text holds certificates in PEM, as TLS needs them."""
    import ssl  # takes longer to import than everything else here

    try:
        ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError):
        return False
    return True


def go_quoted(text: str) -> str:
    """Quote a text as Go's `%q` does."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_go_character, text)) + '"'


def _go_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def http_url(host: str, port: int, *, tls: bool = False) -> str:
    """Return the URL of a server at this host name or address; IPv6 addresses get brackets."""
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a host name or address is a loopback address, which other machines cannot reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
