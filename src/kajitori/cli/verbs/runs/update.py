"""`kaji update`: change runs that wait or run, without starting them again."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import done_option, namespace_option, runs_argument, server_options
from kajitori.client.views import View


@click.command(
    epilog="\b\nExamples:\n  kaji update bert --time-limit 7d\n  kaji update bert gpt --priority low --restarts 20\n"
    "  kaji update sweep --array 0-999%128    # 128 members at once\n  kaji update bert --rm-after default\n\n"
    "The word `default` instead of a value removes it, so that the policy's default applies."
)
@runs_argument
@click.option("--time-limit", metavar="TIME", help="End the run this long after its start, such as 7d.")
@click.option("--priority", type=click.Choice(["high", "normal", "low", "default"]), help="Priority in the queue.")
@click.option("--restarts", metavar="N", help="How often in all the program may fail and start again.")
@click.option("--array", metavar="INDICES", help="Of a sweep: its indices, and %N for how many run at once.")
@click.option("--rm-after", metavar="TIME", help="Delete the run this long after its end.")
@click.option(
    "--on-stuck",
    type=click.Choice(["tell", "restart", "default"]),
    help="tell the owner, or restart it, once it is stuck.",
)
@namespace_option()
@done_option
@server_options
@click.pass_obj
def command(cli: Cli, /, runs: tuple[str, ...], namespace: str | None, **options: str | None) -> int:
    """Change runs that wait or run, without starting them again.

    Prints the name of each. A change of a run that has ended counts when it is resumed. Policy limits changes as it
    limits new runs.
    """
    from kajitori.cli.many import for_each
    from kajitori.client.submit.update import in_words, update_body
    from kajitori.client.web_api import run_path
    from kajitori.errors import InvalidInput

    if not any(options.values()):
        raise click.UsageError("Nothing is to be changed: name what, for example --time-limit 7d.")
    body = update_body(options)

    def change(view: View) -> Any:
        try:
            return api.patch(run_path(view), body, uid=view["uid"])
        except InvalidInput as error:
            raise in_words(error, lambda name: f"--{name.replace('_', '-')}") from None

    with cli.api() as api:
        return for_each(api, runs, namespace, change)
