"""Policy for the Pods of members: the policy file's sections `inject`, `security` and `gpu`, as types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import ANY_NUMBER, EnvName, LabelKey, LabelValue, ObjectName, Text, User
from kajitori.core.formats.quantities import parse_memory_bytes
from kajitori.core.naming.names import GPU_RESOURCE, GROUP
from kajitori.core.spec.parts import Toleration
from kajitori.errors import FieldError


class Inject(Document):
    """Settings that are added to the Pod of every member."""

    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[LabelKey, Text] = Field(default_factory=dict)
    """Annotations."""
    env: dict[EnvName, Text] = Field(default_factory=dict)
    """Environment variables that a run cannot override. As in a Pod, `$(NAME)` is replaced by that variable's value."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: list[Toleration] = Field(default_factory=list)
    """Node taints that all members tolerate."""
    runtime_class: ObjectName | None = None
    """RuntimeClass of the Pods."""
    scheduler_name: ObjectName | None = None
    """Scheduler that binds members to their planned nodes. Left out: the cluster's default scheduler."""
    resources: dict[LabelKey, Annotated[str, Field(json_schema_extra=ANY_NUMBER)]] = Field(default_factory=dict)
    """Additional resources, for example hugepages-1Gi: 4Gi. The request and the limit are the same."""

    @field_validator("resources")
    @classmethod
    def _amounts(cls, resources: dict[str, str]) -> dict[str, str]:
        return _checked_amounts(resources)


class Security(Document):
    """Privileges of the processes of members."""

    allow_root: bool = False
    """True: a program may run as uid 0. False: a member with an image that runs as root does not start, unless the run
    names another user."""
    allow_privileged: bool = False
    """Whether a program may run privileged, with access to all devices of its node."""
    allow_host_network: bool = False
    """Whether members may use the network of their node."""
    allow_secrets: list[str] = Field(default_factory=lambda: ["*"])
    """Name patterns of the Secrets that a run may use from its namespace. Users who may create Runs in a namespace can
    read these Secrets."""
    refuse_tolerations: list[str] = Field(
        default_factory=lambda: [
            "node-role.kubernetes.io/*",
            "node.kubernetes.io/*",
            "node.cloudprovider.kubernetes.io/*",
            f"{GROUP}/*",
        ]
    )
    """Key patterns of taints that a run may not tolerate. By default these are the taints of control planes, and taints
    for the current state of a node, including Kajitori's own."""
    run_changes: Literal["anyone", "owner"] = "anyone"
    """The users who may stop, change and delete a run. anyone: all who may change runs in its namespace. owner: only
    the user who submitted it, and users with the verb `administer` on runs, such as team leads and operators. A run
    without an owner can be changed by all. The API server enforces it with an admission policy, for all its clients."""
    default_user: User | None = None
    """uid or uid:gid for runs that name no user. Left out: the image's user."""
    allow_privilege_escalation: bool = False
    """Whether setuid programs, for example sudo, work."""
    drop_capabilities: list[str] = Field(default_factory=lambda: ["ALL"])
    """Linux capabilities that containers lose."""
    add_capabilities: list[str] = Field(default_factory=list)
    """Linux capabilities that containers gain, for example IPC_LOCK for RDMA."""
    seccomp_profile: Literal["RuntimeDefault", "Unconfined", ""] = "RuntimeDefault"
    """seccomp profile of containers. Empty: the node's default."""
    read_only_root: bool = False
    """Whether the root file system of containers is read-only."""
    fs_group: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """Group ID that owns the files of mounted volumes."""


class Gpu(Document):
    """How GPUs are discovered and named."""

    resource: LabelKey = GPU_RESOURCE
    """Kubernetes resource name of GPUs."""
    type_labels: list[LabelKey] = Field(
        default_factory=lambda: ["kajitori.dev/gpu-type", "nvidia.com/gpu.product", "amd.com/gpu.product-name"]
    )
    """Node labels that contain the type of the node's GPUs. The first one that a node has is used."""
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
    """GPU types, each with patterns for the values of these labels. The first match is used. A product without a match
    is named by its label's value in lower case, without the vendor's name."""
    drivers: list[str] = Field(default_factory=lambda: ["gpu.*"])
    """Name patterns of the drivers of dynamic resource allocation that publish GPUs, such as gpu.nvidia.com and
    gpu.amd.com. The types of their GPUs come from the devices' attributes; `types` applies to the product's name, with
    dashes for spaces."""
    cpu_runs_on_gpu_nodes: Literal["never", "whenNoOthers", "always"] = "whenNoOthers"
    """Whether runs without GPUs may be placed on nodes with GPUs. whenNoOthers: only if the cluster has no other
    nodes."""
    tolerations: list[Toleration] = Field(
        default_factory=lambda: [Toleration(key=GPU_RESOURCE, operator="Exists", effect="NoSchedule")]
    )
    """Taints of GPU nodes that members with GPUs tolerate."""
    resources: dict[LabelKey, str] = Field(default_factory=dict)
    """Additional resources of members with GPUs, for example rdma/hca: 1. The request and the limit are the same."""

    @field_validator("resources")
    @classmethod
    def _amounts(cls, resources: dict[str, str]) -> dict[str, str]:
        return _checked_amounts(resources)

    def type_of(self, labels: Mapping[str, str]) -> str:
        """Return the GPU type of a node with these labels, as users write it; empty if no label contains it."""
        return self.name_of(next((labels[key] for key in self.type_labels if labels.get(key)), ""))

    def is_driver(self, name: str) -> bool:
        """Return whether the devices of this driver are GPUs."""
        return any(fnmatchcase(name, pattern) for pattern in self.drivers)

    def name_of(self, product: str) -> str:
        """Return the GPU type of a product, such as NVIDIA-H100-80GB-HBM3, as users write it."""
        folded = product.casefold()
        for name, patterns in self.types.items():
            if folded == name.casefold() or any(fnmatchcase(folded, pattern.casefold()) for pattern in patterns):
                return name
        plain = re.sub(r"[^a-z0-9.]+", "-", folded).strip("-.")
        return re.sub(r"^(nvidia|amd|tesla|intel)-+", "", plain)


def _checked_amounts(resources: dict[str, Any]) -> dict[str, Any]:
    for name, amount in resources.items():
        if name in ("cpu", "memory"):
            raise FieldError(f"{name} cannot be added to a member", "set it under defaults or ceilings")
        parse_memory_bytes(amount)
    return resources
