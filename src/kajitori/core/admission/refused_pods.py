"""What an API server says when it does not take a member's Pod, as a reason of ours and in words that name who says no.

The words are those of Kubernetes' admission: `plugin/pkg/admission/limitranger`, `resourcequota`, and
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
    """Under which of our reasons a refusal falls."""
    return Reason.QUOTA if _QUOTA.search(message) else Reason.ADMISSION


def is_said_by_webhook(message: str) -> bool:
    """Whether a failure of the API server is a webhook's: it refused, was not to be reached, or took too long."""
    return _WEBHOOK.search(message) is not None


def may_be_limit_range(message: str) -> bool:
    """Whether a LimitRange may be behind a refusal: these never say which one."""
    return bool(_BOUND.search(message) or _RATIO.search(message) or _DEFAULT.search(message))


def name_limit_ranges(message: str, ranges: Iterable[Mapping[str, Any]]) -> str:
    """The refusal, with the names of those LimitRanges of the namespace that it may come from."""
    wanted = {(match[3], _KINDS[match[1]], match[2]) for match in _BOUND.finditer(message)}
    wanted |= {(match[2], "maxLimitRequestRatio", match[1]) for match in _RATIO.finditer(message)}
    wanted |= {("Container", "default", match[1]) for match in _DEFAULT.finditer(message)}
    found = []
    for each in ranges:
        limits = (each.get("spec") or {}).get("limits") or ()
        if any(
            limit.get("type") == kind and name in (limit.get(key) or {})
            for limit in limits
            for kind, key, name in wanted
        ):
            found.append(str((each.get("metadata") or {}).get("name", "")))
    return f"{message} (LimitRange {', '.join(sorted(found))})" if found else message
