"""Which images may run: the policy file's section `images`, as types; how an image is called in full."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field

from kajitori.core.fields import ObjectName
from kajitori.core.validation import Document


class Images(Document):
    """Which images may run, and how they are fetched."""

    allow: list[str] = Field(default_factory=list)
    """Patterns; an image must match one of them, where there are any. `*` stands for any text, slashes too. A pattern
    is compared with the image as it was written and in full (`docker.io/library/python:3.11`)."""
    deny: list[str] = Field(default_factory=list)
    """Patterns of images that are refused, even if they are allowed above."""
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = ""
    """Left empty, Kubernetes' own rule holds: Always for the tag latest."""
    pull_secrets: list[ObjectName] = Field(default_factory=list)
    """Names of Secrets in the run's namespace."""

    def refusal(self, image: str) -> str:
        """Why this image may not run; empty if it may."""
        forms = {image, full_image_name(image)}
        for pattern in self.deny:
            if any(fnmatchcase(form, pattern) for form in forms):
                return f"images like {pattern} are refused"
        allowed = self.allow
        if allowed and not any(fnmatchcase(form, pattern) for form in forms for pattern in allowed):
            return "only some images are allowed"
        return ""


def full_image_name(image: str) -> str:
    """The image as Docker completes it, with registry, path and tag: `docker.io/library/python:latest` for `python`."""
    first, slash, _ = image.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        image = f"docker.io/{image}" if slash else f"docker.io/library/{image}"
    if "@" not in image and ":" not in image.rsplit("/", 1)[-1]:
        image += ":latest"
    return image
