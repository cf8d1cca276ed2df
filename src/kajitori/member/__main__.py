"""Prepares everything that the user's program expects. The exit code says what was missing."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping

from kajitori.core.naming import first_step
from kajitori.member import hosts
from kajitori.member.server import Failure, Server


def main(environment: Mapping[str, str], server: Server | None = None) -> int:
    """Return the exit code. The last line on stderr is the reason, which the kubelet puts into the Pod's status."""
    began = time.monotonic()
    folder = environment[first_step.FOLDER_ENV]
    server = server or Server(
        environment[first_step.SERVER_ENV],
        environment[first_step.TICKET_ENV],
        ca=environment.get(first_step.CA_ENV, ""),
    )
    try:
        _fetch_archives(environment, server, folder, began)
        if first_step.NOTEBOOK_ENV in environment:
            _write_notebook_token(environment, server, folder)
        if first_step.ALONE_ENV in environment:
            return 0
        members = _write_hosts(environment, server, folder, began)
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        return failure.exit_code
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{members} members are known after {time.monotonic() - began:.2f} s\n")
    return 0


def _write_hosts(environment: Mapping[str, str], server: Server, folder: str, began: float) -> int:
    """Wait until the addresses of all members are known, and write the files that name them. Return how many there
    are.

    Raises Failure if they are not known in time.
    """
    # 1. Ask for the addresses, by rank.
    members, rank = int(environment["KAJI_WORLD_SIZE"]), int(environment["KAJI_RANK"])
    addresses = server.addresses(members, _seconds_left(environment, began))
    # 2. Write the host list of the program, for MPI with its keys and start scripts.
    run, attempt, host_name = environment["KAJI_RUN"], int(environment["KAJI_ATTEMPT"]), os.uname().nodename
    slots, by_address = int(environment[first_step.SLOTS_ENV]), first_step.BY_ADDRESS_ENV in environment
    text = hosts.hostfile(run, attempt, addresses, slots, by_address=by_address)
    if first_step.MPI_PORT_ENV in environment:
        from kajitori.member import mpi_files  # expensive to import

        member_names = [line.split()[0] for line in text.splitlines()]
        text = mpi_files.merge_hostfile(text, addresses)
        own = list(dict.fromkeys(addresses)).index(addresses[rank])
        hosts.write(f"{folder}/{first_step.HOSTS_MPICH_FILE}", mpi_files.as_mpich_hostfile(text, own, host_name))
        mpi_files.make(folder, server, rank, member_names, addresses, _seconds_left(environment, began))
    hosts.write(f"{folder}/{first_step.HOSTS_FILE}", text)
    # 3. Write /etc/hosts, by which members find each other by name.
    text = hosts.etc_hosts(hosts.read_known(first_step.ETC_HOSTS), run, attempt, addresses, rank, host_name)
    hosts.write(f"{folder}/{first_step.ETC_HOSTS_FILE}", text)
    return members


def _fetch_archives(environment: Mapping[str, str], server: Server, folder: str, began: float) -> None:
    """Fetch the run's code and its files, if it has any."""
    digest, files_digest = environment.get(first_step.CODE_ENV), environment.get(first_step.FILES_ENV)
    if not digest and not files_digest:
        return
    from kajitori.member import code  # expensive to import

    owner = hosts.parse_owner(environment.get(first_step.OWNER_ENV, ""))
    rank, seconds = int(environment["KAJI_RANK"]), _deadline_seconds(environment)
    if digest:
        files = code.fetch(server, rank, digest, f"{folder}/{first_step.CODE_FOLDER}", seconds, owner)
        sys.stdout.write(f"{files} files of code were unpacked after {time.monotonic() - began:.2f} s\n")
    if files_digest:
        target, modes = (
            f"{first_step.FILES_FOLDER}/{first_step.UNPACKED_FILES}",
            environment[first_step.FILE_MODES_ENV].split(),
        )
        files = code.fetch_files(server, rank, files_digest, modes, target, seconds, owner)
        sys.stdout.write(f"{files} files were unpacked after {time.monotonic() - began:.2f} s\n")


def _write_notebook_token(environment: Mapping[str, str], server: Server, folder: str) -> None:
    """Fetch the notebook's token into a file. On a cluster only the Pod's containers can reach the folder, and the
    program may run as the image's own user."""
    asked = f"/v1/members/notebook?rank={environment['KAJI_RANK']}"
    token = server.document(asked, ("token",), _deadline_seconds(environment))["token"]
    owner = hosts.parse_owner(environment.get(first_step.OWNER_ENV, ""))
    mode = 0o600 if first_step.PRIVATE_ENV in environment else 0o644
    hosts.write(f"{folder}/{first_step.NOTEBOOK_TOKEN_FILE}", token, mode, owner)


def _deadline_seconds(environment: Mapping[str, str]) -> float:
    return float(environment[first_step.DEADLINE_ENV])


def _seconds_left(environment: Mapping[str, str], began: float) -> float:
    """Return the time until the deadline of a first step that began at this time of the monotonic clock."""
    return _deadline_seconds(environment) - (time.monotonic() - began)


if __name__ == "__main__":
    # As the first process of a container it would ignore SIGTERM otherwise.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    sys.exit(main(os.environ))
