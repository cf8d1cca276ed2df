"""Verbs of other tools that `kaji` does not have, and the command that does the same here.

`kaji VERB` answers with that command. The page docs/reference/words.md is generated from this table.
"""

from __future__ import annotations

from dataclasses import dataclass

from kajitori.errors import InvalidInput

DOCKER, SLURM, KUBECTL, OTHERS = "Docker", "Slurm", "kubectl", "other tools"

_IMAGES = "Images are built elsewhere and pulled by nodes from a registry."


@dataclass(frozen=True, slots=True)
class Word:
    """A verb of another tool."""

    tool: str
    instead: str
    """The commands that do the same here; if there are several, with the purpose of each."""
    why: str = ""
    """The reason why `kaji` has no such verb, as a sentence."""


WORDS: dict[str, Word] = {
    # Docker: images
    "build": Word(DOCKER, "docker build and docker push, then kaji run IMAGE; or kaji run --code . IMAGE", _IMAGES),
    "buildx": Word(DOCKER, "docker buildx build --push, then kaji run IMAGE", _IMAGES),
    "builder": Word(DOCKER, "docker builder, then kaji run IMAGE", _IMAGES),
    "images": Word(DOCKER, "kaji run IMAGE; kaji policy show (which images are allowed)", _IMAGES),
    "image": Word(DOCKER, "kaji run IMAGE; kaji policy show (which images are allowed)", _IMAGES),
    "pull": Word(DOCKER, "kaji run IMAGE, or kaji run --dry-run IMAGE (makes nothing)", _IMAGES),
    "push": Word(DOCKER, "docker push, then kaji run IMAGE", _IMAGES),
    "tag": Word(DOCKER, "docker tag and docker push, then kaji run IMAGE", _IMAGES),
    "rmi": Word(DOCKER, "nothing to do: nodes remove images when their disks fill up", _IMAGES),
    "search": Word(DOCKER, "docker search, then kaji run IMAGE", _IMAGES),
    "save": Word(DOCKER, "docker save; kaji cp RUN:PATH . (files of a run)", _IMAGES),
    "load": Word(DOCKER, "docker load and docker push, then kaji run IMAGE", _IMAGES),
    "import": Word(DOCKER, "docker import and docker push, then kaji run IMAGE", _IMAGES),
    "manifest": Word(DOCKER, "docker manifest, then kaji run IMAGE", _IMAGES),
    "trust": Word(DOCKER, "kaji policy show (which images are allowed)", _IMAGES),
    "commit": Word(
        DOCKER,
        "kaji run --checkpoint /ckpt IMAGE; kaji cp RUN:PATH .",
        "What a member writes on its own disk goes with it.",
    ),
    "diff": Word(DOCKER, "kaji exec RUN find / -xdev -newer /proc/1", "No list of changed files is kept."),
    "export": Word(DOCKER, "kaji cp RUN:/ - > run.tar"),
    # Docker: containers
    "container": Word(DOCKER, "kaji ps, kaji run, kaji stop, kaji rm (without the word container)"),
    "create": Word(DOCKER, "kaji run -d IMAGE, or kaji run --dry-run IMAGE (makes nothing)", "A run queues by itself."),
    "pause": Word(DOCKER, "kaji stop RUN, later kaji start RUN", "A sleeping program would keep its GPUs from others."),
    "unpause": Word(DOCKER, "kaji start RUN", "Runs are stopped, which frees their GPUs, and started again."),
    "rename": Word(DOCKER, "kaji run --name NAME", "A run keeps its name: its members are called by it."),
    "compose": Word(DOCKER, "kaji run -d -f FILE for each run"),
    "service": Word(DOCKER, "kaji run -d --type service -n 2 IMAGE"),
    "stack": Word(DOCKER, "kaji run -d -f FILE for each run"),
    "swarm": Word(DOCKER, "kaji nodes, kaji gpus"),
    "volume": Word(DOCKER, "kaji volumes; kaji run -v NAME:/data IMAGE (uses one)"),
    "system": Word(DOCKER, "kaji gpus, kaji nodes, kaji prune (cleans up)"),
    "info": Word(DOCKER, "kaji version, kaji nodes, kaji gpus"),
    "config": Word(DOCKER, "kaji context; kaji policy show (what the operators decided)"),
    "plugin": Word(DOCKER, "nothing to do: nodes are set up by whoever runs the cluster"),
    # Slurm
    "sbatch": Word(
        SLURM,
        "kaji run -d --code . IMAGE bash job.sh, with --array, --gpus, --time-limit as in #SBATCH lines",
        "A script runs in an image.",
    ),
    "srun": Word(SLURM, "kaji run IMAGE COMMAND; kaji exec RUN COMMAND (inside a run that is there)"),
    "salloc": Word(SLURM, "kaji run -d --name mine IMAGE sleep infinity, then kaji exec -it mine bash"),
    "squeue": Word(SLURM, "kaji queue (who waits), kaji ps --all-users (all runs)"),
    "scancel": Word(SLURM, "kaji stop RUN, kaji kill RUN (at once), kaji stop --all (all of yours)"),
    "sinfo": Word(SLURM, "kaji nodes, kaji gpus"),
    "scontrol": Word(
        SLURM,
        "kaji describe RUN, kaji nodes (show); kaji update RUN (update); kaji stop RUN, kaji start RUN "
        "(hold, release); kaji drain NODE",
    ),
    "sacct": Word(SLURM, "kaji ps -a, kaji describe RUN, kaji results RUN (the members of a sweep)"),
    "sacctmgr": Word(SLURM, "kaji policy show", "Limits are in the operators' policy file."),
    "sstat": Word(SLURM, "kaji top RUN (processes), kaji ps -o wide (memory peaks)"),
    "sattach": Word(SLURM, "kaji attach RUN, or kaji logs -f RUN"),
    "sbcast": Word(SLURM, "kaji run --code . IMAGE; kaji cp FILE RUN:PATH (into a run that is there)"),
    "sgather": Word(SLURM, "kaji cp RUN:PATH . (of one member), kaji run -v NAME:/data IMAGE (all write to a volume)"),
    "sprio": Word(SLURM, "kaji queue, kaji explain RUN"),
    "sshare": Word(SLURM, "kaji queue, kaji explain RUN"),
    "sdiag": Word(SLURM, "kaji queue, kaji version"),
    "sreport": Word(SLURM, "kaji gpus"),
    "seff": Word(SLURM, "kaji describe RUN"),
    "sview": Word(SLURM, "kaji gpus, kaji nodes, kaji queue"),
    "smap": Word(SLURM, "kaji gpus, kaji nodes"),
    "strigger": Word(SLURM, "kaji wait RUN, then your own command"),
    "scrontab": Word(SLURM, "a cron job of your own that says kaji run -d IMAGE"),
    # kubectl
    "get": Word(KUBECTL, "kaji ps, kaji nodes, kaji inspect RUN (as JSON)"),
    "apply": Word(KUBECTL, "kaji run -d -f FILE"),
    "delete": Word(KUBECTL, "kaji rm RUN"),
    "edit": Word(KUBECTL, "kaji rm -f RUN, then kaji run with other options"),
    "scale": Word(KUBECTL, "kaji run -n 8-32 IMAGE, which grows and shrinks by itself"),
    "rollout": Word(KUBECTL, "kaji restart RUN"),
    "cordon": Word(KUBECTL, "kaji drain NODE"),
    "taint": Word(KUBECTL, "kaji drain NODE, kaji preflight NODE (tests it)"),
    "debug": Word(KUBECTL, "kaji exec -it RUN bash"),
    # others
    "ls": Word(OTHERS, "kaji ps; kaji files RUN (files of its checkpoint)"),
    "list": Word(OTHERS, "kaji ps"),
    "status": Word(OTHERS, "kaji ps, kaji describe RUN"),
    "show": Word(OTHERS, "kaji describe RUN"),
    "submit": Word(OTHERS, "kaji run -d IMAGE COMMAND"),
    "cancel": Word(OTHERS, "kaji stop RUN"),
    "remove": Word(OTHERS, "kaji rm RUN"),
    "shell": Word(OTHERS, "kaji exec -it RUN bash"),
    "bash": Word(OTHERS, "kaji exec -it RUN bash"),
    "tail": Word(OTHERS, "kaji logs -f RUN"),
    "qsub": Word(OTHERS, "kaji run -d IMAGE COMMAND"),
    "qstat": Word(OTHERS, "kaji queue, kaji ps"),
    "qdel": Word(OTHERS, "kaji stop RUN"),
    "bsub": Word(OTHERS, "kaji run -d IMAGE COMMAND"),
    "bjobs": Word(OTHERS, "kaji queue, kaji ps"),
    "bkill": Word(OTHERS, "kaji kill RUN"),
}


def answer(verb: str) -> InvalidInput | None:
    """Return the error for a verb of another tool, with the command to use; None for any other word."""
    word = WORDS.get(verb)
    if word is None:
        return None
    origin = "a word" if word.tool == OTHERS else f"a word of {word.tool}'s"
    message = f"{verb} is {origin} that kaji does not have. {word.why}".rstrip(". ")
    return InvalidInput.one("", message, value=verb, hint=f"here: {word.instead}")
