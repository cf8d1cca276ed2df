"""MPI runs with Debian's Open MPI, MPICH and OpenSSH, across network namespaces that act as nodes.

KAJITORI_MPI names one more MPI to test: its mpirun and its library, separated by a colon.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.harness.cluster import Cluster, this_machine
from tests.harness.web_api import web_api
from tests.helpers.folders import texts_below
from tests.helpers.members import kill_member

from kajitori.cluster.run_object import RUNS
from kajitori.core.naming import names
from kajitori.core.spec.reasons import Phase
from kajitori.kube.resources import PODS

NEEDED = ("sshd", "ssh-keyscan", "ip")
SMALL = {"cpu": 1, "memory": "256Mi"}
MANY_CORES = 16_000
"""Millicores that the node offers, whatever the machine has."""
YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
"""Waiting ranks spin: on a machine with fewer cores than ranks they must yield to the others."""
NOBODY = 54_321
"""A user id without an entry in /etc/passwd."""
PYTHON = "/usr/bin/python3"
"""A Python that every user may run."""
LATE_SECONDS = float(os.environ.get("KAJI_TEST_LATE_SSHD", "2"))
PATIENCE_SECONDS = 240.0
"""The tests start a hundred processes, perhaps on a busy machine."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace for each Pod needs root: run as root"),
    pytest.mark.skipif(
        any(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None for name in NEEDED),
        reason=f"needs {', '.join(NEEDED)} on $PATH or in /usr/sbin: apt-get install openssh-server iproute2",
    ),
]

OPEN_MPI = "mpirun.openmpi:libmpi.so.40"
MPICH = "mpirun.mpich:libmpich.so.12"
"""An mpirun and its library. Intel MPI uses the same Hydra as MPICH."""
MPIS = [pytest.param("real", OPEN_MPI, marks=pytest.mark.real), ("embedded", MPICH)]
if "KAJITORI_MPI" in os.environ:
    MPIS.append(("embedded", os.environ["KAJITORI_MPI"]))

COUNT = r'''
"""Counts to a number, one step a turn of all ranks, from where its file says that the last one came."""
import ctypes, os, sys, time

mpi = ctypes.CDLL(os.environ["LIBRARY"], ctypes.RTLD_GLOBAL)
if hasattr(mpi, "ompi_mpi_comm_world"):
    names = "ompi_mpi_comm_world", "ompi_mpi_int", "ompi_mpi_op_sum"
    cluster, integer, total = (ctypes.byref(ctypes.c_char.in_dll(mpi, name)) for name in names)
else:  # as MPICH and all that share its binary interface number them
    cluster, integer, total = map(ctypes.c_int, (0x44000000, 0x4C000405, 0x58000003))
rank, size, added, step = (ctypes.c_int() for _ in range(4))
path, last, pause_at, go = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(cluster, ctypes.byref(rank))
mpi.MPI_Comm_size(cluster, ctypes.byref(size))
step = int(open(path).read()) if os.path.exists(path) else 0
member = os.environ["KAJI_RANK"]
line = f"rank {rank.value} of {size.value} is member {member} as {os.getuid()} from step {step}\n"
os.write(1, line.encode())  # in one call: ranks share the pipe, and an unbuffered print() writes the line's end apart
while step < last:
    mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(added), 1, integer, total, cluster)
    assert added.value == size.value * (size.value - 1) // 2
    step += 1
    if rank.value == 0:
        with open(path + ".new", "w") as file:
            file.write(str(step))
        os.rename(path + ".new", path)
    while step == pause_at and not os.path.exists(go):
        time.sleep(0.05)
mpi.MPI_Finalize()
'''

SLOW_SSHD = f"""#!/bin/sh
[ "$KAJI_RANK" != 2 ] || sleep {LATE_SECONDS}
exec /usr/sbin/sshd "$@"
"""


@contextlib.asynccontextmanager
async def machine_with_networks(cluster: Cluster) -> AsyncIterator[dict[str, str]]:
    """A cluster with this machine as a node whose Pods have their own addresses, and a Web API that they can reach."""
    number = os.getpid() % (100 * 250)
    network = f"10.{128 + number // 250}.{number % 250}"
    async with (
        this_machine(cluster, pod_network="namespace", pod_cidr=f"{network}.0/24", cpu_millis=MANY_CORES) as selector,
        with_web_api(cluster, f"{network}.1"),
    ):
        yield selector


@contextlib.asynccontextmanager
async def with_web_api(cluster: Cluster, address: str) -> AsyncIterator[None]:
    """A Web API for the first step of members, and a controller."""
    async with web_api(cluster, host=address, for_members=True):
        cluster.start_controller()
        yield


def rank_lines(cluster: Cluster, run: str, attempt: int) -> list[str]:
    """Return the lines of all ranks from the log of rank 0, sorted. Other lines are left out: Open MPI's mpirun
    sometimes complains about its own temporary files."""
    pod = cluster.pods(run, attempt)[0]
    logs = cluster.folder / "kubelet" / "logs" / f"{cluster.namespace}_{pod.metadata.name}_{pod.metadata.uid}"
    texts = texts_below(logs / names.MEMBER_CONTAINER).values()
    lines = [line.split(" ", 3)[-1].strip() for text in texts for line in text.splitlines()]
    return sorted(line for line in lines if line.startswith("rank "))


def installed(implementation: str) -> tuple[str, str]:
    """Return the mpirun and the library, or skip the test."""
    mpirun, library = implementation.split(":")
    if shutil.which(mpirun) is None:
        pytest.skip(f"{mpirun} is not on $PATH: apt-get install openmpi-bin mpich")
    return mpirun, library


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may read, unlike pytest's folders."""
    with tempfile.TemporaryDirectory(prefix="kajitori-mpi-") as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


@pytest.mark.parametrize(("cluster", "implementation"), MPIS, indirect=["cluster"])
async def test_two_mpi_runs_on_one_machine_of_which_one_restarts(
    cluster: Cluster, implementation: str, shared: Path
) -> None:
    """One run runs as root, the other one as an unknown user, with one sshd that starts late. After a member is killed,
    that run continues from its checkpoint."""
    mpirun, library = installed(implementation)
    (shared / "bin").mkdir()
    (shared / "state").mkdir()
    (shared / "state").chmod(0o777)
    slow = shared / "bin" / "sshd"
    slow.write_text(SLOW_SSHD)
    slow.chmod(0o755)
    (shared / "count.py").write_text(COUNT)
    program = [mpirun, PYTHON, str(shared / "count.py")]
    env = YIELDING | {"LIBRARY": library}
    async with machine_with_networks(cluster) as selector:
        common = {"launcher": "mpi", "nodeSelector": selector, "resources": SMALL}
        go = shared / "state" / "go"
        await cluster.submit(
            "nobody",
            **common,
            replicas=3,
            user=str(NOBODY),
            restarts=1,
            env=env | {"PATH": f"{shared}/bin:{os.environ['PATH']}", "WHOSE": cluster.namespace},
            command=[*program, str(shared / "state" / "nobody"), "6", "3", str(go)],
        )
        await cluster.submit(
            "root",
            **common,
            replicas=2,
            env=env,
            command=[*program, str(shared / "state" / "root"), "5", "0", "/"],
        )
        await cluster.reaches("root", Phase.SUCCEEDED, seconds=PATIENCE_SECONDS)
        at_three = lambda: (file := shared / "state" / "nobody").exists() and file.read_text() == "3"  # noqa: E731
        await cluster.until(at_three, "the other run has come to step 3", seconds=PATIENCE_SECONDS)
        assert rank_lines(cluster, "nobody", 1) == [
            f"rank {n} of 3 is member {n} as {NOBODY} from step 0" for n in range(3)
        ]
        assert rank_lines(cluster, "root", 1) == [f"rank {n} of 2 is member {n} as 0 from step 0" for n in range(2)]
        told = [await cluster.client.list(PODS, cluster.namespace), await cluster.client.list(RUNS, cluster.namespace)]
        assert "PRIVATE KEY" not in str(told)

        assert kill_member("WHOSE", cluster.namespace, 1)
        await cluster.reaches("nobody", Phase.RUNNING, attempt=2, seconds=PATIENCE_SECONDS)
        go.touch()
        status = await cluster.reaches("nobody", Phase.SUCCEEDED, seconds=PATIENCE_SECONDS)
        assert (status.restarts, status.exit_code) == (1, 0)
        assert rank_lines(cluster, "nobody", 2) == [
            f"rank {n} of 3 is member {n} as {NOBODY} from step 3" for n in range(3)
        ]
        over = lambda: all(pod.is_finished for pod in (*cluster.pods("root"), *cluster.pods("nobody")))  # noqa: E731
        await cluster.until(over, "the other members have ended with rank 0")


@pytest.mark.parametrize("namespaces", [True, False], ids=["mounts", "no mounts"])
@pytest.mark.parametrize(("cluster", "implementation"), MPIS, indirect=["cluster"])
async def test_mpi_treats_members_with_one_address_as_one_machine(
    cluster: Cluster, implementation: str, namespaces: bool
) -> None:
    """As on a laptop: rank 0 runs the processes of both members, and the other member waits for their end."""
    mpirun, _ = installed(implementation)
    rank, size = "${OMPI_COMM_WORLD_RANK-$PMI_RANK}", "${OMPI_COMM_WORLD_SIZE-$PMI_SIZE}"
    ranks = [mpirun, "/bin/sh", "-c", f"echo rank {rank} of {size} in $KAJI_RANK"]
    async with (
        this_machine(cluster, namespaces=namespaces, cpu_millis=MANY_CORES) as selector,
        with_web_api(cluster, "127.0.0.1"),
    ):
        await cluster.submit("pi", launcher="mpi", replicas=2, nodeSelector=selector, resources=SMALL, command=ranks)
        status = await cluster.reaches("pi", Phase.SUCCEEDED, seconds=PATIENCE_SECONDS)
        assert status.attempts == 1
        assert rank_lines(cluster, "pi", 1) == ["rank 0 of 2 in 0", "rank 1 of 2 in 0"]
