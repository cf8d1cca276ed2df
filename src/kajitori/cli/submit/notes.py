"""What a person is told of the findings about a run that he submits: as little as he has to know."""

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
"""Nothing that was asked for turns out otherwise by these; `kaji run --dry-run` and `kaji describe` show them."""

_WARNINGS = frozenset({"MemoryBelowPeak", "MemoryRanOut"})
"""What is likely to end the run."""

MORE = "kaji run --dry-run tells more"


def notes(findings: Iterable[Mapping[str, Any]], *, all_of_them: bool = False) -> list[str]:
    """Lines to say: each risk and each change on its own, and the defaults that were used together on one.

    With `all_of_them`, for a dry run, every finding appears.
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
