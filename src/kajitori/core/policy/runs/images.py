"""Policy for container images: the policy file's section `images`, as types."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, field_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import ObjectName
from kajitori.core.kubernetes.image_names import matches, parse_image_name, pattern_fault
from kajitori.errors import FieldError


class Images(Document):
    """Images that may run, and how they are pulled."""

    allow: list[str] = Field(default_factory=list)
    """Patterns of allowed images. Empty: all images are allowed. `*` matches any text, including slashes. Image names
    are compared in their full form: `python:3.11`, `index.docker.io/python:3.11` and
    `DOCKER.IO:443/library/python:3.11` are all `docker.io/library/python:3.11`. Patterns are completed in the same way:
    `python:*` matches all tags of `docker.io/library/python`, and `lab/*` means `docker.io/lab/*`. A pattern without a
    tag matches all tags and digests. A pattern that begins with `*` matches images of any registry."""
    deny: list[str] = Field(default_factory=list)
    """Patterns of images that are refused, even if `allow` matches them."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    """imagePullPolicy of containers. Empty: Kubernetes' default, which is Always for the tag latest and IfNotPresent
    for all others."""
    pull_secrets: list[ObjectName] = Field(default_factory=list)
    """Names of Secrets in the run's namespace that are used as imagePullSecrets."""
    own_command: bool = True
    """Whether a run that names no command runs the image's own. If not, such a run is refused. `kaji up` knows that it
    has no images without a container engine: its processes are this machine's own programs."""

    @field_validator("allow", "deny")
    @classmethod
    def _patterns(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            if wrong := pattern_fault(pattern):
                hint = "such as registry.example.org/team/*, python:*, docker.io/* or *:latest"
                raise FieldError(f"{pattern!r:.80}: {wrong}", hint)
        return patterns

    def refusal(self, image: str) -> str:
        """Return why policy refuses this image; empty if it allows it.

        If a name has a tag and a digest, the digest alone decides which image is pulled. The tag is therefore ignored
        when the name is compared with `allow`, but still compared with `deny`.
        """
        name = parse_image_name(image)
        if name is None:
            return "it is not a valid image name"
        for pattern in self.deny:
            if any(matches(pattern, form) for form in (name, replace(name, digest="") if name.tag else name)):
                return f"policy denies images that match {pattern}"
        if self.allow and not any(matches(pattern, name) for pattern in self.allow):
            return "no pattern of images.allow in the policy matches it"
        return ""
