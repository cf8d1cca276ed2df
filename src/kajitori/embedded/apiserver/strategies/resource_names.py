"""Names of resources: `cpu`, `requests.storage`, `nvidia.com/gpu` (pkg/apis/core/helper, core/validation)."""

from __future__ import annotations

from kajitori.core.words import texts
from kajitori.embedded.apiserver.causes import Cause, invalid

COMPUTE = ("cpu", "memory", "ephemeral-storage")
_STANDARD = frozenset(
    {
        *COMPUTE,
        *(f"requests.{name}" for name in COMPUTE),
        *(f"limits.{name}" for name in COMPUTE),
        "storage",
        "requests.storage",
        "pods",
        "resourcequotas",
        "services",
        "services.nodeports",
        "services.loadbalancers",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
    }
)


def resource_faults(name: str, field: str) -> list[Cause]:
    """What is wrong with the name of any resource."""
    causes = [invalid(field, name, fault) for fault in texts.qualified_name(name)]
    huge = name.startswith(("hugepages-", "requests.hugepages-"))
    if not causes and "/" not in name and name not in _STANDARD and not huge:
        causes.append(invalid(field, name, "must be a standard resource type or fully qualified"))
    return causes


def container_resource_faults(name: str, field: str) -> list[Cause]:
    """What is wrong with the name of a resource that a container may ask for."""
    causes = resource_faults(name, field)
    if "/" not in name:
        if name not in COMPUTE and not name.startswith("hugepages-"):
            causes.append(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended_name(name):
        causes.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return causes


def is_native(name: str) -> bool:
    """Kubernetes' own: without a domain, or in one of its."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_name(name: str) -> bool:
    """Somebody else's: devices, licences."""
    return not is_native(name) and not name.startswith("requests.") and not texts.qualified_name(f"requests.{name}")
