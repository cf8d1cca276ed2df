"""Which images may run: the policy file's section `images`, as types."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, field_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import ObjectName
from kajitori.core.words.image_names import matches, parse_image_name, what_is_wrong_with_pattern
from kajitori.errors import FieldError


class Images(Document):
    """Which images may run, and how they are fetched."""

    allow: list[str] = Field(default_factory=list)
    """Patterns; an image must match one of them, where there are any. `*` stands for any text, slashes too. Images are
    compared in full, however they are spelled: `python:3.11` is `docker.io/library/python:3.11`, and so are
    `index.docker.io/python:3.11` and `DOCKER.IO:443/library/python:3.11`. Patterns are completed in the same way:
    `python:*` means tags of `docker.io/library/python`, `lab/*` means `docker.io/lab/*`. One without a tag means all
    tags and digests. One that begins with `*` means images of any registry."""
    deny: list[str] = Field(default_factory=list)
    """Patterns of images that are refused, even if they are allowed above."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    """Left empty, Kubernetes' own rule holds: Always for the tag latest."""
    pull_secrets: list[ObjectName] = Field(default_factory=list)
    """Names of Secrets in the run's namespace."""

    @field_validator("allow", "deny")
    @classmethod
    def _patterns(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            if wrong := what_is_wrong_with_pattern(pattern):
                hint = "such as registry.example.org/team/*, python:*, docker.io/* or *:latest"
                raise FieldError(f"{pattern!r:.80}: {wrong}", hint)
        return patterns

    def refusal(self, image: str) -> str:
        """Why this image may not run; empty if it may. A digest beside a tag says which image is fetched, whatever the
        tag says: so the tag is no reason to allow the image, and remains one to refuse it."""
        name = parse_image_name(image)
        if name is None:
            return "it is no image's name"
        for pattern in self.deny:
            if any(matches(pattern, each) for each in (name, replace(name, digest="") if name.tag else name)):
                return f"images like {pattern} are refused"
        if self.allow and not any(matches(pattern, name) for pattern in self.allow):
            return "only some images are allowed"
        return ""
