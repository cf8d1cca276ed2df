"""What every member gets and may do: the policy file's sections `inject`, `security` and `gpu`, as types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import ANY_NUMBER, EnvName, LabelKey, LabelValue, ObjectName, Text, User
from kajitori.core.spec.run import Toleration
from kajitori.core.words.names import GPU_RESOURCE, GROUP
from kajitori.core.words.quantities import parse_memory_bytes
from kajitori.errors import FieldError


class Inject(Document):
    """What is added to every member."""

    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[LabelKey, Text] = Field(default_factory=dict)
    """Annotations."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables that a run cannot overrule. Written as Kubernetes reads them: `$(NAME)` is replaced."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: list[Toleration] = Field(default_factory=list)
    """Taints that members are placed in spite of."""
    runtime_class: ObjectName | None = None
    """The RuntimeClass that runs them."""
    scheduler_name: ObjectName | None = None
    """Who binds members to the nodes that were planned; left out: the cluster's default scheduler."""
    resources: dict[LabelKey, Annotated[str, Field(json_schema_extra=ANY_NUMBER)]] = Field(default_factory=dict)
    """Further resources, such as hugepages-1Gi: 4Gi; requested and limited alike."""

    @field_validator("resources")
    @classmethod
    def _amounts(cls, resources: dict[str, str]) -> dict[str, str]:
        return _checked_amounts(resources)


class Security(Document):
    """What a member's processes may do."""

    allow_root: bool = False
    """Whether a program may run as uid 0. If not, an image whose user is root does not start."""
    allow_privileged: bool = False
    """Whether a program may have all of its node's devices and rights."""
    allow_host_network: bool = False
    """Whether members may share the network of their node."""
    allow_secrets: list[str] = Field(default_factory=lambda: ["*"])
    """Patterns of the Secrets of a run's namespace that it may use. Whoever may create Runs there can read these."""
    refuse_tolerations: list[str] = Field(
        default_factory=lambda: [
            "node-role.kubernetes.io/*",
            "node.kubernetes.io/*",
            "node.cloudprovider.kubernetes.io/*",
            f"{GROUP}/*",
        ]
    )
    """Patterns of taints that a run's own tolerations may not name: those of control planes, and those that say how a
    node is today, ours among them."""
    default_user: User | None = None
    """uid or uid:gid where a run names none; left out: the image's."""
    allow_privilege_escalation: bool = False
    """Whether setuid programs such as sudo work."""
    drop_capabilities: list[str] = Field(default_factory=lambda: ["ALL"])
    """Capabilities that are taken away."""
    add_capabilities: list[str] = Field(default_factory=list)
    """Such as IPC_LOCK for RDMA."""
    seccomp_profile: Literal["RuntimeDefault", "Unconfined", ""] = "RuntimeDefault"
    """Left empty: the node's own."""
    read_only_root: bool = False
    """Whether the image's own files cannot be written."""
    fs_group: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """The group that owns the files of mounted volumes."""


class Gpu(Document):
    """How GPUs are found and named."""

    resource: LabelKey = GPU_RESOURCE
    """What Kubernetes calls them."""
    type_labels: list[LabelKey] = Field(
        default_factory=lambda: ["kajitori.dev/gpu-type", "nvidia.com/gpu.product", "amd.com/gpu.product-name"]
    )
    """Labels of a node that tell its GPUs' type; the first that a node has counts."""
    types: dict[str, list[str]] = Field(
        default_factory=lambda: {
            "b200": ["*B200*"],
            "h200": ["*H200*"],
            "h100": ["*H100*"],
            "a100": ["*A100*"],
            "l40s": ["*L40S*"],
            "l4": ["*-L4", "L4"],
            "a10": ["*-A10", "A10", "*-A10G", "A10G"],
            "v100": ["*V100*"],
            "t4": ["*-T4", "T4"],
        }
    )
    """Friendly names, each with the patterns of what such labels say; the first that matches counts. A product without
    one is called by its own name in lower case, without the vendor's."""
    cpu_runs_on_gpu_nodes: Literal["never", "whenNoOthers", "always"] = "whenNoOthers"
    """Whether runs without GPUs may take a node that has some. whenNoOthers: only if the cluster has no other nodes."""
    tolerations: list[Toleration] = Field(
        default_factory=lambda: [Toleration(key=GPU_RESOURCE, operator="Exists", effect="NoSchedule")]
    )
    """Taints of GPU nodes that runs with GPUs are placed in spite of."""
    resources: dict[LabelKey, str] = Field(default_factory=dict)
    """Further resources of members with GPUs, such as rdma/hca: 1; requested and limited alike."""

    @field_validator("resources")
    @classmethod
    def _amounts(cls, resources: dict[str, str]) -> dict[str, str]:
        return _checked_amounts(resources)

    def type_of(self, labels: Mapping[str, str]) -> str:
        """The friendly name of the GPU type of a node with these labels; empty if none of them tells."""
        product = next((labels[key] for key in self.type_labels if labels.get(key)), "")
        folded = product.casefold()
        for name, patterns in self.types.items():
            if folded == name.casefold() or any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns):
                return name
        plain = re.sub(r"[^a-z0-9.]+", "-", folded).strip("-.")
        return re.sub(r"^(nvidia|amd|tesla|intel)-+", "", plain)


def _checked_amounts(resources: dict[str, Any]) -> dict[str, Any]:
    for name, amount in resources.items():
        if name in ("cpu", "memory"):
            raise FieldError(f"{name} is not added to what a run asks for", "use defaults or ceilings")
        parse_memory_bytes(amount)
    return resources
