"""What members of an `mpi` run find: keys of the attempt, the scripts that start them, who has an sshd."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from kajitori.core.words import first_step
from kajitori.member.hosts import write
from kajitori.member.server import Server

SCRIPTS = os.path.join(os.path.dirname(__file__), "mpi")  # noqa: PTH118, PTH120 - importing pathlib takes longer

ALIAS = "kajitori"
"""What every member's sshd is called in known_hosts: they share one host key, which lives as long as the attempt."""

_KEYS = ("clientKey", "clientPublicKey", "hostKey", "hostPublicKey")


def make(
    folder: str, server: Server, rank: int, hosts: Sequence[str], addresses: Sequence[str], seconds: float
) -> None:
    """Fills the folder of keys and scripts.

    hosts: what members are called in the hostfile, by rank. Members that share an address share the sshd of the first.
    Raises Failure.
    """
    keys = server.document(f"/v1/members/ssh?rank={rank}", _KEYS, seconds)
    mpi = f"{folder}/{first_step.MPI_FOLDER}"
    os.makedirs(mpi, exist_ok=True)  # noqa: PTH103
    # Of somebody else perhaps than the program: that makes its own folder in there.
    os.chmod(mpi, 0o777)  # noqa: PTH101
    for script in sorted(os.listdir(SCRIPTS)):  # noqa: PTH208
        shutil.copy(f"{SCRIPTS}/{script}", f"{mpi}/{script}")
        os.chmod(f"{mpi}/{script}", 0o755)  # noqa: PTH101
    write(f"{mpi}/key", keys["clientKey"])
    write(f"{mpi}/host_key", keys["hostKey"])
    write(f"{mpi}/host_key.pub", f"{keys['hostPublicKey']}\n")
    write(f"{mpi}/known_hosts", f"{ALIAS} {keys['hostPublicKey']}\n")
    # A key that somebody else got hold of opens nothing: only members are let in.
    origins = ",".join(sorted(set(addresses)))
    write(f"{mpi}/authorized_keys", f'from="{origins}",no-pty,no-port-forwarding {keys["clientPublicKey"]}\n')
    serving = ranks_that_serve(addresses)
    write(f"{mpi}/sshds", "".join(f"{hosts[each]}\n" for each in serving))
    if rank in serving:
        write(f"{mpi}/serves", "")


def ranks_that_serve(addresses: Sequence[str]) -> list[int]:
    """Who has an sshd: the first member at every address but rank 0's, where mpirun itself is."""
    first: dict[str, int] = {}
    for rank, address in enumerate(addresses):
        first.setdefault(address, rank)
    return [rank for rank in first.values() if rank]


def merged(hostfile: str, addresses: Sequence[str]) -> str:
    """The hostfile with one line for each address, and the slots of all members there: mpirun refuses a machine that
    is listed twice, under whatever names."""
    slots: dict[str, int] = {}
    called: dict[str, str] = {}
    for line, address in zip(hostfile.splitlines(), addresses, strict=True):
        name, _, count = line.partition(" slots=")
        called.setdefault(address, name)
        slots[address] = slots.get(address, 0) + int(count)
    return "".join(f"{called[address]} slots={count}\n" for address, count in slots.items())


def in_mpichs_words(hostfile: str, own: int, host_name: str) -> str:
    """The hostfile as MPICH and Intel MPI take it: `bert-2-1.bert:8`.

    own: the line of this member, which calls itself `host_name`: by any other name Intel's mpirun and MPICH's up to
    version 4.0 take it for another machine, and want to log in there.
    """
    lines = hostfile.replace(" slots=", ":").splitlines()
    lines[own] = f"{host_name}:{lines[own].rpartition(':')[2]}"
    return "".join(f"{line}\n" for line in lines)
