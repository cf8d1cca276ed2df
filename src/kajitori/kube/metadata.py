"""Metadata of objects of the cluster, reduced to the fields that are used here.

The garbage collector does not track the structs: they hold no cycles, and there are millions.
"""

from __future__ import annotations

import msgspec


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, gc=False, frozen=True, kw_only=True):
    """Base of all objects and their parts."""


class OwnerReference(Wire, frozen=True):
    kind: str
    name: str
    uid: str
    controller: bool = False


class ObjectMeta(Wire, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None
