"""Comparison of a request with a run that exists already: does the run have everything that the request asks for?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kajitori.client.submit.request import RunRequest
from kajitori.core.spec.reading.draft import read_draft
from kajitori.core.spec.run import to_document
from kajitori.errors import Fault


def differences(request: RunRequest, spec: Mapping[str, Any]) -> list[Fault]:
    """Return the fields that the request sets and that have another value in the run's spec, in the options' words.

    Amounts are compared, not texts: `1h` equals `60m`. A request or a spec with faults is compared as far as it can be
    read.
    """
    asked, present = read_draft(request.spec).spec, read_draft(dict(spec)).spec
    if asked is None or present is None:
        return []
    written = asked.model_dump(mode="json", exclude_unset=True)
    found = [
        Fault(path, f"it has {_format_value(value)}")
        for path, value in _differences(written, to_document(present, with_defaults=True), "spec")
    ]
    return request.renamed(found)


def _differences(asked: Any, present: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path of each value that is asked for and differs, with the value that is present."""
    if isinstance(asked, dict) and isinstance(present, dict):
        for key, value in asked.items():
            yield from _differences(value, present.get(key), f"{path}.{key}")
    elif isinstance(asked, list) and isinstance(present, list) and len(asked) == len(present):
        for index, value in enumerate(asked):
            yield from _differences(value, present[index], f"{path}[{index}]")
    elif asked != present:
        yield path, present


def _format_value(value: Any) -> str:
    """Return a value of a spec as a person reads it."""
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, list):
        return ", ".join(_format_value(each) for each in value)
    if isinstance(value, dict):
        return " ".join(f"{key}={_format_value(each)}" for key, each in value.items() if each is not None)
    return str(value)
