"""Options that people know from `docker run` and `sbatch` and that `kaji run` does not have: an answer for each.

An option that changes nothing important is accepted with a note. Any other is refused with the option that does it
here, together with all else that is wrong. What can be done is an option of `kaji run` itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Options of another tool that have the same answer."""

    names: tuple[str, ...]
    why: str
    """The rule that applies on the cluster."""
    instead: str = ""
    """The way out; empty for options that are accepted with a note."""
    is_flag: bool = False

    @property
    def is_accepted(self) -> bool:
        """Whether the run is submitted all the same."""
        return not self.instead


def _borrowed(names: str, why: str, instead: str = "", *, is_flag: bool = False) -> Borrowed:
    return Borrowed(tuple(names.split()), why, instead, is_flag)


_LEAVE_OUT = "leave it out"
_ASK = "ask the operators of the cluster"

DOCKER = (
    _borrowed("--ulimit", "the node's container runtime sets process limits; nothing is changed"),
    _borrowed("--init", "the program gets SIGTERM itself, without an init process; nothing is changed", is_flag=True),
    _borrowed("--pull", "policy says when images are pulled (images.pullPolicy); nothing is changed"),
    _borrowed("--runtime", "policy chooses the container runtime, and --gpus asks for GPUs; nothing is changed"),
    _borrowed("--cap-drop", "members have only the capabilities that policy leaves them; nothing is changed"),
    _borrowed(
        "--uts --userns --cgroupns --cgroup-parent --isolation",
        "the container runtime decides that; nothing is changed",
    ),
    _borrowed("--hostname --domainname", "members are called RUN-ATTEMPT-RANK; --name chooses the first part"),
    _borrowed("--memory-swap --memory-swappiness --kernel-memory", "there is no swap here; --memory is the only limit"),
    _borrowed("-c --cpu-shares", "a member's share follows from its cores (--cpus); nothing is changed"),
    _borrowed("--pids-limit", "the node's own limit applies; nothing is changed"),
    _borrowed("--log-driver --log-opt", "what a run prints is kept for kaji logs; nothing is changed"),
    _borrowed("--disable-content-trust", "policy says which images may run; nothing is changed", is_flag=True),
    _borrowed("--sig-proxy", "at a terminal Ctrl-C leaves the run alone, and a second one stops it"),
    _borrowed(
        "--device --device-cgroup-rule",
        "only policy gives access to devices other than GPUs",
        f"for GPUs say --gpus 8; for others {_ASK} (policy's inject.resources)",
    ),
    _borrowed(
        "--cap-add",
        "only policy gives additional capabilities",
        f"--privileged, if policy allows it; or {_ASK} (policy's security.addCapabilities)",
    ),
    _borrowed(
        "--security-opt", "policy says how members are confined", f"--privileged, if policy allows it; or {_ASK}"
    ),
    _borrowed(
        "--read-only", "policy says whether images can be written to (security.readOnlyRoot)", _ASK, is_flag=True
    ),
    _borrowed("--pid", "members see their own processes only", "look into one with kaji exec RUN ps"),
    _borrowed("--sysctl", "kernel settings belong to the node", _ASK),
    _borrowed("--group-add", "a program has one user and one group", "--user UID:GID"),
    _borrowed("--tmpfs", "the folder in memory is /dev/shm", "--shm-size 8g, and write to /dev/shm"),
    _borrowed(
        "--volumes-from --volume-driver --storage-opt", "volumes are named one by one", "-v NAME:PATH or -v DIR:PATH"
    ),
    _borrowed("--add-host", "the cluster resolves names", f"use the address itself, or {_ASK}"),
    _borrowed("--dns --dns-option --dns-opt --dns-search", "the cluster's name servers are used", _LEAVE_OUT),
    _borrowed("--ip --ip6 --link-local-ip --mac-address", "the cluster assigns addresses", f"{_LEAVE_OUT}: use names"),
    _borrowed(
        "--link", "runs find each other by name in a network", "--network NAME for both, and --network-alias ALIAS"
    ),
    _borrowed("-P --publish-all", "ports are named one by one", "-p 8888", is_flag=True),
    _borrowed(
        "--cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime --cpuset-cpus --cpuset-mems",
        "cores are requested by number",
        "--cpus 8",
    ),
    _borrowed(
        "--memory-reservation",
        "the limit is also the reservation, unless a run is burstable",
        "--memory SIZE; or in a file: qos: burstable, resources: {memoryRequest: SIZE}",
    ),
    _borrowed("--oom-kill-disable", "a member that needs more than its memory is ended", "--memory SIZE", is_flag=True),
    _borrowed("--oom-score-adj", "a member that needs more than its memory is ended", "--memory SIZE"),
    _borrowed(
        "--blkio-weight --blkio-weight-device --device-read-bps --device-read-iops --device-write-bps "
        "--device-write-iops",
        "disk bandwidth is not limited here",
        _LEAVE_OUT,
    ),
    _borrowed("--stop-signal", "SIGTERM tells a program to end", "--grace 60s sets the time that it has"),
    _borrowed("--cidfile", "-d prints the run's name", "NAME=$(kaji run -d …)"),
    _borrowed("-a --attach", "kaji run follows the output anyway", f"{_LEAVE_OUT}; or -d to follow nothing"),
    _borrowed("--label-file --annotation", "labels are named one by one", "--label KEY=VALUE"),
    _borrowed("--use-api-socket", "no container engine is reached from inside a run", _LEAVE_OUT, is_flag=True),
)

SLURM = (
    _borrowed("--nodes --ntasks", "members are requested by number", "-n 4"),
    _borrowed(
        "--ntasks-per-node --tasks-per-node",
        "a member is one container on one node",
        "-n 4 --gpus 8 --launcher torchrun, which starts a process for each GPU",
    ),
    _borrowed(
        "--gres --gpus-per-node --gpus-per-task --gpus-per-socket", "GPUs are counted per member", "--gpus h100:8"
    ),
    _borrowed("--cpus-per-task --cpus-per-gpu --mincpus", "cores are counted per member", "--cpus 8"),
    _borrowed("--mem --mem-per-cpu --mem-per-gpu", "memory is counted per member", "--memory 64g"),
    _borrowed("--time --time-min", "a plain number means seconds here, not minutes", "--time-limit 1:00:00"),
    _borrowed(
        "--partition --constraint",
        "nodes are chosen by GPU type or label",
        "--gpu-type h100 or --node-selector KEY=VALUE",
    ),
    _borrowed("--nodelist", "nodes are chosen by their labels", "--node-selector kubernetes.io/hostname=NODE"),
    _borrowed(
        "--exclude", "nodes are chosen by their labels", "--node-selector KEY=VALUE; faulty nodes are avoided anyway"
    ),
    _borrowed("--exclusive", "a run can have whole nodes", "--whole-node", is_flag=True),
    _borrowed("-J --job-name", "a run has a name", "--name NAME"),
    _borrowed(
        "-D --chdir", "the program starts in a folder of the image", "--workdir PATH, or --code . for the folder here"
    ),
    _borrowed("-A --account", "a team has a namespace", "--namespace NAME"),
    _borrowed("--qos --nice", "priority is one of three words", "--priority high, normal or low"),
    _borrowed("--dependency", "runs do not wait for each other", "kaji wait RUN && kaji run …"),
    _borrowed("--requeue --no-requeue", "the number of restarts is an option", "--restarts 3", is_flag=True),
    _borrowed("--mail-type --mail-user", "no mail is sent", "kaji wait RUN; then your own command"),
    _borrowed("--error", "what a run prints is read from the cluster", "kaji logs RUN > FILE"),
    _borrowed("--export", "variables are named one by one", "--env NAME=VALUE"),
    _borrowed("--wrap", "the command follows the image", "IMAGE sh -c '…'"),
    _borrowed("--test-only", "a dry run creates nothing", "--dry-run", is_flag=True),
)

BORROWED = {name: option for option in (*DOCKER, *SLURM) for name in option.names}
