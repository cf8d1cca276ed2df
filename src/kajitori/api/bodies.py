"""The bodies of requests: what kind of document they are said to be, and what stands in them."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from kajitori.core.documents.faults import show
from kajitori.core.documents.repeated_keys import repeated_keys
from kajitori.errors import Fault, InvalidInput, WrongMediaType

JSON = ("application/json",)
MOST_NAMED = 20
"""Repeated keys that a refusal names."""

YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain", *JSON)


async def json_body(request: Request) -> Any:
    """The JSON document that a request carries. Raises WrongMediaType, and InvalidInput if it is none."""
    require_media_type(request, JSON)
    body = await request.body()
    if not body.strip():
        raise InvalidInput.one("body", "is empty", hint=_hint(JSON))
    try:
        document = msgspec.json.decode(body)
        repeated = repeated_keys(body)
    except RecursionError:
        raise InvalidInput.one("body", "is nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:  # UnicodeDecodeError, and numbers of thousands of digits
        text = str(error).removeprefix("JSON is malformed: ")
        raise InvalidInput.one("body", f"is not JSON: {text[:1].lower()}{text[1:200]}", hint=_hint(JSON)) from None
    if repeated:
        message, hint = "stands in the body more than once", "keep one of them"
        raise InvalidInput([Fault(show(path), message, "", hint, "Repeated") for path in repeated[:MOST_NAMED]])
    return document


async def yaml_body(request: Request) -> bytes:
    """The YAML text that a request carries. Raises WrongMediaType."""
    require_media_type(request, YAML)
    return await request.body()


def require_media_type(request: Request, known: tuple[str, ...]) -> None:
    """Raises WrongMediaType if the body is said to be of another kind. If nothing is said, it may be the right one."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not said or said in known or (known is JSON and said.startswith("application/") and said.endswith("+json")):
        return
    raise WrongMediaType(f"the body is said to be {show(said)}; this call takes {known[0]}", hint=_hint(known))


def _hint(known: tuple[str, ...]) -> str:
    return f"send a document with `Content-Type: {known[0]}`; /openapi.json describes it"
