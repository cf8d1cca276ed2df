"""Answers about secrets and volumes."""

from __future__ import annotations

from typing import Literal

from kajitori.api.views.base import Time, View


class SecretView(View):
    """A secret, without its values."""

    name: str
    namespace: str
    type: str
    """`Opaque`, or another type of Kubernetes."""
    keys: list[str] | None
    """Its keys; null if another tool created or changed it."""
    key_count: int
    created_at: Time
    used_by: list[str]
    """Runs of its namespace that name it and have not ended; empty for callers who may not list runs there."""


class SecretList(View):
    """The secrets of a namespace, by name."""

    namespace: str
    items: list[SecretView]


VolumeKind = Literal["claim", "hostPath", "nfs", "configMap", "secret", "emptyDir", "folder", "checkpoint"]


class VolumeView(View, kw_only=True):
    """A volume that runs can mount, or a checkpoint."""

    name: str
    """Value for `-v`: the name of a volume of policy, or a folder of the nodes; for a checkpoint the name of its
    claim."""
    kind: VolumeKind
    source: str
    """Location, in words."""
    read_only: bool = False
    state: str = ""
    """For claims: Bound, Pending, or Missing if the namespace has no claim of that name."""
    size_bytes: int | None = None
    run: str = ""
    """Run of a checkpoint, which may be deleted already."""
    created_at: str = ""
    used_by: list[str]
    """Runs of the namespace that use it and have not ended."""


class VolumeList(View):
    """The volumes that runs of a namespace can mount, and its checkpoints."""

    namespace: str
    items: list[VolumeView]
    note: str
    """Parts that are missing from the list, and why; empty if the list is complete."""
