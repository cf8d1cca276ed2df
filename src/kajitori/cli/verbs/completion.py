"""`kaji completion`: names of verbs, options and runs in the shell."""

from __future__ import annotations

import click

from kajitori.cli.terminal import echo_as_is

_VARIABLE = "_KAJI_COMPLETE"


@click.command(epilog='\b\nExamples:\n  eval "$(kaji completion bash)"\n  kaji completion fish | source')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that completes names in your shell.

    Verbs, options, and the names of runs.
    """
    from click.shell_completion import get_completion_class

    from kajitori.cli.app import kaji

    found = get_completion_class(shell)
    assert found is not None
    complete = found(kaji, {}, "kaji", _VARIABLE)
    echo_as_is(complete.source_template % complete.source_vars())
