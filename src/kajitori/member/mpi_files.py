"""Files of members of an `mpi` run: keys of the attempt, start scripts, and the list of members with an sshd."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from kajitori.core.naming import first_step
from kajitori.member.hosts import write
from kajitori.member.server import Server

SCRIPTS = os.path.join(os.path.dirname(__file__), "mpi")  # noqa: PTH118, PTH120 - importing pathlib takes longer

ALIAS = "kajitori"
"""Name of every member's sshd in known_hosts. All of them share one host key, which is used for one attempt only."""

_KEYS = ("clientKey", "clientPublicKey", "hostKey", "hostPublicKey")


def make(
    folder: str, server: Server, rank: int, hosts: Sequence[str], addresses: Sequence[str], seconds: float
) -> None:
    """Write keys and scripts into the folder.

    `hosts` are the members' names in the hostfile, by rank. Members that share an address share the sshd of the
    first one. Raises Failure.
    """
    keys = server.document(f"/v1/members/ssh?rank={rank}", _KEYS, seconds)
    mpi = f"{folder}/{first_step.MPI_FOLDER}"
    os.makedirs(mpi, exist_ok=True)  # noqa: PTH103
    # The program may run as another user, and creates its own folder in this one.
    os.chmod(mpi, 0o777)  # noqa: PTH101
    for script in sorted(os.listdir(SCRIPTS)):  # noqa: PTH208
        shutil.copy(f"{SCRIPTS}/{script}", f"{mpi}/{script}")
        os.chmod(f"{mpi}/{script}", 0o755)  # noqa: PTH101
    write(f"{mpi}/key", keys["clientKey"])
    write(f"{mpi}/host_key", keys["hostKey"])
    write(f"{mpi}/host_key.pub", f"{keys['hostPublicKey']}\n")
    write(f"{mpi}/known_hosts", f"{ALIAS} {keys['hostPublicKey']}\n")
    # A stolen key is useless elsewhere: only members' addresses may log in.
    origins = ",".join(sorted(set(addresses)))
    write(f"{mpi}/authorized_keys", f'from="{origins}",no-pty,no-port-forwarding {keys["clientPublicKey"]}\n')
    serving = ranks_with_sshd(addresses)
    write(f"{mpi}/sshds", "".join(f"{hosts[serving_rank]}\n" for serving_rank in serving))
    if rank in serving:
        write(f"{mpi}/serves", "")


def ranks_with_sshd(addresses: Sequence[str]) -> list[int]:
    """Return the ranks that run an sshd: the first member at each address. At the address of rank 0 mpirun itself
    runs."""
    first: dict[str, int] = {}
    for rank, address in enumerate(addresses):
        first.setdefault(address, rank)
    return [rank for rank in first.values() if rank]


def merge_hostfile(hostfile: str, addresses: Sequence[str]) -> str:
    """Return the hostfile with one line per address and the slots of all members there.

    mpirun refuses a machine that is listed twice, under any names.
    """
    slots: dict[str, int] = {}
    names: dict[str, str] = {}
    for line, address in zip(hostfile.splitlines(), addresses, strict=True):
        name, _, count = line.partition(" slots=")
        names.setdefault(address, name)
        slots[address] = slots.get(address, 0) + int(count)
    return "".join(f"{names[address]} slots={count}\n" for address, count in slots.items())


def as_mpich_hostfile(hostfile: str, own: int, host_name: str) -> str:
    """Return the hostfile as MPICH and Intel MPI read it: `bert-2-1.bert:8`.

    `own` is the index of this member's line, which gets its `host_name`: under another name, Intel's mpirun and MPICH's
    up to version 4.0 take it for another machine and try to log in there.
    """
    lines = hostfile.replace(" slots=", ":").splitlines()
    lines[own] = f"{host_name}:{lines[own].rpartition(':')[2]}"
    return "".join(f"{line}\n" for line in lines)
