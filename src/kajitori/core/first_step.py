"""The first step of a member: what the Pod, the program that runs there, and the kubelets agree on (rule 13).

An init container from our own image gets everything ready that the user's program finds when it starts, and is gone
then. This module is imported by that program, so it imports next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CONTAINER = "kajitori-start"
PROGRAM = "kajitori.member"
"""The Python module that it runs."""

VOLUME = "kajitori"
FOLDER = "/kajitori"
"""Where what it made lies: it writes there, the user's program reads."""
HOSTS_FILE = "hosts"
"""The hostfile: one member a line in rank order, its name and its slots, as mpirun takes it."""
ETC_HOSTS_FILE = "etc-hosts"
"""Becomes the program's /etc/hosts: names of fellow members resolve without DNS, also in images without a shell."""
ETC_HOSTS = "/etc/hosts"

ANNOTATION_OWN_FOLDERS = "kajitori.dev/own-folders"
"""Names of the Pod's volumes that only what we tell it by `KAJI_` variables points to. A node that can mount nothing
gives it folders of its own and says in these variables where they lie."""

HOSTS_ENV = "KAJI_HOSTS"
FOLDER_ENV = "KAJI_START_FOLDER"
SERVER_ENV = "KAJI_START_SERVER"
TICKET_ENV = "KAJI_START_TICKET"
SLOTS_ENV = "KAJI_START_SLOTS"
DEADLINE_ENV = "KAJI_START_DEADLINE"
"""Seconds from its own start until it gives up."""
BY_ADDRESS_ENV = "KAJI_START_BY_ADDRESS"
"""Set by a node where names of members cannot be made to resolve: the hostfile says addresses then."""

DEADLINE_SHARE = 0.9
"""Of the start deadline: so that it is the first step that says what was missing, not the deadline of the gang."""

NO_SERVER = 20
REFUSED = 21
NO_PEERS = 22
"""Exit codes: the server could not be reached; it refused the ticket; not all members got an address. Whatever else it
ends with is a fault of the step itself."""


def is_part_of(pod_spec: Mapping[str, Any]) -> bool:
    """Whether Pods of this spec begin with a first step."""
    return any(container["name"] == CONTAINER for container in pod_spec.get("initContainers") or ())
