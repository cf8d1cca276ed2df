"""Media types: negotiation, reading of bodies, writing of answers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from kajitori.core.documents.fast_yaml import LOADER
from kajitori.core.documents.repeated_keys import repeated_keys
from kajitori.embedded.apiserver.causes import invalid
from kajitori.embedded.apiserver.kinds import Kind
from kajitori.embedded.apiserver.schemas import protobuf
from kajitori.embedded.apiserver.schemas.conform import type_name
from kajitori.embedded.apiserver.schemas.nesting import TooDeep, check_depth, decode_json, decode_yaml
from kajitori.embedded.apiserver.schemas.schema import Object
from kajitori.embedded.apiserver.status import StatusError

JSON = "application/json"
YAML = "application/yaml"
SERVED = (JSON, YAML)
_WILDCARDS = ("*/*", "application/*")

encode_json = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Format:
    """The format of an answer."""

    media_type: str = JSON
    shape: str = ""
    """"Table", "PartialObjectMetadata", or "" for the objects themselves."""
    pretty: bool = False
    of_list: bool = False
    """Whether the shape was requested as that of a list."""

    def write(self, value: Any) -> bytes:
        """Encode a document in this format."""
        return self.rewrite(encode_json(value))

    def rewrite(self, encoded: bytes) -> bytes:
        """Convert a document that is already JSON to this format."""
        if self.media_type == YAML:
            return yaml.safe_dump(msgspec.json.decode(encoded), sort_keys=True, allow_unicode=True).encode()
        return msgspec.json.format(encoded, indent=2) + b"\n" if self.pretty else encoded


def negotiate(accept: str, query: Mapping[str, str], user_agent: str) -> Format:
    """Return the format that an `Accept` header asks for.

    Raises:
        StatusError: 406, none of its media types is served.
    """
    pretty = _wants_pretty(query, user_agent)
    if not accept:
        return Format(pretty=pretty)
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
    raise StatusError.not_acceptable((JSON, YAML, protobuf.MEDIA_TYPE))


def _wants_pretty(query: Mapping[str, str], user_agent: str) -> bool:
    asked = query.get("pretty")
    if asked is not None:
        return asked.lower() not in ("", "0", "false")
    return user_agent.startswith(("curl", "Wget", "Mozilla/5.0"))


class _PlainLoader(LOADER):  # type: ignore[misc]
    """YAML with the types of JSON: dates stay text."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_body(body: bytes, content_type: str) -> Any:
    """Parse a body.

    Raises:
        ValueError: it cannot be parsed.
        StatusError: 415, unsupported media type.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in (JSON, ""):
        return decode_json(body)
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


def read_object(body: bytes, content_type: str, kind: Kind) -> Object:
    """Return the object in a body (`check_identity` checks its kind).

    Raises:
        StatusError: 400, the body is no object; 415.
    """
    wanted = kind.resource
    if kind.custom is not None and content_type.startswith(protobuf.MEDIA_TYPE):
        raise StatusError.unsupported_media_type((JSON, YAML))
    try:
        found = parse_body(body, content_type)
    except ValueError as error:
        raise StatusError.bad_request(f"the body is no {wanted.kind}: {error}") from error
    if not isinstance(found, dict | None):
        raise StatusError.bad_request(f"the body is no {wanted.kind}: {not_an_object(found)}")
    found = found or {}
    if kind.custom is not None and not (found.get("kind") and found.get("apiVersion")):
        missing = "apiVersion" if found.get("kind") else "kind"
        raise StatusError.bad_request(f"the body is no {wanted.kind}: it has no {missing}")
    return found


def not_an_object(found: Any) -> str:
    """Return the message about a document that is not an object."""
    return f"expected an object, not {type_name(found)}"


def check_identity(obj: Object, kind: Kind) -> None:
    """Fill in a missing apiVersion and kind, and check that they are the kind's.

    Raises:
        StatusError: 400.
    """
    wanted = kind.resource
    if not isinstance(obj.get("apiVersion"), str | None) or not isinstance(obj.get("kind"), str | None):
        raise StatusError.bad_request("apiVersion and kind must be strings")
    version, name = obj.get("apiVersion") or wanted.api_version, obj.get("kind") or wanted.kind
    if name != wanted.kind and kind.custom is not None and version == wanted.api_version:
        object_name = (obj.get("metadata") or {}).get("name", "")
        raise StatusError.invalid(wanted.group, name, object_name, [invalid("kind", name, f"must be {wanted.kind}")])
    if version != wanted.api_version and kind.custom is not None:
        raise StatusError.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({wanted.api_version})"
        )
    if (version, name) != (wanted.api_version, wanted.kind):
        raise StatusError.unreadable(wanted, f"the data is a {name} of {version}")
    obj["apiVersion"], obj["kind"] = version, name
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict | None):
        raise StatusError.unreadable(wanted, f"metadata: expected an object, not {type_name(metadata)}")
    obj["metadata"] = metadata or {}


def duplicate_fields(body: bytes, content_type: str, decoded: Object) -> list[str]:
    """Return the repeated fields of a JSON body, as Kubernetes names them: `duplicate field "data.a"`."""
    if content_type.partition(";")[0].strip().lower() not in (JSON, ""):
        return []
    # If the compact form is as long as the body, no field was repeated. This is fast and covers most bodies.
    if len(encode_json(decoded)) == len(body):
        return []
    return [f'duplicate field "{path}"' for path in repeated_keys(body)]


def report_unknown(kind: Kind, faults: list[str], validation: str, warnings: list[str]) -> None:
    """Warn of fields that a kind does not know, or refuse them, as `fieldValidation` says (Ignore, Warn, Strict).

    Raises:
        StatusError: 400, with `Strict`.
    """
    if not faults or validation == "Ignore":
        return
    if validation == "Strict":
        raise StatusError.bad_request(f"{kind.resource.kind}: strict decoding error: {', '.join(faults)}")
    warnings.extend(one for one in faults if one not in warnings)
