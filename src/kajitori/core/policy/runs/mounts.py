"""Policy for mounts: the policy file's sections `volumes`, `mounts` and `checkpoint`, as types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import AbsolutePath, Memory, ObjectName
from kajitori.errors import FieldError


class Nfs(Document):
    """A folder that an NFS server exports."""

    server: Annotated[str, Field(min_length=1, max_length=253)]
    """Host name of the server."""
    path: AbsolutePath
    """The exported folder."""


class EmptyFolder(Document):
    """An empty folder for each member, deleted together with the member."""

    size_bytes: Memory | None = Field(default=None, alias="size")
    """Maximum size. A member that writes more is evicted."""
    memory: bool = False
    """Keep the folder in memory (tmpfs). Its contents count against the member's memory limit."""


class Volume(Document):
    """A volume that runs may mount by name. It has exactly one source."""

    claim: ObjectName | None = None
    """Name of a PersistentVolumeClaim in the run's namespace."""
    host_path: AbsolutePath | None = None
    """A folder of the node."""
    nfs: Nfs | None = None
    """A folder that an NFS server exports."""
    config_map: ObjectName | None = None
    """Name of a ConfigMap in the run's namespace."""
    secret: ObjectName | None = None
    """Name of a Secret in the run's namespace."""
    empty_dir: EmptyFolder | None = None
    """An empty folder for each member, deleted together with the member."""
    read_only: bool = False
    """Whether the volume is always mounted read-only."""
    sub_path: str | None = Field(default=None, min_length=1, max_length=1024)
    """Mount only this folder of the volume. A path relative to the volume's root."""

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        sources = (self.claim, self.host_path, self.nfs, self.config_map, self.secret, self.empty_dir)
        if sum(source is not None for source in sources) != 1:
            hint = "give one of claim, hostPath, nfs, configMap, secret and emptyDir"
            raise FieldError("a volume needs exactly one source", hint)
        if self.sub_path is not None and (self.sub_path.startswith("/") or ".." in self.sub_path.split("/")):
            message = f"subPath {self.sub_path!r:.80} leads outside of the volume"
            raise FieldError(message, "write a relative path without '..'")
        return self


class Mounts(Document):
    """Rules for mounts other than named volumes."""

    host_paths: list[AbsolutePath] = Field(default_factory=list)
    """Folders of the nodes that runs may mount, including everything below them. Users who can create symbolic links
    there can reach whatever the links point to."""
    own_path_only: bool = False
    """Set this if the nodes cannot mount anything. A folder is then available only at its own path (`-v $PWD:$PWD`),
    and every other mount is refused."""


AccessMode = Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]
"""Access modes of a PersistentVolumeClaim that members may write to."""


class CheckpointPolicy(Document):
    """Storage of checkpoints."""

    kind: Literal["claim", "folder", "none"] = "claim"
    """claim: each run has a PersistentVolumeClaim. folder: a folder below root, on the node or on a file system that
    all nodes share. none: this cluster has no checkpoints."""
    storage_class: ObjectName | None = None
    """StorageClass of the claims. Left out: the cluster's default."""
    access_mode: AccessMode | None = None
    """Access mode of the claims. Left out: ReadWriteOnce for runs and notebooks of one member, which every provisioner
    has, and ReadWriteMany for all others, since their members mount the same checkpoint on several nodes. A claim that
    exists keeps its mode."""
    root: AbsolutePath | None = None
    """For kind folder: a run's checkpoint is stored at {root}/{namespace}/{run}."""
    deletable: bool = False
    """For kind folder: whether the controller has access to the same folder and may delete checkpoints in it when
    `kaji rm -v` asks for that. If not, they have to be deleted by hand."""

    def access_mode_for(self, members: int) -> AccessMode:
        """Return the access mode of a new claim of a run with this many members."""
        return self.access_mode or ("ReadWriteOnce" if members == 1 else "ReadWriteMany")

    @model_validator(mode="after")
    def _folder_needs_root(self) -> CheckpointPolicy:
        if self.kind == "folder" and self.root is None:
            raise FieldError("kind folder needs root", "set root to a folder that exists on every node")
        return self
