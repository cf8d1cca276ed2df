"""The first step of a member: names that the Pod, the step's program and the kubelets share (rule 13).

The first step is an init container from Kajitori's image that prepares everything the user's program needs when it
starts. The step's program imports this module, so it imports almost nothing itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CONTAINER = "kajitori-start"
PROGRAM = "kajitori.member"
"""Python module that the container runs."""

VOLUME = "kajitori"
FOLDER = "/kajitori"
"""Folder to which the step writes its results, and from which the user's program reads them."""
HOSTS_FILE = "hosts"
"""The hostfile in mpirun's format: one line per member in rank order, with its name and its slots."""
ETC_HOSTS_FILE = "etc-hosts"
"""The program's /etc/hosts, so that names of other members resolve without DNS, even in images without a shell."""
ETC_HOSTS = "/etc/hosts"

ANNOTATION_OWN_FOLDERS = "kajitori.dev/own-folders"
"""Names of the Pod's volumes that the program finds only through `KAJI_` variables. A node that cannot mount anything
uses separate folders for them, and sets these variables to the folders' paths."""

IMAGE_STEP = "kajitori-image"
"""Init container after the first step, for MPI gangs only. It runs in the user's image, checks that the image contains
what MPI needs, and adds a line for the program's user to a copy of /etc/passwd."""

MPI_FOLDER = "mpi"
"""Folder for SSH keys and the scripts that members run, inside FOLDER."""
PASSWD_FILE = "passwd"
"""The program's /etc/passwd, unless it runs as root."""
ETC_PASSWD = "/etc/passwd"
HOSTS_MPICH_FILE = "hosts-mpich"
"""The hostfile in the format of MPICH and Intel MPI: `name:slots`."""

CODE_FOLDER = "code"
"""Folder for the run's code, inside FOLDER. It is mounted at the path that the run names."""

FILES_VOLUME, FILES_FOLDER = "kajitori-files", "/kajitori-files"
"""Volume of the run's files, and its folder in the step. The program has each file at its own path."""
UNPACKED_FILES = "files"
"""Folder of the files inside their volume."""

HOSTS_ENV = "KAJI_HOSTS"
HOSTS_MPICH_ENV = "KAJI_HOSTS_MPICH"
CODE_DIR_ENV = "KAJI_CODE_DIR"
MPI_ENV = "KAJI_MPI"
"""Path of SSH keys and scripts."""
MPI_PORT_ENV = "KAJI_MPI_PORT"
"""Port of the attempt, on which every member's sshd listens. If it is set, the first step creates SSH keys."""
MPI_PATIENCE_ENV = "KAJI_MPI_PATIENCE"
"""Seconds that rank 0 waits for the other members' sshd."""
MPI_PASSWD_ENV = "KAJI_MPI_PASSWD"
"""Path of the copy of /etc/passwd, if members get one."""
UNFIT_ENV = "KAJI_START_UNFIT"
"""Exit code of the image step if the image is not suitable."""
NOTEBOOK_TOKEN_FILE = "notebook-token"
"""File with the token that the proxy adds to requests for a notebook, inside FOLDER."""
NOTEBOOK_TOKEN_ENV = "KAJI_NOTEBOOK_TOKEN_FILE"
"""Path of that file, for the notebook's program."""
CALLS_SERVER_ENV = "KAJI_CALLS_SERVER"
"""The Web API as members reach it, for programs of sweeps with code: workers get calls of functions there."""
CALLS_CA_ENV = "KAJI_CALLS_CA"
FOLDER_ENV = "KAJI_START_FOLDER"
CA_ENV = "KAJI_START_CA"
"""Certificate authority of an https server, as PEM. Unset: the authorities that the image trusts."""
SERVER_ENV = "KAJI_START_SERVER"
TICKET_ENV = "KAJI_START_TICKET"
SLOTS_ENV = "KAJI_START_SLOTS"
DEADLINE_ENV = "KAJI_START_DEADLINE"
"""Seconds from the step's start until it gives up."""
CODE_ENV = "KAJI_START_CODE"
"""Digest of the run's code, if it has any."""
FILES_ENV = "KAJI_START_FILES"
"""Digest of the archive with the run's files, if it has any."""
FILE_MODES_ENV = "KAJI_START_FILE_MODES"
"""Permissions of the run's files in octal digits, in the archive's order, separated by spaces."""
NOTEBOOK_ENV = "KAJI_START_NOTEBOOK"
"""Set for notebooks. The first step then fetches the notebook's token."""
ALONE_ENV = "KAJI_START_ALONE"
"""Set for members that need no other members' addresses: those of services and of runs with one member."""
OWNER_ENV = "KAJI_START_OWNER"
"""`uid:gid` of the program, set by a node on which the step runs as another user. The code must belong to it."""
PRIVATE_ENV = "KAJI_START_PRIVATE"
"""Set by a node that runs the program as a process of the machine: only the program's user may read its secrets."""
BY_ADDRESS_ENV = "KAJI_START_BY_ADDRESS"
"""Set by a node that cannot make names of members resolve. The hostfile then contains addresses."""

DEADLINE_SHARE = 0.9
"""The step's deadline as a share of the start deadline, so that the step can report what was missing before the gang's
deadline ends the attempt."""

NO_SERVER = 20
REFUSED = 21
NO_PEERS = 22
NO_CODE = 23
UNFIT_IMAGE = 24
"""Exit codes, in this order: the server could not be reached; the server refused the ticket; not all members got an
address; the run's code or files do not exist or could not be unpacked; the image lacks something that the launcher
needs. Any other exit code is a fault of the step itself."""


def file_name(index: int) -> str:
    """Return the name of a run's file in its archive, and below UNPACKED_FILES."""
    return f"{index:03}"


def code_of(pod_spec: Mapping[str, Any]) -> str:
    """Return the digest of the code that Pods with this spec download; empty if there is none."""
    return _value(pod_spec, CODE_ENV)


def files_of(pod_spec: Mapping[str, Any]) -> str:
    """Return the digest of the archive of files that Pods with this spec download; empty if there is none."""
    return _value(pod_spec, FILES_ENV)


def _value(pod_spec: Mapping[str, Any], name: str) -> str:
    for container in pod_spec.get("initContainers") or ():
        for variable in container["env"] if container["name"] == CONTAINER else ():
            if variable["name"] == name:
                return str(variable["value"])
    return ""


def is_part_of(pod_spec: Mapping[str, Any]) -> bool:
    """Whether Pods with this spec begin with a first step."""
    return any(container["name"] == CONTAINER for container in pod_spec.get("initContainers") or ())
