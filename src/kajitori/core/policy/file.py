"""The policy file: reading it, and the policies that exist without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kajitori.core.documents.files import parse_document
from kajitori.core.policy.model import Policy

__all__ = ["Policy", "default_policy", "on_own_cluster", "own_machine_policy", "parse_policy", "with_first_step"]


def default_policy() -> Policy:
    """The policy of a cluster whose operators wrote none: no root, no privileges, no folders of the nodes."""
    return Policy()


def own_machine_policy(home: str, *, mounts: bool, checkpoint_root: str, folders: Sequence[str] = ()) -> Policy:
    """The policy of `kaji up`: one's own machine, where programs run as oneself and one's own folders may be mounted.

    `home` and `folders` are the folders that may be; `mounts` tells whether this machine can mount anything at all;
    checkpoints lie below `checkpoint_root`.
    """
    document: dict[str, Any] = {
        "mounts": {"hostPaths": list(dict.fromkeys([home, *folders])), "ownPathOnly": not mounts},
        "checkpoint": {"kind": "folder", "root": checkpoint_root, "deletable": True},
        "security": {
            "allowRoot": True,
            "allowHostNetwork": True,
            "allowPrivilegeEscalation": True,
            "dropCapabilities": [],
            "seccompProfile": "",
        },
        "memory": {"sampleEvery": "10s"},
        "start": {"deadline": "2m", "pause": "2s", "longestPause": "1m"},
    }
    return parse_policy(document)


def with_first_step(policy: Policy, image: str, server: str, server_ca: str | None = None) -> Policy:
    """The policy, where it says nothing of the first step of members with one: from this image, asking this server."""
    if policy.start.image is not None:
        return policy
    step = {"image": image, "server": server, "server_ca": server_ca}
    return policy.model_copy(update={"start": policy.start.model_copy(update=step)})


def on_own_cluster(policy: Policy, image: str, server: str, server_ca: str | None = None) -> Policy:
    """The policy on the cluster of `kaji up` itself: with a first step, and without a network plugin, so that nobody
    heeds NetworkPolicies."""
    network = policy.network.model_copy(update={"enforced": False})
    return with_first_step(policy, image, server, server_ca).model_copy(update={"network": network})


def parse_policy(text_or_document: str | bytes | Mapping[str, Any]) -> Policy:
    """The policy that a YAML text or a document says; an empty text is the default policy.

    Raises InvalidInput with every fault at once, each with its path and, for a text, its line.
    """
    return parse_document(Policy, text_or_document, "policy", "defaults, ceilings and volumes")
