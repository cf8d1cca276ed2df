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

IMAGE_STEP = "kajitori-image"
"""The step after it, of members that an MPI launcher starts: in the user's own image, to see whether that has what it
takes, and to write a line for the program's user into a copy of its /etc/passwd."""

MPI_FOLDER = "mpi"
"""In our folder: keys, and the scripts that members run."""
PASSWD_FILE = "passwd"
"""Becomes the program's /etc/passwd, where it does not run as root."""
ETC_PASSWD = "/etc/passwd"
HOSTS_MPICH_FILE = "hosts-mpich"
"""The hostfile as MPICH and Intel MPI take it: `name:slots`."""

CODE_FOLDER = "code"
"""Of the run's code, in our folder; the user's program finds it where the run says."""

HOSTS_ENV = "KAJI_HOSTS"
HOSTS_MPICH_ENV = "KAJI_HOSTS_MPICH"
CODE_DIR_ENV = "KAJI_CODE_DIR"
MPI_ENV = "KAJI_MPI"
"""Where keys and scripts lie."""
MPI_PORT_ENV = "KAJI_MPI_PORT"
"""The port of the attempt, on which every member's sshd listens; the first step makes keys where it is told."""
MPI_PATIENCE_ENV = "KAJI_MPI_PATIENCE"
"""Seconds that rank 0 waits for the others' sshd."""
MPI_PASSWD_ENV = "KAJI_MPI_PASSWD"
"""Where the copy of /etc/passwd is to be written, where it becomes the program's own."""
UNFIT_ENV = "KAJI_START_UNFIT"
"""What the step in the user's image ends with where the image is not fit."""
FOLDER_ENV = "KAJI_START_FOLDER"
CA_ENV = "KAJI_START_CA"
"""Who vouches for an https server, as PEM; left out: whom the image trusts."""
SERVER_ENV = "KAJI_START_SERVER"
TICKET_ENV = "KAJI_START_TICKET"
SLOTS_ENV = "KAJI_START_SLOTS"
DEADLINE_ENV = "KAJI_START_DEADLINE"
"""Seconds from its own start until it gives up."""
CODE_ENV = "KAJI_START_CODE"
"""The digest of the run's code, where it has any."""
ALONE_ENV = "KAJI_START_ALONE"
"""Set for members that need not know of each other: of services, and of runs with one member."""
OWNER_ENV = "KAJI_START_OWNER"
"""`uid:gid` of the program, set by a node where the step runs as somebody else: the code is to be his."""
BY_ADDRESS_ENV = "KAJI_START_BY_ADDRESS"
"""Set by a node where names of members cannot be made to resolve: the hostfile says addresses then."""

DEADLINE_SHARE = 0.9
"""Of the start deadline: so that it is the first step that says what was missing, not the deadline of the gang."""

NO_SERVER = 20
REFUSED = 21
NO_PEERS = 22
NO_CODE = 23
UNFIT_IMAGE = 24
"""Exit codes: the server could not be reached; it refused the ticket; not all members got an address; the run's code is
not there, or could not be unpacked; the image lacks what its launcher needs. Whatever else it ends with is a fault of
the step itself."""


def code_of(pod_spec: Mapping[str, Any]) -> str:
    """The digest of the code that Pods of this spec fetch; empty where there is none."""
    for container in pod_spec.get("initContainers") or ():
        for variable in container["env"] if container["name"] == CONTAINER else ():
            if variable["name"] == CODE_ENV:
                return str(variable["value"])
    return ""


def is_part_of(pod_spec: Mapping[str, Any]) -> bool:
    """Whether Pods of this spec begin with a first step."""
    return any(container["name"] == CONTAINER for container in pod_spec.get("initContainers") or ())
