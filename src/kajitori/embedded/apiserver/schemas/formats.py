"""Media types: what a client takes, what it sends, and how answers are written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from kajitori.core.documents.fast_yaml import LOADER
from kajitori.core.documents.repeated_keys import repeated_keys
from kajitori.embedded.apiserver.causes import invalid
from kajitori.embedded.apiserver.kinds import Kind, Object
from kajitori.embedded.apiserver.schemas import protobuf
from kajitori.embedded.apiserver.schemas.go_types import go_type
from kajitori.embedded.apiserver.schemas.nesting import TooDeep, check_depth, decode_json, decode_yaml
from kajitori.embedded.apiserver.status import StatusError

JSON = "application/json"
YAML = "application/yaml"
SERVED = (JSON, YAML)
_WILDCARDS = ("*/*", "application/*")
_SUMMARY_BYTES = 30
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'

encode_json = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Format:
    """How an answer is to be written."""

    media_type: str = JSON
    shape: str = ""
    """"Table", "PartialObjectMetadata", or "" for the objects themselves."""
    pretty: bool = False
    of_list: bool = False
    """The shape was asked for as that of a list."""

    def write(self, value: Any) -> bytes:
        """Any document in this format."""
        return self.rewrite(encode_json(value))

    def rewrite(self, encoded: bytes) -> bytes:
        """A document that is JSON already, in this format."""
        if self.media_type == YAML:
            return yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=True, allow_unicode=True).encode()
        return msgspec.json.format(encoded, indent=2) + b"\n" if self.pretty else encoded


def negotiate(accept: str, query: Mapping[str, str], user_agent: str, *, custom: bool = False) -> Format:
    """The format that an `Accept` header asks for. `custom`: of a custom resource, which refuses in other words.

    Raises:
        StatusError: 406, none of its media types is served.
    """
    pretty = _wants_pretty(query, user_agent)
    if not accept:
        return Format(pretty=pretty)
    refused_shape = False
    for offered in accept.split(","):
        media_type, *parameters = (part.strip() for part in offered.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters)
        if media_type in _WILDCARDS:
            media_type = JSON
        if media_type not in SERVED:
            continue
        shape = given.get("as", "")
        if not shape:
            return Format(media_type, pretty=pretty)
        known = shape in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
        if known and (given.get("g"), given.get("v")) == ("meta.k8s.io", "v1"):
            return Format(media_type, shape.removesuffix("List"), pretty, shape.endswith("List"))
        refused_shape = True
    if refused_shape or custom:
        said = f"only the following media types are accepted: {', '.join((JSON, YAML, protobuf.MEDIA_TYPE))}"
        raise StatusError(406, "NotAcceptable", said)
    raise StatusError.not_acceptable((JSON, YAML, protobuf.MEDIA_TYPE))


def _wants_pretty(query: Mapping[str, str], user_agent: str) -> bool:
    asked = query.get("pretty")
    if asked is not None:
        return asked.lower() not in ("", "0", "false")
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


class _PlainLoader(LOADER):  # type: ignore[misc]
    """YAML as JSON has it: dates stay text."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_body(body: bytes, content_type: str) -> Any:
    """A body as a document.

    Raises:
        ValueError: it can't be parsed.
        StatusError: 415, of another media type.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in (JSON, ""):
        try:
            return decode_json(body)
        except TooDeep:
            raise
        except ValueError as error:
            raise ValueError(go_error(body)) from error
    if media_type == YAML:
        with suppress(
            msgspec.DecodeError
        ):  # clients send JSON under this name, too: it is read in a hundredth of the time
            return decode_json(body)
        return decode_yaml(body, _PlainLoader)
    if media_type == protobuf.MEDIA_TYPE:
        try:
            found = protobuf.decode(body)
        except RecursionError as error:
            raise TooDeep from error
        check_depth(found)
        return found
    raise StatusError.unsupported_media_type((JSON, YAML, protobuf.MEDIA_TYPE))


def read_object(body: bytes, content_type: str, kind: Kind, validation: str = "") -> Object:
    """The object in a body where one of a kind is expected (`check_identity` looks whether it is one).

    Raises:
        StatusError: 400, it is none; 415.
    """
    wanted = kind.resource
    if kind.custom is not None and content_type.startswith(protobuf.MEDIA_TYPE):
        raise StatusError.unsupported_media_type((JSON, YAML))
    try:
        found = parse_body(body, content_type)
        if found is None:
            found = {}
        if not isinstance(found, dict):
            raise ValueError(no_object(found))
    except ValueError as error:
        text = f"couldn't get version/kind; json parse error: {error} ({_summary(body)})"
        text = f"the object provided is unrecognized (must be of type {wanted.kind}): {text}"
        raise StatusError.bad_request(text) from error
    if kind.custom is not None and not (found.get("kind") and found.get("apiVersion")):
        missing = "Kind" if not found.get("kind") else "apiVersion"
        text = body.decode(errors="replace")
        said = f"Object '{missing}' is missing in '{text}'"
        if validation == "Ignore":
            # Without a second, strict look it is known what it was to be.
            version = f'{wanted.kind} in version "{wanted.version}"'
            raise StatusError.bad_request(f"{version} cannot be handled as a {wanted.kind}: {said}")
        said += f" ({_summary(body)})"
        raise StatusError.bad_request(f"the object provided is unrecognized (must be of type {wanted.kind}): {said}")
    return found


def no_object(found: Any) -> str:
    """What Go's decoder says of a document that is no object."""
    return f"json: cannot unmarshal {go_type(found)} into Go value of type {_TYPE_META}"


def check_identity(obj: Object, kind: Kind) -> None:
    """Fill in apiVersion and kind where they are missing; refuse others than the kind's.

    Raises:
        StatusError: 400.
    """
    wanted = kind.resource
    version, name = obj.get("apiVersion") or "", obj.get("kind") or ""
    if not isinstance(version, str) or not isinstance(name, str):
        raise StatusError.bad_request("apiVersion and kind must be strings")
    version, name = version or wanted.api_version, name or wanted.kind
    if version != wanted.api_version:
        if kind.custom is None and (version, name) not in _built_in():
            raise StatusError.bad_request(
                f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {wanted.kind}: '
                f'no kind "{name}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
            )
        if kind.custom is None:
            converting = f"({version.rpartition('/')[2]}.{name}) to ({_internal_group(wanted.group)}.{wanted.kind})"
            raise StatusError.bad_request(
                f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {wanted.kind}: '
                f"converting {converting}: unknown conversion"
            )
        raise StatusError.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({wanted.api_version})"
        )
    if name != wanted.kind and kind.custom is not None:
        meta = obj.get("metadata") or {}
        raise StatusError.invalid(
            wanted.group, name, meta.get("name", ""), [invalid("kind", name, f"must be {wanted.kind}")]
        )
    if name != wanted.kind:
        if (version, name) not in _built_in():
            raise StatusError.bad_request(
                f'{name} in version "{wanted.version}" cannot be handled as a {wanted.kind}: '
                f'no kind "{name}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
            )
        converting = f"({wanted.version}.{name}) to ({_internal_group(wanted.group)}.{wanted.kind})"
        raise StatusError.bad_request(
            f'{name} in version "{wanted.version}" cannot be handled as a {wanted.kind}: '
            f"converting {converting}: unknown conversion"
        )
    obj["apiVersion"], obj["kind"] = version, name
    if not isinstance(obj.setdefault("metadata", {}), dict):
        if obj["metadata"] is not None:
            raise StatusError.bad_request(
                f'{name} in version "{wanted.version}" cannot be handled as a {wanted.kind}: '
                f"json: cannot unmarshal {go_type(obj['metadata'])} into Go struct field {name}.metadata of type "
                "v1.ObjectMeta"
            )
        obj["metadata"] = {}


@lru_cache(maxsize=1)
def _built_in() -> frozenset[tuple[str, str]]:
    from kajitori.embedded.apiserver.builtin import built_in_kinds

    return frozenset((one.resource.api_version, one.resource.kind) for one in built_in_kinds())


def _internal_group(group: str) -> str:
    """The package of a group's types; Events of both groups are one type of core."""
    return "core" if group in ("", "events.k8s.io") else group.partition(".")[0]


def duplicate_fields(body: bytes, content_type: str, decoded: Object) -> list[str]:
    """Fields that stand twice in a JSON body, as Kubernetes names them: `duplicate field "data.a"`."""
    if content_type.partition(";")[0].strip().lower() not in (JSON, ""):
        return []
    # Nothing was lost where the compact form is as long as the body: that spares the slow way for most bodies.
    if len(encode_json(decoded)) == len(body):
        return []
    return [f'duplicate field "{path}"' for path in repeated_keys(body)]


def report_unknown(kind: Kind, faults: list[str], validation: str, warnings: list[str], version: str = "") -> None:
    """Warn of fields that a kind does not know, or refuse them, as `fieldValidation` says (Ignore, Warn, Strict).

    Raises:
        StatusError: 400, with `Strict`.
    """
    if not faults or validation == "Ignore":
        return
    if validation == "Strict":
        name, said = kind.resource.kind, f"strict decoding error: {', '.join(faults)}"
        raise StatusError.bad_request(
            f'{name} in version "{version or kind.resource.version}" cannot be handled as a {name}: {said}'
        )
    warnings.extend(one for one in faults if one not in warnings)


def go_error(body: bytes) -> str:
    """What Go's decoder says of a text that is no JSON."""
    # Go counts and shows bytes.
    text = body.decode("latin-1")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        place = len(text) if error.msg.startswith("Unterminated") else error.pos
        if place >= len(text):
            return "unexpected end of JSON input"
        pair = "after object key:value pair" if _in_object(text[:place]) else "after array element"
        where = {
            "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
            "Expecting value": "looking for beginning of value",
            "Expecting ':' delimiter": "after object key",
            "Extra data": "after top-level value",
            "Expecting ',' delimiter": pair,
        }.get(error.msg, "in string literal")
        return f"invalid character '{text[place]}' {where}"
    return "invalid JSON"


def _summary(body: bytes) -> str:
    """The beginning of a body, as messages show it (`summarizeData`)."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SUMMARY_BYTES else ""
    beginning = body[:_SUMMARY_BYTES]
    return (beginning.decode(errors="replace") if body.startswith(b"{") else beginning.hex()) + more


def _in_object(text: str) -> bool:
    """Whether a piece of JSON ends inside an object, rather than an array."""
    depth: list[str] = []
    quoted = escaped = False
    for character in text:
        if quoted:
            quoted = character != '"' or escaped
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted = True
        elif character in "{[":
            depth.append(character)
        elif character in "}]" and depth:
            depth.pop()
    return bool(depth) and depth[-1] == "{"
