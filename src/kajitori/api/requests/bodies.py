"""Reading request bodies: their media type and their content."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from kajitori.core.documents.faults import Document, read, show
from kajitori.core.documents.repeated_keys import repeated_keys
from kajitori.errors import Fault, InvalidInput, WrongMediaType

D = TypeVar("D", bound=Document)

JSON = ("application/json",)
MAX_REPEATED_KEYS = 20
"""Largest number of repeated keys that an error names."""

YAML = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "text/plain", *JSON)


def takes(model: type[Document], *, required: bool = True) -> dict[str, Any]:
    """Return what the OpenAPI document says about a request's body: a JSON document of this model, which `json_body`
    reads."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    about: dict[str, Any] = {"content": {JSON[0]: {"schema": schema}}}
    return {"requestBody": {"required": True} | about if required else about}


async def json_body(request: Request) -> Any:
    """Return the JSON document in a request's body. Raises WrongMediaType, or InvalidInput if the body is not JSON."""
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
        message, hint = "is in the body more than once", "keep one of them"
        raise InvalidInput([Fault(show(path), message, "", hint, "Repeated") for path in repeated[:MAX_REPEATED_KEYS]])
    return document


async def body_of(request: Request, model: type[D], *, required: bool = True) -> D:
    """Return the JSON document in a request's body as this model.

    An empty body counts as `{}` unless it is `required`. Raises WrongMediaType, and InvalidInput with all faults.
    """
    document = await json_body(request) if required or (await request.body()).strip() else {}
    content, faults, _ = read(model, document, "")
    if faults or content is None:
        raise InvalidInput(faults)
    return content


async def yaml_body(request: Request) -> bytes:
    """Return the YAML text in a request's body. Raises WrongMediaType."""
    require_media_type(request, YAML)
    return await request.body()


def require_media_type(request: Request, accepted: tuple[str, ...]) -> None:
    """Raise WrongMediaType if the Content-Type is not in `accepted`. A request without a Content-Type passes."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = media_type.startswith("application/") and media_type.endswith("+json")
    if not media_type or media_type in accepted or (accepted is JSON and is_json):
        return
    raise WrongMediaType(
        f"the body's Content-Type is {show(media_type)}; this call takes {accepted[0]}", hint=_hint(accepted)
    )


def _hint(accepted: tuple[str, ...]) -> str:
    return f"send a document with `Content-Type: {accepted[0]}`; /openapi.json describes it"
