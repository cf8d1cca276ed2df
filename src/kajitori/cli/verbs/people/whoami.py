"""`kaji whoami`: the caller's name, groups and rights in each namespace."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import output_option, server_options


@click.command(epilog="\b\nExample:\n  kaji whoami")
@output_option("json", "yaml", "name")
@server_options
@click.pass_obj
def command(cli: Cli, output: str | None) -> None:
    """Show who you are, and where you may do what.

    As the cluster's API server sees you: user, groups, and your role in each namespace where you may see runs.
    """
    from kajitori.cli.printing.output import print_document, print_pairs
    from kajitori.cli.terminal import echo
    from kajitori.client.roles import who_am_i
    from kajitori.configuration.contexts import read
    from kajitori.openid.tokens import expiry_of

    with cli.api() as api:
        found = who_am_i(api)
        target = api.target
    expires = expiry_of(target.token)
    until = datetime.fromtimestamp(expires, UTC).isoformat().replace("+00:00", "Z") if expires else ""
    if output == "name":
        echo(found["user"])
    elif output is not None:
        print_document(found | {"server": target.url, "tokenExpiresAt": until or None}, output)
    else:
        renews = " (renewed by itself)" if target.signed_in is not None and read(target.signed_in).refresh_token else ""
        roles = [f"{namespace['namespace']} ({namespace['role']})" for namespace in found["namespaces"]]
        roles += [f"all namespaces ({found['everywhere']})"] if found.get("everywhere") else []
        roles += ["operator of the cluster"] if found["operator"] else []
        print_pairs(
            (
                ("User", found["user"]),
                ("Groups", ", ".join(found["groups"])),
                ("Roles", ", ".join(roles) or "none"),
                ("Server", target.url),
                ("Token until", until + renews if until else ""),
            )
        )
