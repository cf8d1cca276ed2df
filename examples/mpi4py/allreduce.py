"""MPI from Python: pi as an integral; each rank computes its share, and one allreduce adds them up.

Runs under `mpirun -n 4 python allreduce.py`, or alone as one rank.
"""

from __future__ import annotations

import argparse
import shutil
import sys

try:
    from mpi4py import MPI
except ImportError as missing:
    message = f"This example needs mpi4py ({missing}). Install it: {sys.executable} -m pip install mpi4py"
    if shutil.which("mpirun") is None:
        message += (
            "\nIt also needs an MPI on this machine, such as the package openmpi-bin of Debian: there is no mpirun."
        )
    sys.exit(message)
except RuntimeError as broken:
    sys.exit(f"mpi4py is installed, but it finds no MPI library: {broken}\nInstall one, such as openmpi-bin of Debian.")


def main() -> None:
    parser = argparse.ArgumentParser(description="Pi by numerical integration, with MPI.")
    parser.add_argument("--slices", type=int, default=10_000_000)
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    width = 1.0 / options.slices
    mine = sum(4.0 / (1.0 + ((i + 0.5) * width) ** 2) for i in range(rank, options.slices, size)) * width
    total = world.allreduce(mine, op=MPI.SUM)
    print(f"rank {rank} of {size} on {MPI.Get_processor_name()}: my share {mine:.12f}", flush=True)
    world.Barrier()
    if rank == 0:
        print(f"done: pi is {total:.12f}", flush=True)


if __name__ == "__main__":
    main()
