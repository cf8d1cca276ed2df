"""`kaji logout`: sign out of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_context, connection_options

if TYPE_CHECKING:
    from kajitori.configuration.contexts import SignedIn


@click.command(epilog="\b\nExample:\n  kaji logout")
@click.argument("name", required=False, shell_complete=complete_context)
@connection_options
@click.pass_obj
def command(cli: Cli, name: str | None) -> None:
    """Sign out of a server.

    Deletes its tokens here, and revokes them at the OpenID provider if that is possible. Without NAME: the server that
    commands use. A token that was already sent to the server stays valid there until it expires.
    """
    from kajitori.cli.terminal import say
    from kajitori.client.target import choose, chosen_sign_in, sign_in_file
    from kajitori.configuration import contexts
    from kajitori.errors import KajitoriError, NotFound

    chosen = chosen_sign_in(cli.runtime_dir)
    file = sign_in_file(name, cli.runtime_dir) if name else chosen
    if file is None or not file.exists():
        raise NotFound("you are not signed in there" if name else "you are not signed in", hint="see kaji context ls")
    try:
        with contexts.changing(file) as context:
            revoked = _revoke_tokens(cli, context)
    except KajitoriError as error:
        revoked = False
        say(f"note: the sign-in could not be revoked at the provider: {error.message}")
    contexts.forget(file)
    if chosen == file:
        choose(None, cli.runtime_dir)
    say(f"Signed out: context {file.stem}" + ("; its tokens are revoked." if revoked else "."))


def _revoke_tokens(cli: Cli, context: SignedIn) -> bool:
    if not context.refresh_token:
        return False
    from kajitori.client.sign_in.asking import Asker
    from kajitori.openid.flows import Client
    from kajitori.openid.tokens import Tokens

    ask = Asker(context.issuer_ca, cli.environment)
    client = Client(ask.provider(context.issuer), context.client_id, context.scopes)
    return ask.revoke(client, Tokens(context.token, context.refresh_token))
