"""Templates of runs: the policy file's section `templates`, as types."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import DnsLabel
from kajitori.core.spec.reading.draft import read_draft
from kajitori.errors import FieldError

_STAND_IN_IMAGE = {"image": "image"}


class Template(Document):
    """A run to begin with: `kaji run --template NAME`, or the form of the web page."""

    description: str = Field(default="", max_length=200)
    """Purpose, in a sentence."""
    teams: list[DnsLabel] = Field(default_factory=list, max_length=100)
    """The form offers it to members of these teams. Left out: to everybody. It is a choice, not a permission: users may
    write the same spec by hand."""
    spec: dict[str, Any]
    """Part of a Run's spec (docs/reference/run.md). Options of the user have precedence. The run is checked like any
    other when it is submitted."""

    @field_validator("spec")
    @classmethod
    def _is_part_of_a_run(cls, spec: dict[str, Any]) -> dict[str, Any]:
        faults = read_draft(_STAND_IN_IMAGE | spec).faults
        if faults:
            found = "; ".join(f"{fault.field}: {fault.message}" for fault in faults)
            raise FieldError(found, faults[0].hint or "see docs/reference/run.md")
        return spec
