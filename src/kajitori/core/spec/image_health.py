"""Health checks as Docker writes them: that of an image (HEALTHCHECK) becomes a run's `health`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from kajitori.core.spec.parts import HealthCheck

HEALTH_TIMES = {
    "Interval": "interval",
    "Timeout": "timeout",
    "StartPeriod": "startPeriod",
    "StartInterval": "startInterval",
}
"""Times of a health check in Docker's API, in nanoseconds, and their fields in the spec's `health`."""

NANOSECONDS = 10**9


def whole_seconds(nanoseconds: int) -> str:
    """Return the duration that kubelets can keep: `2s` for 1.5 seconds."""
    return f"{-(-nanoseconds // NANOSECONDS)}s"


def command_of(kind: str, words: Sequence[str]) -> str | list[str]:
    """Return the command of a check of the kind `CMD` or `CMD-SHELL`."""
    if kind == "CMD-SHELL" and len(words) == 1:
        return words[0]
    return ["/bin/sh", "-c", *words] if kind == "CMD-SHELL" else list(words)


def health_of_image(check: Mapping[str, Any]) -> HealthCheck | None:
    """Return the check that an image's `Healthcheck` stands for; None if it checks nothing, or nothing valid."""
    kind, *words = check.get("Test") or [""]
    if kind not in ("CMD", "CMD-SHELL") or not any(words):
        return None
    times = {field: whole_seconds(int(check[name])) for name, field in HEALTH_TIMES.items() if check.get(name)}
    retries = {"retries": check["Retries"]} if check.get("Retries") else {}
    try:
        return HealthCheck.model_validate({"command": command_of(kind, words), **times, **retries})
    except ValidationError:
        return None
