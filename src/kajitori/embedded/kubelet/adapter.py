"""Interface between the kubelet and a platform above the cluster: how the platform's own Pods are adapted to
this node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Protocol

from kajitori.embedded.kubelet.manifest import Manifest


class Isolation(Enum):
    """Network access of a Pod's containers."""

    NONE = auto()
    """Not restricted by this node."""
    LOOPBACK = auto()
    """The loopback interface only."""
    GROUP = auto()
    """Only other Pods of the same group, which this node cannot enforce."""


class LocalProgram(Protocol):
    """A program of this machine that runs in place of a container's image, as the kubelet's own user."""

    @property
    def argv(self) -> Sequence[str]:
        """The command line."""
        ...

    def environment(
        self,
        container_environment: Mapping[str, str],
        user: int | None,
        group: int | None,
        *,
        mounts: bool,
        is_process: bool,
    ) -> dict[str, str]:
        """Return the program's environment.

        `container_environment` is what the container's own program would find, and `user` and `group` are the numeric
        identifiers that the container asks for. `mounts` says whether this node can mount volumes,
        and `is_process` whether the Pod's containers are processes of the machine.
        """
        ...


class PodAdapter:
    """Adapts the Pods of one platform to a node that runs plain processes and has no images.

    This class adapts nothing. A program that builds a `Kubelet` may pass a subclass.
    """

    variable_prefix = ""
    """Prefix of the environment variables by which the platform's programs find files, and which the kubelet may
    rewrite. Empty: the kubelet rewrites none."""

    def relocatable_volumes(self, pod: Manifest) -> frozenset[str]:
        """Return the names of the Pod's volumes that need no mount.

        If the node cannot mount them, variables that begin with `variable_prefix` name their folders instead.
        """
        return frozenset()

    def local_program(self, pod: Manifest, container: Mapping[str, Any]) -> LocalProgram | None:
        """Return the program that runs in place of the container's image; None to run the container's own command."""
        return None

    def isolation(self, pod: Manifest) -> Isolation:
        """Return how this node must restrict the network access of the Pod's containers.

        Local programs are not restricted: they run in the Pod's own network.
        """
        return Isolation.NONE

    network_prefix = ""
    """Prefix of the names of Services that are networks: their host names are known to Pods in them, and to no other.
    Empty: there are none."""

    def networks(self, pod: Manifest) -> Sequence[str]:
        """Return the names of the Services that are the Pod's networks."""
        return ()

    def traffic_labels(self, pod: Manifest) -> Mapping[str, str]:
        """Return the fields that the Pod's file for traffic counters has beside the kubelet's own fields."""
        return {}
