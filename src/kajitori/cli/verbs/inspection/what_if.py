"""`kaji what-if`: whether a run would start now, before it is submitted."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option
from kajitori.cli.submit.borrowing import borrowed_words
from kajitori.cli.terminal import echo, say
from kajitori.cli.verbs.runs import run

if TYPE_CHECKING:
    from collections.abc import Mapping

_AFTERWARDS = {"detach", "detach_keys", "remove", "rank", "all_ranks", "quiet", "dry_run"}
"""Options of `kaji run` that only matter after a run is submitted. They are accepted without effect, so that
`kaji what-if` takes any command line of `kaji run`."""


def _asks_for_a_run() -> list[click.Parameter]:
    """The words of `kaji run`."""
    found: list[click.Parameter] = []
    for parameter in run.command.params:
        if parameter.name == "output":
            continue
        taken = copy(parameter)
        if isinstance(taken, click.Option) and taken.name in _AFTERWARDS:
            taken.hidden = True
        found.append(taken)
    return found


@click.command(
    "what-if",
    cls=type(run.command),
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    epilog="\b\nExamples:\n  kaji what-if -n 4 --gpus 8 --gpu-type h100 registry/bert:3 train.py\n"
    "  kaji what-if -f run.yaml\n  kaji what-if -f run.yaml -n 2    # with fewer members",
)
@output_option("json", "yaml")
@click.pass_obj
def command(cli: Cli, /, output: str | None, **words: Any) -> None:
    """Tell whether a run would start now, and what it would wait for.

    Takes the options of kaji run and creates nothing. With --name, it asks about a waiting run with other options.
    """
    from kajitori.cli.printing.output import print_document
    from kajitori.cli.submit.code import Code
    from kajitori.cli.words.runs import size_words
    from kajitori.client.submit.request import build_request
    from kajitori.client.submit.run_options import RunWords
    from kajitori.client.submit.sending import what_if

    asked = {name: value for name, value in words.items() if name not in _AFTERWARDS}
    pack = Code(cli, quiet=True).pack
    request = build_request(
        RunWords(**asked, borrowed=borrowed_words()),
        environment=cli.environment,
        folder=Path.cwd(),
        read_text=run.read_text_of,
        pack=pack,
        template=run.template_of(cli, words.get("template")),
    )
    if request.faults:
        raise run.all_faults(cli, request)
    for line in request.notes:
        say(line)
    with cli.api() as api:
        answer = what_if(api, run.at_home(api, request))
    if output is not None:
        print_document(answer, output)
        return
    run.note(answer.get("findings") or (), all_of_them=True)
    _print(cli, answer, size_words({"spec": request.spec}), request.spec.get("array"))


command.params = [*_asks_for_a_run(), *command.params]


def _print(cli: Cli, answer: Mapping[str, Any], size: str, array: str | None) -> None:
    """Print the answer. `size` is the range of an elastic gang, `array` the members of a sweep."""
    from kajitori.cli.pages.explanation import print_explanation
    from kajitori.cli.words.runs import plural
    from kajitori.core.formats.node_lists import brief
    from kajitori.core.spec.array import parse_array

    start = answer.get("start") or {}
    if not answer.get("starts"):
        print_explanation(cli, "It would wait", {**start, "phase": ""})
        return
    fit, most = start.get("fitNow", 1), start.get("most", 1)
    if array:  # some members of a large sweep may start before others
        most = len(parse_array(array).indices)
    members = plural(fit, "member")
    if size or fit < most:
        members = f"{fit} of {size or most} members"
    spread = [plural(count, label.rpartition("/")[2]) for label, count in (answer.get("domains") or {}).items()]
    when = "as soon as a controller is back" if start.get("controller") else "now"
    echo(f"It would start {when}: {members} on {brief(answer['nodes'])}{f', in {_listed(spread)}' if spread else ''}")


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
