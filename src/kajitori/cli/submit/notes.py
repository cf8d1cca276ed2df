"""The notes that `kaji run` prints about a submitted run: only findings that the user has to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_AS_EXPECTED = frozenset(
    {
        "QosGuaranteed",
        "PriorityDefaulted",
        "EnvDefaulted",
        "EnvAdded",
        "LabelsAdded",
        "AnnotationsAdded",
        "NodeSelectorAdded",
        "TolerationsAdded",
        "ResourcesAdded",
        "RuntimeClassSet",
        "SchedulerSet",
        "SecurityRestricted",
        "CheckpointSizeUnused",
        "ShmOfTheMachine",
        "MemoryEnough",
        "MayGiveBack",
        "NetworkRestricted",
    }
)
"""Codes of findings that change nothing the user asked for; `kaji run --dry-run` and `kaji describe` show them."""

_WARNINGS = frozenset({"MemoryBelowPeak", "MemoryRanOut"})
"""Codes of findings about risks that probably end the run."""

MORE = "kaji run --dry-run tells more"


def notes(findings: Iterable[Mapping[str, Any]], *, all_of_them: bool = False) -> list[str]:
    """Return the lines to print: one for each risk and each change, and one for all defaults together.

    `all_of_them`, for a dry run, includes every finding.
    """
    lines, defaults = [], []
    for finding in findings:
        code, message = str(finding.get("code", "")), str(finding.get("message", ""))
        if code in _AS_EXPECTED and not all_of_them:
            continue
        if code.endswith("Defaulted"):
            defaults.append(message)
        else:
            lines.append(f"{'warning' if code in _WARNINGS else 'note'}: {message}")
    if defaults:
        lines.append(f"note: defaults: {', '.join(defaults)}{'' if all_of_them else f'; {MORE}'}")
    return lines
