"""Policy for Pods that people create without Kajitori: the policy file's section `pods`, as types."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import Text
from kajitori.errors import FieldError

PodRule = Literal[
    "memoryLimit",
    "gpuNodes",
    "gpuType",
    "images",
    "ceilings",
    "privileged",
    "hostNamespaces",
    "hostFolders",
    "capabilities",
    "tolerations",
    "nodeSelector",
    "root",
    "privilegeEscalation",
]
"""A demand of the policy that can be made on all Pods of a namespace."""

_USUAL: tuple[PodRule, ...] = (
    *("memoryLimit", "gpuNodes", "images", "ceilings", "privileged", "hostNamespaces", "hostFolders"),
    *("capabilities", "tolerations", "nodeSelector"),
)
_PATTERN = re.compile(r"[-a-z0-9*]{1,63}", re.ASCII)


class PodRules(Document):
    """Demands on all Pods of some namespaces, by whatever means they are created: kubectl, Helm, an operator. The API
    server enforces them with the admission policies of `kaji policy render`. Members of runs meet them anyway."""

    namespaces: list[str] = Field(default_factory=list, max_length=1000)
    """Names of the namespaces, or patterns with `*`. Empty: the rules apply nowhere. ["*"]: everywhere."""
    except_namespaces: list[str] = Field(default_factory=lambda: ["kube-*", "kajitori"], max_length=1000)
    """Names or patterns of namespaces to which the rules never apply, for example those of the system and of device
    plugins."""
    action: Literal["refuse", "warn"] = "refuse"
    """Treatment of a Pod that breaks a rule. refuse: it is not created. warn: it is created, and the client shows a
    warning. You can begin with warn, look at `kaji policy audit`, and refuse later."""
    rules: list[PodRule] = Field(default_factory=lambda: list(_USUAL))
    """The rules that apply. What each one allows is defined by the sections of this file for runs. memoryLimit: every
    container has a memory limit; if memoryWithoutLimit is default and the API server can change Pods (Kubernetes
    1.36), a container without one gets defaults.memory; nothing is demanded if memoryWithoutLimit is unlimited.
    gpuNodes: Pods without GPUs stay off nodes with GPUs, as gpu.cpuRunsOnGpuNodes says; Pods of DaemonSets are
    exempt. gpuType: Pods with GPUs name their type in their nodeSelector, with a label of gpu.typeLabels, or name
    their node. ceilings: a Pod stays within ceilings.member; a container without a limit counts with its request,
    and the limit of a whole Pod replaces those of its containers. images, tolerations (security.refuseTolerations),
    nodeSelector (inject.nodeSelector), root, privileged, privilegeEscalation and capabilities
    (security.addCapabilities): as for members of runs. hostNamespaces: neither network (unless
    security.allowHostNetwork), process IDs nor IPC of the node. hostFolders: only folders of mounts.hostPaths and
    volumes."""
    reasons: dict[PodRule, Text] = Field(default_factory=dict)
    """Your explanation of a rule, for example the address of a page. Users see it whenever the rule refuses a Pod."""

    @field_validator("namespaces", "except_namespaces")
    @classmethod
    def _patterns(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            if not _PATTERN.fullmatch(pattern):
                raise FieldError(f"{pattern!r:.80} matches no namespace", "write a name, or a pattern such as team-*")
        return patterns

    @field_validator("reasons")
    @classmethod
    def _one_line(cls, reasons: dict[PodRule, str]) -> dict[PodRule, str]:
        for rule, text in reasons.items():
            if len(text) > 500 or not text.isprintable():
                raise FieldError(f"the reason for {rule} is not one line of at most 500 characters", "shorten it")
        return reasons
