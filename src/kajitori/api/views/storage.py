"""Answers about secrets and volumes."""

from __future__ import annotations

from typing import Literal

import msgspec

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
    in_memory: bool = False
    """Whether an emptyDir is kept in memory."""
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


class FileView(View, kw_only=True):
    """A file or folder in a run's checkpoint folder, or in a member."""

    name: str
    """Its name. Bytes that are not UTF-8 are replaced, and the file can only be had with its folder."""
    kind: Literal["folder", "file", "link", "other"]
    """Kind of the file. A link has the kind of its target, or `link` if the target cannot be read."""
    size_bytes: int
    """Size of a file; 0 for all others."""
    modified_at: Time
    readable: bool
    """Whether it can be listed or downloaded under its own name. Links that lead out of the folder cannot."""
    leads_to: str = ""
    """Target of a link."""


class FileList(View, kw_only=True):
    """One page of a folder."""

    folder: str
    """Path of the checkpoint folder in the run's members."""
    path: str
    """Path of the listed folder, relative to that."""
    node: str
    """Node on which the folder is read."""
    items: list[FileView]
    """Folders first, then files, each by name. If the path is a file's, the file alone."""
    count: int
    """Number of entries of the folder."""
    is_file: bool = False
    """Whether the path is a file's."""
    continue_: str | None = msgspec.field(name="continue", default=None)
    """Send this as `continue` for the next page; absent on the last one."""


class MemberFiles(View, kw_only=True):
    """A folder inside a running member."""

    rank: int
    node: str
    path: str
    """Path of the folder in the member, or of the file if the request named one."""
    is_file: bool = False
    items: list[FileView]
    """Folders first, then files, each by name. If the path is a file's, the file alone."""
    has_more: bool = False
    """Whether the folder has more entries, which are not listed."""


class UploadedFile(View):
    """A file that was put into a member."""

    rank: int
    path: str
    size_bytes: int
