"""The `kaji` command: finds a verb's module when the verb is used, and ends every error as words and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kajitori import __version__
from kajitori.cli.context import COMPLETING, Cli
from kajitori.cli.help.other_words import answer
from kajitori.cli.options import server_options
from kajitori.cli.problems import print_error, print_usage_error, write_bug_report
from kajitori.cli.terminal import echo
from kajitori.core.suggestions import similar
from kajitori.errors import KajitoriError, Unsupported

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS: dict[str, dict[str, str]] = {
    "Runs": {
        "run": "Run a program on the cluster, in Docker's words.",
        "notebook": "Open your notebook, and start it if it does not run.",
        "wait": "Wait until runs have ended; print their exit codes.",
        "stop": "Stop runs; their checkpoints are kept.",
        "park": "Stop runs to free their GPUs; `kaji resume` starts them again.",
        "keep": "Keep runs although their GPUs are idle.",
        "update": "Change runs that wait or run, without starting them again.",
        "label": "Set labels of runs, or remove them (KEY-).",
        "note": "Show the note on a run, or write one.",
        "kill": "End runs at once, or send their programs a signal.",
        "resume": "Start ended runs again, from their checkpoints.",
        "start": "Start ended runs again, and follow one with -a.",
        "restart": "Stop runs and start them again.",
        "rm": "Delete runs.",
        "prune": "Delete your runs that have ended.",
    },
    "Looking at runs": {
        "ps": "List runs: yours that are active, or all.",
        "logs": "Show what a run prints.",
        "attach": "Follow a run from now to its end.",
        "describe": "Tell everything about a run.",
        "explain": "Tell why a run waits, and what would start it.",
        "what-if": "Tell whether a run would start now, and what it would wait for.",
        "why": "Tell whether a running run is stuck, and which rank slows it.",
        "events": "Show what happened to a run, or to all runs.",
        "history": "List runs of all times, also removed ones.",
        "compare": "Show what differs between two to four runs.",
        "inspect": "Show everything about runs as JSON.",
        "open": "Open the web page in your browser, or what a run serves.",
    },
    "What runs do and use": {
        "stats": "Show what the members of a run use now: a live table.",
        "metrics": "Plot what a run used, and its training figures.",
        "tensorboard": "Show a run in TensorBoard, until Ctrl-C.",
        "results": "Show the results of a sweep's members.",
        "report": "Tell where the time of a run went, or that of all runs.",
        "idle": "List runs that hold GPUs and do not use them.",
    },
    "Inside a run": {
        "exec": "Run a command inside a member of a run.",
        "ssh": "Open a shell in a member with OpenSSH's client.",
        "ssh-config": "Let ssh, scp, rsync and editors reach members as hosts.",
        "cp": "Copy files into a member of a run, or out of it.",
        "files": "List the files of a run's checkpoint, also of an ended run.",
        "top": "Show the processes of a member.",
        "stacks": "Show where the processes of a run are in their code.",
        "port": "Show where members of a run listen.",
        "port-forward": "Make ports of a member reachable on this machine.",
    },
    "What runs need": {
        "secret": "Make, list and delete secrets for runs.",
        "volumes": "Show what runs can mount, and their checkpoints.",
    },
    "The cluster": {
        "gpus": "Show which GPUs are free, and who uses the others.",
        "queue": "Show the runs that wait for nodes, in order.",
        "nodes": "Show the nodes and why some take no work.",
        "team": "Show the teams, and write the bindings that give them rights.",
        "policy": "Show, explain, check, compare and apply the policy.",
        "traffic": "Show who talks to the internet, and how much.",
        "network": "Show what every address belongs to.",
        "plan": "Tell how large a cluster can become.",
        "drain": "Empty nodes: runs on them move elsewhere.",
        "uncordon": "Let nodes take work again.",
        "preflight": "Test nodes; those that fail leave the pool.",
        "usage": "Show usage by team, owner, node or day, and its cost.",
        "audit": "Show who changed what, and which clients send too many requests.",
    },
    "Running a cluster": {
        "install": "Install Kajitori in a cluster, or check whether it can be.",
        "upgrade": "Replace an installed version by this one.",
        "backup": "Back up a cluster into one file, while everything runs.",
        "restore": "Restore what a cluster lacks from a backup.",
        "uninstall": "Remove an installation, and leave users' data.",
        "up": "Start the whole platform on this machine.",
        "demo": "See a training survive the loss of a member.",
        "server": "Run the Web API alone.",
        "controller": "Run the controller alone.",
        "relay": "Tell agents about their nodes' Pods, without the API server.",
        "node": "Make this machine a node.",
        "agent": "Watch this node's Pods: their traffic and what members use.",
        "sim": "Add simulated nodes to a cluster.",
    },
    "You": {
        "login": "Sign in at a server.",
        "logout": "Sign out of a server.",
        "whoami": "Show who you are, and where you may do what.",
        "token": "Make, list and delete tokens for robots.",
        "notify": "Choose where messages about your runs arrive.",
    },
    "Other": {
        "context": "Choose the cluster that commands use.",
        "docker": "Let Docker's own client work on the cluster.",
        "mcp": "Give assistants tools for your runs (MCP).",
        "version": "Print the versions of client and server.",
        "completion": "Print a script that completes words in your shell.",
    },
}
"""The verbs by purpose, with their one-line helps: the main page needs them without loading any verb."""

_PIPE_EXIT_CODE = 128 + 13
"""As a shell gives it for SIGPIPE, which Windows does not have."""

VERBS = {verb: text for section in SECTIONS.values() for verb, text in section.items()}


_FOLDERS = {
    "Runs": "runs",
    "Looking at runs": "inspection",
    "What runs do and use": "watching",
    "Inside a run": "members",
    "What runs need": "storage",
    "The cluster": "cluster",
    "Running a cluster": "platform",
    "You": "people",
    "Other": "tool",
}
"""The folder below `cli/verbs` that holds the modules of a section's verbs."""

_MODULES = {
    verb: f"kajitori.cli.verbs.{_FOLDERS[title]}.{verb.replace('-', '_')}"
    for title, section in SECTIONS.items()
    for verb in section
}


class Kaji(click.Group):
    """The group of all verbs. A verb's module is loaded when the verb is used, and no error shows a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        try:
            command = import_module(_MODULES[cmd_name]).command
        except ModuleNotFoundError as error:
            raise _library_missing(cmd_name, error) from error
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            if (elsewhere := answer(args[0])) is not None:
                raise elsewhere
            near = similar(args[0], VERBS)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"there is no verb {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the verbs, without loading any of them, and the options before them."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=text) for verb, text in VERBS.items() if verb.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(verbs.items()), col_max=12)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise _library_missing(ctx.invoked_subcommand or "", error) from error
        except BrokenPipeError:  # before click makes a plain failure of it
            _leave_the_pipe()
            ctx.exit(_PIPE_EXIT_CODE)

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> NoReturn:  # type: ignore[override]
        """Run a command line and end with its exit code (SystemExit)."""
        extra.pop("standalone_mode", None)
        if extra.get("obj") is None:
            extra["obj"] = Cli()
        cli: Cli = extra["obj"]
        words = sys.argv[1:] if args is None else list(args)
        extra["color"] = cli.colour
        if shell := os.environ.get(COMPLETING):
            from kajitori.cli.help.completing import answer_shell

            sys.exit(_run_command(cli, lambda: answer_shell(self, cli, shell, words), words))
        if "--help" in words and asks_for_json(words):
            from kajitori.cli.help.describing import asks_for_description

            if (path := asks_for_description(self, words)) is not None:
                sys.exit(_run_command(cli, lambda: _describe_command(self, path), words))
        sys.exit(
            _run_command(cli, lambda: super(Kaji, self).main(args, prog_name, standalone_mode=False, **extra), words)
        )


def _library_missing(verb: str, error: ModuleNotFoundError) -> Exception:
    """Return the error for a library that is not installed: `pip install kajitori` installs only the libraries of the
    command line."""
    library = (error.name or "").partition(".")[0]
    if library in ("", "kajitori"):
        return error
    extra = {"up": "up", "demo": "up", "mcp": "mcp", "ssh": "ssh", "ssh-config": "ssh"}.get(verb, "server")
    return Unsupported(
        f"`kaji {verb}` needs the library {library}, which the command line alone does not have",
        hint=f"pip install 'kajitori[{extra}]'",
    )


def _describe_command(root: Kaji, path: Sequence[str]) -> None:
    from kajitori.cli.help.describing import description
    from kajitori.cli.printing.output import print_document

    print_document(description(root, path, SECTIONS), "json")


def asks_for_json(words: Sequence[str]) -> bool:
    """Whether words of a command line that could not be read contain `-o json`."""
    own = list(words[: words.index("--")]) if "--" in words else list(words)
    pairs = pairwise(own)
    return any(word in ("-ojson", "--output=json") for word in own) or any(
        option in ("-o", "--output") and value == "json" for option, value in pairs
    )


def _run_command(cli: Cli, command: Any, words: Sequence[str]) -> int:
    try:
        result = command()
        sys.stdout.flush()
        cli.notices.say_own()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stopped:
        return stopped.exit_code
    except click.ClickException as error:
        print_usage_error(error, as_json=cli.output == "json" or asks_for_json(words))
        return error.exit_code
    except KajitoriError as error:
        print_error(error, as_json=cli.output == "json")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        _leave_the_pipe()
        return _PIPE_EXIT_CODE
    except Exception as error:
        where = write_bug_report(error, cli)
        bug = KajitoriError(f"this is a bug in kaji ({type(error).__name__}); {where}", hint=cli.version_hint())
        print_error(bug, as_json=cli.output == "json")
        return 125


def _leave_the_pipe() -> None:
    """Discard the buffered output after the reader of stdout has gone, so that Python prints no error about it at its
    exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):
        pass


@click.group(
    cls=Kaji,
    help="Kajitori runs trainings on a Kubernetes cluster for people who know Docker.\n\n"
    "Begin with `kaji up` on your own machine, or sign in at your group's server: `kaji login URL`.\n\n"
    "\b\nExample:\n  kaji run --gpus 8 -n 4 -v imagenet:/data registry/bert:3 python train.py",
    epilog="Wherever a verb takes a RUN, the beginning of its name is enough if no other run has it. "
    "`kaji VERB --help` shows the options of a verb, and `kaji VERB --help -o json` describes them for programs.",
    subcommand_metavar="VERB [ARGS]...",
    invoke_without_command=True,
    no_args_is_help=False,
)
@click.option("--version", is_flag=True, help="Print the version of kaji.")
@server_options
@click.pass_context
def kaji(ctx: click.Context, version: bool) -> None:
    if version:
        echo(f"kaji {__version__}")
    elif ctx.invoked_subcommand is None:
        echo(ctx.get_help())
