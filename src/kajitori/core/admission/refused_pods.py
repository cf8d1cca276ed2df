"""Classification of the API server's refusals of members' Pods: a reason of ours, and a message that names the cause.

The patterns match messages of Kubernetes' admission plugins: `plugin/pkg/admission/limitranger`, `resourcequota`, and
`apiserver/pkg/admission/plugin/webhook`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kajitori.core.spec.reasons import Reason

_QUOTA = re.compile(r"exceeded quota|failed quota|status unknown for quota|insufficient quota")
_WEBHOOK = re.compile(r"failed calling webhook|admission webhook \S+ denied the request")
_BOUND = re.compile(r"(minimum|maximum) (\S+) usage per (\w+) is")
_RATIO = re.compile(r"(\S+) max limit to request ratio per (\w+) is")
_DEFAULT = re.compile(r"must be less than or equal to (\S+) limit")
_KINDS = {"minimum": "min", "maximum": "max"}


def reason_of_refusal(message: str) -> Reason:
    """Return our reason for a refusal with this message."""
    return Reason.QUOTA if _QUOTA.search(message) else Reason.ADMISSION


def is_webhook_failure(message: str) -> bool:
    """Whether an error of the API server comes from a webhook that refused, could not be reached, or timed out."""
    return _WEBHOOK.search(message) is not None


def may_be_limit_range(message: str) -> bool:
    """Whether a LimitRange may have caused a refusal. The message of such a refusal does not name the LimitRange."""
    return bool(_BOUND.search(message) or _RATIO.search(message) or _DEFAULT.search(message))


def name_limit_ranges(message: str, ranges: Iterable[Mapping[str, Any]]) -> str:
    """Return the message with the names of those LimitRanges of the namespace that may have caused it."""
    wanted = {(match[3], _KINDS[match[1]], match[2]) for match in _BOUND.finditer(message)}
    wanted |= {(match[2], "maxLimitRequestRatio", match[1]) for match in _RATIO.finditer(message)}
    wanted |= {("Container", "default", match[1]) for match in _DEFAULT.finditer(message)}
    found = []
    for limit_range in ranges:
        limits = (limit_range.get("spec") or {}).get("limits") or ()
        if any(
            limit.get("type") == kind and name in (limit.get(key) or {})
            for limit in limits
            for kind, key, name in wanted
        ):
            found.append(str((limit_range.get("metadata") or {}).get("name", "")))
    return f"{message} (LimitRange {', '.join(sorted(found))})" if found else message
