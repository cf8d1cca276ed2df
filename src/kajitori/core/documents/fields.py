"""Types of single fields in documents: which values they accept, how they are serialized, and their JSON schema."""

from __future__ import annotations

import ipaddress
import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema

from kajitori.core.formats.quantities import (
    QuantityError,
    format_cpu,
    format_duration,
    format_memory,
    parse_cpu_millis,
    parse_duration_seconds,
    parse_spec_memory_bytes,
)
from kajitori.core.formats.times import format_time
from kajitori.core.kubernetes import texts
from kajitori.core.kubernetes.image_names import parse_image_name
from kajitori.errors import FieldError

INT_OR_STRING: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
ANY_NUMBER: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
"""Schema of a number or a text. Kubernetes' schemas can express that only as "any value", and both `cpu: 0.5` and
`cpu: 500m` are valid."""

RULES = "x-kubernetes-validations"
"""Schema key of CEL rules, each with the message of the API server if the rule does not hold."""

_TIME_PATTERN = r"^\s*[0-9][-0-9.:wdhms]*\s*$"
_SIZE_PATTERN = r"^\s*[+]?[0-9.]+ ?([eE][-+]?[0-9]+|[num]|[kmgtpeKMGTPE]?[iI]?[bB]?)\s*$"
"""These patterns accept every text that the parsers accept, and some that the parsers refuse."""


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Return the part of a schema with CEL rules, given as pairs of an expression and a message."""
    return {RULES: [{"rule": expression, "message": message} for expression, message in pairs]}


def _text_schema(max_length: int, expression: str = "", message: str = "") -> WithJsonSchema:
    """Return the schema of a text with a maximum length, so that an API server stores no longer text than the validator
    accepts."""
    return WithJsonSchema(
        {"type": "string", "maxLength": max_length} | (rules((expression, message)) if message else {})
    )


def _number_or_text(least: int, pattern: str, message: str) -> WithJsonSchema:
    """Return the schema of an amount: a number that is at least `least`, or a text that matches `pattern`."""
    expression = f"type(self) == int ? self >= {least} : self.matches(r'{pattern}')"
    return WithJsonSchema(INT_OR_STRING | {"maxLength": 128} | rules((expression, message)))


RESERVED_ENV_PREFIX = "KAJI_"
LEAST_MEMORY_BYTES = 6 * 2**20
"""Smallest memory limit that Docker accepts. A user who writes `-m 64` has forgotten the unit."""

MAX_TEXT_LENGTH = 128 * 1024
"""Maximum length of one argument or variable, in characters. Linux does not start a program with a longer one."""

MAX_PROGRAM_WORDS = 256
"""Maximum number of words of a command beside the program, such as a health check."""

_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_SERVER_URL = re.compile(
    r"https?://([A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[-._~A-Za-z0-9/]*)?",
    re.ASCII,
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_NOT_OVER = ("/", "/proc", "/sys", "/dev")
"""Paths that the container runtime mounts itself. Nothing below /proc can be mounted over either."""
_LABEL, _DNS_LABEL_HINT = "self.matches('^[-a-z0-9]+$')", "use at most 63 lower-case letters, digits and dashes"
BUILT_IN_NETWORKS = ("host", "none", "bridge", "default")
"""Words of Docker's option `--network` that are no networks in which programs find each other by name."""
_NETWORK_NAME = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]*", re.ASCII)
_NETWORK, _NETWORK_HINT = (
    "self.matches('^[A-Za-z0-9][-_.A-Za-z0-9]*$')",
    "use at most 128 letters, digits, '-', '_' and '.', and begin with a letter or digit",
)
_ABSOLUTE, _ABSOLUTE_HINT = "self.startsWith('/')", "begin it with /"
_USER = re.compile(r"([0-9]{1,10})(?::([0-9]{1,10}))?", re.ASCII)
_MAX_ID = 2**31 - 1


def _positive(amount: int, value: object, hint: str) -> int:
    if amount <= 0:
        raise QuantityError(value, f"{value!r:.80} is not above zero", hint)
    return amount


def _cpu(value: Any) -> int:
    return _positive(parse_cpu_millis(value), value, "write a number of cores, for example 8 or 0.5")


def _memory(value: Any) -> int:
    return _positive(parse_spec_memory_bytes(value), value, "write a size, for example 64Gi")


def _memory_limit(value: Any) -> int:
    amount = _memory(value)
    if amount < LEAST_MEMORY_BYTES:
        message = f"{value!r:.80} is less than any program needs"
        hint = f"write a unit, for example 64g; the minimum is {format_memory(LEAST_MEMORY_BYTES)}"
        raise QuantityError(value, message, hint)
    return amount


def _duration_above_zero(value: Any) -> int:
    return _positive(parse_duration_seconds(value), value, "write a time, for example 8h")


def _dns_label(text: str) -> str:
    if texts.dns_label(text):
        raise FieldError(f"{text!r:.80} is not a valid name", _DNS_LABEL_HINT)
    return text


def _network_name(text: str) -> str:
    if not _NETWORK_NAME.fullmatch(text) or len(text) > 128:
        raise FieldError(f"{text!r:.80} is not a valid name for a network", _NETWORK_HINT)
    if text in BUILT_IN_NETWORKS:
        raise FieldError(f"{text} is a word of --network with a meaning of its own", "choose another name")
    return text


def _dns_subdomain(text: str) -> str:
    if texts.dns_subdomain(text):
        hint = "use lower-case letters, digits, dashes and dots"
        raise FieldError(f"{text!r:.80} is not a valid name for an object", hint)
    return text


def _env_name(text: str) -> str:
    if not _ENV_NAME.fullmatch(text) or len(text) > 1024:
        raise FieldError(
            f"{text!r:.80} is not a valid name for an environment variable",
            "use letters, digits, '_', '-' and '.', and do not begin with a digit",
        )
    return text


def _user_env_name(text: str) -> str:
    if text.startswith(RESERVED_ENV_PREFIX):
        raise FieldError(
            f"{text:.80} is reserved: Kajitori sets variables that begin with KAJI_", "choose another name"
        )
    return _env_name(text)


def _no_nul(text: str) -> str:
    if len(text) > MAX_TEXT_LENGTH:
        raise FieldError(f"has {len(text)} characters; {MAX_TEXT_LENGTH} are allowed", "put large texts into a file")
    if "\0" in text:
        raise FieldError("contains a NUL character, which Linux cannot pass to a process", "remove it")
    return text


def _absolute_path(text: str) -> str:
    if not text.startswith("/"):
        raise FieldError(f"{text!r:.80} is not an absolute path", _ABSOLUTE_HINT)
    if ".." in text.split("/") or "\0" in text or len(text) > 4096:
        raise FieldError(f"{text!r:.80} is not a plain path", "leave out '..'")
    return "/" + "/".join(part for part in text.split("/") if part not in ("", "."))


def _mount_path(text: str) -> str:
    path = _absolute_path(text)
    if path in _NOT_OVER or path.startswith("/proc/"):
        hint = "use a folder below it" if path == "/" else "choose another path"
        raise FieldError(f"nothing can be mounted at {path!r:.80}", hint)
    if ":" in path:
        raise FieldError(f"{text!r:.80} contains a colon, which is not allowed in a mount path", "choose another path")
    return path


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        hint = "write sha256: and 64 hexadecimal digits; kaji run --code DIR uploads a folder and sets the digest"
        raise FieldError(f"{text!r:.80} is not a digest", hint)
    return text


def _time(text: str) -> str:
    hint = "write it as 2026-11-23T18:00:00Z"
    try:
        moment = datetime.fromisoformat(text) if len(text) <= 40 else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise FieldError(f"{text!r:.80} is not a time with a time zone", hint)
    return format_time(moment)


def _server_url(text: str) -> str:
    if not _SERVER_URL.fullmatch(text) or len(text) > 2048:
        hint = "write a URL, for example http://kajitori.kajitori.svc:8600"
        raise FieldError(f"{text!r:.80} is not the URL of a server", hint)
    return text.rstrip("/")


def checked_cidr(text: str) -> str:
    """Return the canonical form of a CIDR range. Raises FieldError if it is none, or if host bits are set."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        hint = "write a CIDR range, for example 10.0.0.0/8 or fd00::/8"
        raise FieldError(f"{text!r:.80} is not a range of addresses", hint) from None
    if "/" not in text or str(network) != str(ipaddress.ip_interface(text)):
        raise FieldError(f"{text!r:.80} is not the canonical form of a CIDR range", f"write {network}")
    return str(network)


def _label_key(text: str) -> str:
    if texts.qualified_name(text):
        raise FieldError(f"{text!r:.80} is not a valid label key", "write NAME or DOMAIN/NAME")
    return text


def _label_value(text: str) -> str:
    if texts.label_value(text):
        raise FieldError(f"{text!r:.80} is not a valid label value", "use at most 63 letters, digits, '-', '_' and '.'")
    return text


def _image(text: str) -> str:
    if len(text) > 1000 or parse_image_name(text) is None:
        hint = "write a name such as registry/bert:3 or python:3.11"
        raise FieldError(f"{text!r:.80} is not a valid image name", hint)
    return text


def _program(value: Any) -> Any:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise FieldError(f"{value!r:.80} is no command", "write a text for /bin/sh, or a list of words")
    if not words or not words[0].strip():
        raise FieldError("there is no command", "write a text for /bin/sh, or a list of words")
    if len(words) > MAX_PROGRAM_WORDS:
        raise FieldError(f"has {len(words)} words; {MAX_PROGRAM_WORDS} are allowed", "put them into a script")
    for word in words:
        _no_nul(word)
    return value


def _user(value: Any) -> Any:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    match = _USER.fullmatch(text) if isinstance(text, str) else None
    if match is None or any(part and int(part) > _MAX_ID for part in match.groups()):
        raise FieldError(f"{value!r:.80} is not a user", "write numbers: uid or uid:gid, for example 1000:1000")
    return ":".join(str(int(part)) for part in match.groups() if part)


Cpu = Annotated[int, BeforeValidator(_cpu), PlainSerializer(format_cpu, return_type=str), WithJsonSchema(ANY_NUMBER)]
"""Millicores, written as `8`, `0.5` or `500m`."""

_SIZE = _number_or_text(1, _SIZE_PATTERN, "write a size above zero, such as 64Gi or 64g")
_TIME = "write seconds, or a time such as 60s, 1h30m or 7d"

Memory = Annotated[int, BeforeValidator(_memory), PlainSerializer(format_memory, return_type=str), _SIZE]
"""Bytes, written as in Kubernetes (`64Gi`) or Docker (`64g`)."""

MemoryLimit = Annotated[int, BeforeValidator(_memory_limit), PlainSerializer(format_memory, return_type=str), _SIZE]
"""Bytes, at least LEAST_MEMORY_BYTES."""

Duration = Annotated[
    int,
    BeforeValidator(parse_duration_seconds),
    PlainSerializer(format_duration, return_type=str),
    _number_or_text(0, _TIME_PATTERN, _TIME),
]
"""Whole seconds, written as `60s`, `1h30m`, `7d` or `90`."""

DurationAboveZero = Annotated[
    int,
    BeforeValidator(_duration_above_zero),
    PlainSerializer(format_duration, return_type=str),
    _number_or_text(1, _TIME_PATTERN, _TIME),
]

DnsLabel = Annotated[str, AfterValidator(_dns_label), _text_schema(63, _LABEL, _DNS_LABEL_HINT)]
NetworkName = Annotated[str, AfterValidator(_network_name), _text_schema(128, _NETWORK, _NETWORK_HINT)]
ObjectName = Annotated[str, AfterValidator(_dns_subdomain), _text_schema(253)]
EnvName = Annotated[str, AfterValidator(_env_name), _text_schema(1024)]
UserEnvName = Annotated[str, AfterValidator(_user_env_name), _text_schema(1024)]
Text = Annotated[str, AfterValidator(_no_nul), _text_schema(MAX_TEXT_LENGTH)]
Program = Annotated[
    str | list[str],
    PlainValidator(_program),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]} | ANY_NUMBER),
]
"""A text for a shell, or the words of a command. Kubernetes' schemas can express that only as "any value"."""
AbsolutePath = Annotated[str, AfterValidator(_absolute_path), _text_schema(4096, _ABSOLUTE, _ABSOLUTE_HINT)]
MountPath = Annotated[str, AfterValidator(_mount_path), _text_schema(4096, _ABSOLUTE, _ABSOLUTE_HINT)]
Digest = Annotated[
    str, AfterValidator(_digest), WithJsonSchema({"type": "string", "pattern": f"^{_DIGEST.pattern}$", "maxLength": 71})
]
Moment = Annotated[str, AfterValidator(_time), _text_schema(40)]
"""A time, as RFC 3339 writes it."""
Cidr = Annotated[str, AfterValidator(checked_cidr)]
ServerUrl = Annotated[str, AfterValidator(_server_url)]
LabelKey = Annotated[str, AfterValidator(_label_key), _text_schema(317)]
LabelValue = Annotated[str, AfterValidator(_label_value), _text_schema(63)]
Image = Annotated[str, AfterValidator(_image), _text_schema(1000)]
User = Annotated[
    str,
    BeforeValidator(_user),
    _number_or_text(0, "^[0-9]{1,10}(:[0-9]{1,10})?$", "write numbers: uid or uid:gid, such as 1000:1000"),
]
