"""`kaji completion`: the script with which a shell completes `kaji` commands."""

from __future__ import annotations

import click

from kajitori.cli.terminal import echo_as_is


@click.command(
    epilog='\b\nExamples:\n  eval "$(kaji completion bash)"     # in ~/.bashrc\n'
    '  eval "$(kaji completion zsh)"      # in ~/.zshrc\n'
    "  kaji completion fish > ~/.config/fish/completions/kaji.fish"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that completes words in your shell.

    Verbs, options and their words, the runs that a verb is for, images of earlier runs, volumes, files.
    """
    from kajitori.cli.help.completing import SCRIPTS

    echo_as_is(SCRIPTS[shell], nl=False)
