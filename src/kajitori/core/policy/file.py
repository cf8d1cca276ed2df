"""Reading of the policy file, and the policies that apply without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kajitori.core.documents.files import parse_document
from kajitori.core.policy.contradictions import contradictions
from kajitori.core.policy.model import Policy

__all__ = ["Policy", "default_policy", "on_own_cluster", "own_machine_policy", "parse_policy", "with_first_step"]


def default_policy() -> Policy:
    """Return the policy of a cluster without a policy file: no root, no privileges, no folders of the nodes."""
    return Policy()


def own_machine_policy(
    home: str,
    *,
    mounts: bool,
    checkpoint_root: str,
    folders: Sequence[str] = (),
    images: bool = False,
    simulated_nodes: int = 0,
) -> Policy:
    """Return the policy of `kaji up`: programs run as the user who called it, and may mount that user's folders.

    `home` and `folders` are the folders that may be mounted. `mounts` tells whether this machine can mount anything:
    then each member may also have empty folders of its own. Checkpoints are stored below `checkpoint_root`. With
    `images`, an engine of this machine runs real images: those that it has are used as they are, as Docker does. The
    members of all `simulated_nodes` start by this machine's processors, and have more time for it the more there are.
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
        "start": {"deadline": f"{120 + simulated_nodes // 10}s", "pause": "2s", "longestPause": "1m"},
    }
    if mounts:
        document["volumes"] = {"scratch": {"emptyDir": {}}, "scratch-memory": {"emptyDir": {"memory": True}}}
    if images:
        document["images"] = {"pullPolicy": "IfNotPresent"}
    return parse_policy(document)


def with_first_step(policy: Policy, image: str, server: str, server_ca: str | None = None) -> Policy:
    """Return the policy with this image and server for members' first step, unless it already has them."""
    if policy.start.image is not None:
        return policy
    step = {"image": image, "server": server, "server_ca": server_ca}
    return policy.model_copy(update={"start": policy.start.model_copy(update=step)})


def on_own_cluster(
    policy: Policy,
    image: str,
    server: str,
    server_ca: str | None = None,
    *,
    images: bool = False,
    own_command: bool = True,
    own_addresses: bool = False,
) -> Policy:
    """Return the policy for the embedded cluster of `kaji up`. It has a first step, and no network plugin that enforces
    NetworkPolicies, and its users operate it. Its members are processes of a user with a home folder; with `images`
    they are containers, which the engine isolates. own_command: whether a run may leave its command to the image, if
    the file does not say it. own_addresses: whether each Pod has a network namespace, in which it
    can be isolated."""
    network = policy.network.model_copy(update={"enforced": False, "isolates_alone": images or own_addresses})
    home = policy.notebooks.home or ("folder" if images else "unchanged")
    notebooks = policy.notebooks.model_copy(update={"home": home})
    operators = policy.operators if "operators" in policy.model_fields_set else ""
    completed = with_first_step(policy, image, server, server_ca)
    update: dict[str, Any] = {"network": network, "notebooks": notebooks, "operators": operators}
    if "own_command" not in policy.images.model_fields_set:
        update["images"] = policy.images.model_copy(update={"own_command": own_command})
    if own_addresses and policy.start.image is None:
        update["start"] = completed.start.with_server_on_bridge()
    return completed.model_copy(update=update)


def parse_policy(text_or_document: str | bytes | Mapping[str, Any]) -> Policy:
    """Read a policy from YAML text or a document. An empty text is the default policy.

    Raises InvalidInput with all faults at once, each with its path and, for a text, its line.
    """
    return parse_document(Policy, text_or_document, "policy", "defaults, ceilings and volumes", contradictions)
