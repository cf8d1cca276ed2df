"""What people may mount: the policy file's sections `volumes`, `mounts` and `checkpoint`, as types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from kajitori.core.documents.faults import Document
from kajitori.core.documents.fields import AbsolutePath, Memory, ObjectName
from kajitori.errors import FieldError


class Nfs(Document):
    """A folder of a file server."""

    server: Annotated[str, Field(min_length=1, max_length=253)]
    """Its host name."""
    path: AbsolutePath
    """The exported folder."""


class EmptyFolder(Document):
    """An empty folder of each member's own, gone with it."""

    size_bytes: Memory | None = Field(default=None, alias="size")
    """A member that writes more is evicted."""
    memory: bool = False
    """In memory, counted against the member's own."""


class Volume(Document):
    """A volume that people may mount by name: exactly one source."""

    claim: ObjectName | None = None
    """A PersistentVolumeClaim of the run's namespace."""
    host_path: AbsolutePath | None = None
    """A folder of the node."""
    nfs: Nfs | None = None
    """A folder of a file server."""
    config_map: ObjectName | None = None
    """A ConfigMap of the run's namespace."""
    secret: ObjectName | None = None
    """A Secret of the run's namespace."""
    empty_dir: EmptyFolder | None = None
    """An empty folder of each member's own, gone with it."""
    read_only: bool = False
    """Whoever mounts it cannot write."""
    sub_path: str | None = Field(default=None, min_length=1, max_length=1024)
    """Only this folder of it."""

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        sources = (self.claim, self.host_path, self.nfs, self.config_map, self.secret, self.empty_dir)
        if sum(source is not None for source in sources) != 1:
            raise FieldError("a volume has exactly one source", "claim, hostPath, nfs, configMap, secret or emptyDir")
        if self.sub_path is not None and (self.sub_path.startswith("/") or ".." in self.sub_path.split("/")):
            raise FieldError(f"subPath {self.sub_path!r:.80} leaves the volume", "write a plain relative path")
        return self


class Mounts(Document):
    """What else people may mount."""

    host_paths: list[AbsolutePath] = Field(default_factory=list)
    """Folders of the nodes that may be mounted, with all below them. Whoever can make symbolic links there can reach
    whatever they point to."""
    own_path_only: bool = False
    """The nodes cannot mount anything: a folder works at its own path only (`-v $PWD:$PWD`), all else is refused."""


class CheckpointPolicy(Document):
    """Where checkpoints lie."""

    kind: Literal["claim", "folder", "none"] = "claim"
    """claim: a PersistentVolumeClaim of each run. folder: a folder under root on the node or on a file system that all
    nodes share. none: there are no checkpoints here."""
    storage_class: ObjectName | None = None
    """Left out: the cluster's default."""
    access_mode: Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"] = "ReadWriteMany"
    """All members of a gang see the same checkpoint: ReadWriteMany, unless every gang has one member or one node."""
    root: AbsolutePath | None = None
    """For kind folder: a run's checkpoint lies at {root}/{namespace}/{run}."""
    deletable: bool = False
    """For kind folder: the controller sees the same folder and may delete checkpoints in it, as `kaji rm -v` asks for.
    Otherwise they are deleted by hand."""

    @model_validator(mode="after")
    def _folder_needs_root(self) -> CheckpointPolicy:
        if self.kind == "folder" and self.root is None:
            raise FieldError("kind folder needs root", "name a folder that exists on every node")
        return self
