"""Options that people know from `docker run` and `sbatch` and that `kaji run` does not have: an answer for each.

An option that changes nothing important is accepted with a note. Any other is refused with the option that does it
here, together with all else that is wrong. What can be done is an option of `kaji run` itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

_SAID = "kajitori.borrowed_options"


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Options of another tool that have the same answer."""

    names: tuple[str, ...]
    why: str
    """What applies here instead."""
    instead: str = ""
    """The way out; empty for options that are accepted with a note."""
    is_flag: bool = False

    @property
    def is_accepted(self) -> bool:
        """Whether the run is submitted all the same."""
        return not self.instead


def _of(names: str, why: str, instead: str = "", *, is_flag: bool = False) -> Borrowed:
    return Borrowed(tuple(names.split()), why, instead, is_flag)


_LEAVE_OUT = "leave it out"
_ASK = "ask the operators of the cluster"

DOCKER = (
    _of("--ulimit", "limits of processes are those of the node's container runtime; nothing is changed"),
    _of("--init", "no init is started, the program gets SIGTERM itself; nothing is changed", is_flag=True),
    _of("--pull", "policy says when images are pulled (images.pullPolicy); nothing is changed"),
    _of("--runtime", "policy chooses the container runtime, and --gpus gives GPUs; nothing is changed"),
    _of("--cap-drop", "members have the few rights that policy leaves them; nothing is changed"),
    _of("--uts --userns --cgroupns --cgroup-parent --isolation", "that is the container runtime's; nothing is changed"),
    _of("--hostname --domainname", "members are called RUN-ATTEMPT-RANK, of which --name chooses the first part"),
    _of("--memory-swap --memory-swappiness --kernel-memory", "there is no swap here, the limit is --memory alone"),
    _of("--pids-limit", "the node's own limit holds; nothing is changed"),
    _of("--log-driver --log-opt", "what a run prints is kept for kaji logs; nothing is changed"),
    _of("--no-healthcheck", "health is not probed anyway; nothing is changed", is_flag=True),
    _of("--disable-content-trust", "policy says which images may run; nothing is changed", is_flag=True),
    _of("--detach-keys --sig-proxy", "at a terminal Ctrl-C leaves the run alone, and a second one stops it"),
    _of(
        "--device --device-cgroup-rule",
        "devices other than GPUs are policy's to give",
        f"for GPUs say --gpus 8; for others {_ASK} (policy's inject.resources)",
    ),
    _of(
        "--cap-add",
        "rights beyond the usual are policy's to give",
        f"--privileged, where policy allows it; or {_ASK} (policy's security.addCapabilities)",
    ),
    _of("--security-opt", "policy says how members are confined", f"--privileged, where policy allows it; or {_ASK}"),
    _of("--read-only", "policy says whether images can be written to (security.readOnlyRoot)", _ASK, is_flag=True),
    _of("--pid", "members see their own processes only", "look into one with kaji exec RUN ps"),
    _of("--sysctl", "settings of the kernel are the node's", _ASK),
    _of("--group-add", "a program has one user and one group", "--user UID:GID"),
    _of("--tmpfs", "the folder in memory is /dev/shm", "--shm-size 8g, and write to /dev/shm"),
    _of("--volumes-from --volume-driver --storage-opt", "volumes are named one by one", "-v NAME:PATH or -v DIR:PATH"),
    _of("--add-host", "names are the cluster's", f"use the address itself, or {_ASK}"),
    _of("--dns --dns-option --dns-opt --dns-search", "name servers are the cluster's", _LEAVE_OUT),
    _of("--ip --ip6 --link-local-ip --mac-address", "addresses are the cluster's to give", f"{_LEAVE_OUT}: use names"),
    _of("--link --network-alias", "a run is reached by its own name", "--name NAME, and -p PORT"),
    _of("-P --publish-all", "ports are named one by one", "-p 8888", is_flag=True),
    _of(
        "-c --cpu-shares --cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime --cpuset-cpus --cpuset-mems",
        "cores are asked for by their number",
        "--cpus 8",
    ),
    _of(
        "--memory-reservation",
        "what is reserved is the limit, unless a run is burstable",
        "--memory SIZE; or in a file: qos: burstable, resources: {memoryRequest: SIZE}",
    ),
    _of("--oom-kill-disable", "a member that needs more than its memory is ended", "--memory SIZE", is_flag=True),
    _of("--oom-score-adj", "a member that needs more than its memory is ended", "--memory SIZE"),
    _of(
        "--blkio-weight --blkio-weight-device --device-read-bps --device-read-iops --device-write-bps "
        "--device-write-iops",
        "the speed of disks is not shared out here",
        _LEAVE_OUT,
    ),
    _of("--stop-signal", "SIGTERM tells a program to end", "how long it may take is --grace 60s"),
    _of(
        "--health-cmd --health-interval --health-retries --health-start-interval --health-start-period "
        "--health-timeout",
        "health is not probed",
        "let the program exit: members of --type service are started again",
    ),
    _of("--cidfile", "-d prints the run's name", "NAME=$(kaji run -d …)"),
    _of("-a --attach", "what the run prints is followed by itself", f"{_LEAVE_OUT}; or -d to follow nothing"),
    _of("--label-file --annotation", "labels are named one by one", "--label KEY=VALUE"),
    _of("--use-api-socket", "no container engine is reached from inside a run", _LEAVE_OUT, is_flag=True),
)

SLURM = (
    _of("--nodes --ntasks", "members are asked for by their number", "-n 4"),
    _of(
        "--ntasks-per-node --tasks-per-node",
        "a member is one container on one node",
        "-n 4 --gpus 8 --launcher torchrun, which starts a process for each GPU",
    ),
    _of("--gres --gpus-per-node --gpus-per-task --gpus-per-socket", "GPUs are those of each member", "--gpus h100:8"),
    _of("--cpus-per-task --cpus-per-gpu --mincpus", "cores are those of each member", "--cpus 8"),
    _of("--mem --mem-per-cpu --mem-per-gpu", "memory is that of each member", "--memory 64g"),
    _of("--time --time-min", "a number alone is in seconds here, not in minutes", "--time-limit 1:00:00"),
    _of(
        "--partition --constraint", "nodes are chosen by what they are", "--gpu-type h100 or --node-selector KEY=VALUE"
    ),
    _of("--nodelist", "nodes are chosen by their labels", "--node-selector kubernetes.io/hostname=NODE"),
    _of("--exclude", "nodes are chosen by their labels", "--node-selector KEY=VALUE; faulty nodes are avoided anyway"),
    _of("--exclusive", "a node can be had alone", "--whole-node", is_flag=True),
    _of("-J --job-name", "a run has a name", "--name NAME"),
    _of("-D --chdir", "the program starts in a folder of the image", "--workdir PATH, or --code . for the folder here"),
    _of("-A --account", "a team has a namespace", "--namespace NAME"),
    _of("--qos --nice", "three words say who goes first", "--priority high, normal or low"),
    _of("--dependency", "runs do not wait for each other", "kaji wait RUN && kaji run …"),
    _of("--requeue --no-requeue", "how often a program may fail is a number", "--restarts 3", is_flag=True),
    _of("--mail-type --mail-user", "nobody is written to", "kaji wait RUN; then your own command"),
    _of("--error", "what a run prints is read from the cluster", "kaji logs RUN > FILE"),
    _of("--export", "variables are named one by one", "--env NAME=VALUE"),
    _of("--wrap", "the command stands behind the image", "IMAGE sh -c '…'"),
    _of("--test-only", "a run can be tried", "--dry-run", is_flag=True),
)

BORROWED = {name: option for option in (*DOCKER, *SLURM) for name in option.names}


class BorrowingCommand(click.Command):
    """A command that takes these options once one of them is typed: they cost nothing where none is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            if error.option_name not in BORROWED:
                raise
        ctx.meta[_SAID] = {}
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            near = [name for name in error.possibilities or () if name not in BORROWED]
            raise click.NoSuchOption(error.option_name, possibilities=near, ctx=ctx) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        found = super().get_params(ctx)
        return [*found, *_parameters()] if _SAID in ctx.meta else found


def borrowed_words() -> dict[str, str]:
    """Return the options of other tools that were typed, each with its values."""
    return dict(click.get_current_context().meta.get(_SAID, {}))


def _parameters() -> Iterator[click.Option]:
    for option in (*DOCKER, *SLURM):
        for name in option.names:
            kind: dict[str, Any] = {"is_flag": True} if option.is_flag else {"multiple": True}
            yield click.Option(
                [name, f"borrowed_{name.strip('-').replace('-', '_')}"],
                hidden=True,
                expose_value=False,
                callback=_note_down,
                **kind,
            )


def _note_down(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        ctx.meta[_SAID][parameter.opts[0]] = "" if value is True else " ".join(value)
