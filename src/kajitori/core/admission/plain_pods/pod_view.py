"""A Pod as the rules for everybody's Pods see it: in CEL, and as an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kajitori.core.admission.plain_pods.expressions import cel
from kajitori.core.policy.model import Policy

Object = Mapping[str, Any]

VARIABLES: tuple[tuple[str, str], ...] = (
    ("containers", "variables.spec.containers + variables.spec.?initContainers.orValue([])"),
    ("all", "variables.containers + variables.spec.?ephemeralContainers.orValue([])"),
    (
        "concurrent",
        "variables.spec.containers + variables.spec.?initContainers.orValue([])"
        ".filter(c, c.?restartPolicy.orValue('') == 'Always')",
    ),
)
"""Names and values of variables that all rules use, after `spec` (the Pod's spec) and `fromDaemonSet`."""


@dataclass(frozen=True, slots=True)
class PodView:
    """A Pod, or a Pod that a template would become, with the lists that the rules use."""

    spec: Object
    from_daemon_set: bool = False

    @property
    def containers(self) -> list[Object]:
        """All containers but ephemeral ones."""
        return [*self.spec["containers"], *(self.spec.get("initContainers") or ())]

    @property
    def all(self) -> list[Object]:
        """All containers."""
        return [*self.containers, *(self.spec.get("ephemeralContainers") or ())]

    @property
    def concurrent(self) -> list[Object]:
        """Containers that run at the same time for as long as the Pod runs."""
        steps = self.spec.get("initContainers") or ()
        return [*self.spec["containers"], *(step for step in steps if step.get("restartPolicy") == "Always")]


def wants_gpus(policy: Policy) -> str:
    """Return the expression for whether a Pod asks for GPUs or for parts of some, with `variables` as in `VARIABLES`.

    A Pod with ResourceClaims counts as asking for GPUs, because only another object tells what a claim is for.
    """
    slices = cel(_slices_of(policy))
    named = f"n == {cel(policy.gpu.resource)} || n == {cel(_shared_of(policy))} || n.startsWith({slices})"
    limits = "c.?resources.?limits"
    asked = f"{limits}.orValue({{}}).exists(n, ({named}) && string({limits}[?n].orValue('0')) != '0')"
    return f"(size(variables.spec.?resourceClaims.orValue([])) > 0 || variables.containers.exists(c, {asked}))"


def wants_whole_gpus(policy: Policy) -> str:
    """Return the expression for whether a Pod asks for the policy's GPU resource, which says nothing of a type."""
    resource = cel(policy.gpu.resource)
    return f"variables.containers.exists(c, string(c.?resources.?limits[?{resource}].orValue('0')) != '0')"


def asks_for_gpus(pod: PodView, policy: Policy) -> bool:
    """Return whether a Pod asks for GPUs or for parts of some; the same rule as `wants_gpus`."""
    whole, shared, slices = policy.gpu.resource, _shared_of(policy), _slices_of(policy)
    return bool(pod.spec.get("resourceClaims")) or any(
        (name in (whole, shared) or name.startswith(slices)) and str(amount) != "0"
        for c in pod.containers
        for name, amount in ((c.get("resources") or {}).get("limits") or {}).items()
    )


def asks_for_whole_gpus(pod: PodView, policy: Policy) -> bool:
    """Return whether a Pod asks for the policy's GPU resource."""
    return any(str(limit_of(c, policy.gpu.resource) or "0") != "0" for c in pod.containers)


def _shared_of(policy: Policy) -> str:
    """Return the extended resource of shared GPUs, as NVIDIA's device plugin names it."""
    return f"{policy.gpu.resource}.shared"


def _slices_of(policy: Policy) -> str:
    """Return how extended resources of MIG slices begin, as NVIDIA's device plugin names them."""
    return f"{policy.gpu.resource.partition('/')[0]}/mig-"


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IS_PINNED = (
    f"variables.spec.?affinity.?nodeAffinity.?{REQUIRED}.?nodeSelectorTerms.orValue([])"
    ".exists(t, t.?matchFields.orValue([]).exists(f, f.key == 'metadata.name'))"
)
"""The expression for whether the Pod names its node, as members of runs do."""


def is_pinned(pod: PodView) -> bool:
    """Return whether the Pod names its node, as members of runs do."""
    return any(
        field["key"] == "metadata.name"
        for term in _required_terms(pod) or ()
        for field in term.get("matchFields") or ()
    )


def avoids(pod: PodView, labels: Sequence[str]) -> bool:
    """Return whether each alternative of the Pod's required node affinity excludes nodes with each of these labels."""
    terms = _required_terms(pod)
    if terms is None:
        return False
    return all(
        any(e["key"] == label and e["operator"] == "DoesNotExist" for e in term.get("matchExpressions") or ())
        for term in terms
        for label in labels
    )


def _required_terms(pod: PodView) -> list[Object] | None:
    """Return the alternatives of the Pod's required node affinity; None if it has none."""
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[Object] | None = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms")
    return terms


def limit_of(container: Object, resource: str) -> Any:
    """Return the limit of a container, or of a Pod's spec, for a resource; None without one."""
    return ((container.get("resources") or {}).get("limits") or {}).get(resource)


def request_of(container: Object, resource: str) -> Any:
    """Return the request of a container, or of a Pod's spec, for a resource; None without one."""
    return ((container.get("resources") or {}).get("requests") or {}).get(resource)


def security_of(container: Object) -> Object:
    """Return the security context of a container, which may be empty."""
    return container.get("securityContext") or {}
